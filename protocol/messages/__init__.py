"""Declarations of every Kafka message, one module per family."""
