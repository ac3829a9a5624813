"""Options, environment and properties files."""

from pathlib import Path

import pytest
from odradek.broker.config_sources import (
    from_environment,
    from_options,
    load,
    parse_properties,
    setting_name,
)
from odradek.protocol.settings import SettingsError


def pairs(text: str) -> list[tuple[str, str]]:
    return [(key, value) for key, value, _ in parse_properties(text)]


@pytest.mark.parametrize(
    "line", ["a.b=c d", "a.b = c d", "a.b:c d", "a.b : c d", "a.b c d", "  a.b\tc d", "a.b\t=\tc d"]
)
def test_a_property_is_separated_by_equals_colon_or_space(line: str) -> None:
    assert pairs(line) == [("a.b", "c d")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("# c\n! c\n\n   # c\na=1", [("a", "1")]),
        ("a=1 # no comment", [("a", "1 # no comment")]),
        ("a=1,\\\n   2,\\\n   3", [("a", "1,2,3")]),
        ("a=1\\\n# still the value", [("a", "1# still the value")]),
        ("a=C:\\\\dir\\\\\nb=2", [("a", "C:\\dir\\"), ("b", "2")]),
        ("a=x\\ty\\u00e9\\=", [("a", "x\ty\u00e9=")]),
        ("a\\=b\\ c=1", [("a=b c", "1")]),
        ("a==b", [("a", "=b")]),
        ("a", [("a", "")]),
        ("a=", [("a", "")]),
        ("a=1\r\nb=2\rc=3", [("a", "1"), ("b", "2"), ("c", "3")]),
        ("a=1\\", [("a", "1")]),
        ("\\\n# a comment\na=1", [("a", "1")]),
        ("a=trailing  ", [("a", "trailing  ")]),
        ("listeners=A://:1,B://:2", [("listeners", "A://:1,B://:2")]),
        ("", []),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: list[tuple[str, str]]) -> None:
    assert pairs(text) == expected


def test_a_property_knows_its_first_line() -> None:
    assert list(parse_properties("# c\na=1\\\n2\nb=3")) == [("a", "12", 2), ("b", "3", 4)]


def test_a_broken_escape_is_told() -> None:
    with pytest.raises(SettingsError, match="Line 2 of the properties has a malformed"):
        pairs("a=1\nb=\\u12")


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("NUM_IO_THREADS", "num.io.threads"),
        ("LISTENER_NAME_SASL__SSL_SCRAM___SHA___256_SASL_JAAS_CONFIG",
         "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config"),
    ],
)  # fmt: skip
def test_a_variable_is_called_after_its_setting(variable: str, name: str) -> None:
    assert setting_name(variable) == name


def test_the_environment_gives_settings_and_nothing_else() -> None:
    given = from_environment(
        {
            "KAFKA_BROKER_ID": "1",
            "KAFKA_CFG_NUM_IO_THREADS": "2",
            "KAFKA_HEAP_OPTS": "-Xmx1g",
            "KAFKA_LOG4J_ROOT_LOGLEVEL": "INFO",
            "KAFKA_JMX_PORT": "9999",
            "PATH": "/bin",
        }
    )
    assert {name: value.text for name, value in given.items()} == {
        "broker.id": "1",
        "num.io.threads": "2",
    }
    assert given["num.io.threads"].where == "KAFKA_CFG_NUM_IO_THREADS"


def test_the_plain_prefix_stands_before_the_longer_one() -> None:
    given = from_environment({"KAFKA_BROKER_ID": "1", "KAFKA_CFG_BROKER_ID": "2"})
    assert given["broker.id"].text == "1"


def test_an_option_is_name_and_value() -> None:
    assert from_options(["a = b=c"])["a"].text == " b=c"
    with pytest.raises(SettingsError, match=r"-o log.dirs must have the form name=value"):
        from_options(["log.dirs"])


def test_options_stand_before_environment_before_file_before_defaults(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("num.io.threads=2\nnum.network.threads=2\nbackground.threads=2\n")
    config = load(
        file=file,
        environment={"KAFKA_NUM_IO_THREADS": "4", "KAFKA_NUM_NETWORK_THREADS": "4"},
        options=["num.io.threads=6"],
    )
    assert config.num_io_threads == 6
    assert config.num_network_threads == 4
    assert config.background_threads == 2
    assert config.queued_max_requests == 500


def test_a_problem_names_the_place_of_the_value(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("# threads\nnum.io.threads=many\n")
    with pytest.raises(SettingsError) as caught:
        load(file=file, environment={"KAFKA_LOG_PREALLOCATE": "x"}, options=["num.partitions=0"])
    assert [problem.rpartition(" (")[2] for problem in caught.value.problems] == [
        "server.properties line 2)",
        "KAFKA_LOG_PREALLOCATE)",
        "option -o)",
    ]


def test_a_file_that_cannot_be_read_is_told_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        load(file=tmp_path / "absent.properties", environment={})
    binary = tmp_path / "binary.properties"
    binary.write_bytes(b"a=\xff\xfe")
    with pytest.raises(SettingsError, match="cannot be read"):
        load(file=binary, environment={})
