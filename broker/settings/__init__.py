"""Every setting of a broker, declared in groups; `odradek.broker.config` joins them."""
