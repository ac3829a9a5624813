"""An asyncio Kafka client, its synchronous facade and the command line."""
