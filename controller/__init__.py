"""Cluster metadata: the store, the elected controller, its decisions and their propagation."""
