"""Hosted partitions: leaders, followers, ISR, high watermark, fetchers."""
