"""Client settings under Kafka's names and under Python's."""

import pytest
from odradek.client.settings import ConsumerSettings, ProducerSettings, configured
from odradek.protocol.settings import SettingsError


def test_both_spellings_are_read_and_keywords_win() -> None:
    settings = configured(
        ProducerSettings,
        {"linger.ms": "5", "acks": 1},
        acks="all",
        bootstrap_servers=["a:1", "b:2"],
    )
    assert settings.linger_ms == 5
    assert settings.acks == "all"
    assert settings.bootstrap_servers == ("a:1", "b:2")


def test_none_means_the_default() -> None:
    assert (
        configured(ConsumerSettings, group_id=None, max_poll_records=None).max_poll_records == 500
    )


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(SettingsError, match=r"(?s)acks.*batch\.size"):
        configured(ProducerSettings, acks="2", batch_size=-1)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SettingsError, match="Unknown configuration lingerms"):
        configured(ProducerSettings, lingerms=5)
