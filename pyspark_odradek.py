"""Spark finds this module by its name, so that `format("odradek")` needs no registration."""

from odradek.spark_jobs.source import OdradekDataSource as DefaultSource

__all__ = ["DefaultSource"]
