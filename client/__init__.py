"""An asyncio client of Kafka's protocol: connections, cluster, producer, consumer, admin, CLI."""
