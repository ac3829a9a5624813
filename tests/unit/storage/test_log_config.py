"""Topic settings: their chains to the broker's settings, and what a topic adds."""

import pytest
from odradek.protocol.checks import Value
from odradek.protocol.settings import MAX_LONG, Dynamic, Kind, SettingsError
from odradek.storage.log_config import LogConfig, broker_settings

BROKER = {setting.name: setting for setting in broker_settings()}
BROKER_DEFAULTS: dict[str, Value] = {name: setting.default for name, setting in BROKER.items()}
HOUR_MS = 3_600_000


def given(**broker: Value) -> LogConfig:
    return LogConfig.from_broker(
        BROKER_DEFAULTS | {name.replace("_", "."): value for name, value in broker.items()}
    )


def test_a_broker_that_says_nothing_leaves_the_declared_defaults() -> None:
    assert given() == LogConfig({})


def test_every_name_of_a_chain_counts_in_its_unit_and_the_first_wins() -> None:
    assert given(log_retention_hours=2).retention_ms == 2 * HOUR_MS
    assert given(log_retention_hours=2, log_retention_minutes=3).retention_ms == 180_000
    everything = given(log_retention_hours=2, log_retention_minutes=3, log_retention_ms=4)
    assert everything.retention_ms == 4


def test_a_negative_retention_is_no_limit_in_every_unit() -> None:
    assert given(log_retention_hours=-1).retention_ms == -1
    assert given(log_retention_ms=-1).retention_ms == -1


def test_flushing_falls_back_to_the_scheduler_interval() -> None:
    assert given(log_flush_scheduler_interval_ms=3000).flush_ms == 3000
    assert given(log_flush_scheduler_interval_ms=3000, log_flush_interval_ms=50).flush_ms == 50


def test_of_a_chain_the_last_name_carries_the_default() -> None:
    chain = [BROKER[f"log.retention.{unit}"] for unit in ("ms", "minutes", "hours")]
    assert [setting.default for setting in chain] == [None, None, 168]
    assert [setting.kind for setting in chain] == [Kind.LONG, Kind.INT, Kind.INT]


def test_of_a_chain_only_the_first_name_may_change_while_running() -> None:
    chain = [BROKER[f"log.retention.{unit}"] for unit in ("ms", "minutes", "hours")]
    expected = [Dynamic.CLUSTER_WIDE, Dynamic.READ_ONLY, Dynamic.READ_ONLY]
    assert [setting.dynamic for setting in chain] == expected


def test_a_topic_overrides_its_broker() -> None:
    config = given(log_segment_bytes=2048, log_retention_ms=5).with_overrides(
        {"segment.bytes": "4096", "cleanup.policy": "compact, delete"}
    )
    assert (config.segment_bytes, config.retention_ms) == (4096, 5)
    assert config.cleanup_policy == ("compact", "delete")
    assert config.is_compacted
    assert config.has_retention


def test_a_compacted_topic_has_no_retention() -> None:
    config = LogConfig({}).with_overrides({"cleanup.policy": "compact"})
    assert (config.is_compacted, config.has_retention) == (True, False)


def test_a_stored_name_of_another_version_is_passed_over() -> None:
    assert LogConfig({}).with_overrides({"from.the.future": "1"}) == LogConfig({})


def test_an_unknown_name_is_refused_when_somebody_asks_to_store_it() -> None:
    with pytest.raises(SettingsError, match=r"Unknown topic config name: retention\.ns"):
        LogConfig({}).checked({"retention.ns": "1"})


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("segment.bytes", "13"),
        ("retention.ms", "-2"),
        ("min.insync.replicas", "0"),
        ("cleanup.policy", "shred"),
        ("compression.type", "none"),
        ("compression.gzip.level", "0"),
        ("min.cleanable.dirty.ratio", "1.1"),
        ("message.timestamp.type", "createtime"),
        ("leader.replication.throttled.replicas", "1-2"),
        ("message.format.version", "new"),
        ("remote.storage.enable", "true"),
    ],
)
def test_a_bad_value_is_refused_by_name(name: str, bad: str) -> None:
    with pytest.raises(SettingsError, match=f"Invalid value {bad} for configuration {name}: must"):
        LogConfig({}).checked({name: bad})


@pytest.mark.parametrize("replicas", ["*", "0:1", "0:1,12:101", ""])
def test_throttled_replicas_are_pairs_or_all(replicas: str) -> None:
    config = LogConfig({}).checked({"leader.replication.throttled.replicas": replicas})
    assert ",".join(config.leader_replication_throttled_replicas) == replicas


def test_compaction_lags_must_not_cross() -> None:
    with pytest.raises(SettingsError, match=r"min.compaction.lag.ms \(10\) must not exceed"):
        LogConfig({}).checked({"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"})


def test_the_old_timestamp_limit_stands_in_for_the_new_ones() -> None:
    old = LogConfig({}).checked({"message.timestamp.difference.max.ms": "10"})
    assert (old.oldest_timestamp_lag_ms, old.newest_timestamp_lead_ms) == (10, 10)
    both = old.with_overrides({"message.timestamp.after.max.ms": "3"})
    assert (both.oldest_timestamp_lag_ms, both.newest_timestamp_lead_ms) == (10, 3)
    assert LogConfig({}).oldest_timestamp_lag_ms == MAX_LONG
