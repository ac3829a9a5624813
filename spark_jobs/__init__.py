"""Spark structured-streaming source, sink and jobs."""
