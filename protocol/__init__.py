"""Kafka's wire protocol and record formats: no I/O, no asyncio."""
