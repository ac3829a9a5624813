"""Kafka's log on disk: segments, indexes, recovery, retention, compaction.

Synchronous; knows no network.
"""
