"""Declaring, parsing and holding settings."""

import pickle

import pytest
from odradek.protocol.checks import (
    Check,
    Value,
    at_least,
    between,
    either,
    exactly,
    matching,
    non_empty,
    one_of,
)
from odradek.protocol.settings import (
    MAX_INT,
    MAX_LONG,
    Kind,
    Setting,
    Settings,
    SettingsError,
    SettingTable,
    Source,
    boolean,
    double,
    integer,
    long,
    optional_integer,
    password,
    short,
    text,
    words,
)


class Kettle(Settings):
    """A small example."""

    litres = integer("litres", 2, "How much fits in.", check=between(1, 5))
    boil_ms = long("boil.ms", 90_000, "How long it takes.")
    colours = words("colours", ("red",), "What it may be painted with.")
    safe_code = password("safe.code", "Who may switch it on.")


class Whistle(Settings):
    """Another one."""

    pitch = double("pitch", 0.5, "How high it sounds.")


class Kitchen(Kettle, Whistle, also=[text("stove", "gas", "What it stands on.")]):
    """Both, and a setting without an attribute."""


def problem(setting: Setting[Value], given: str) -> str:
    with pytest.raises(SettingsError) as caught:
        setting.parse(given)
    (sentence,) = caught.value.problems
    return sentence


@pytest.mark.parametrize(
    ("setting", "given", "expected"),
    [
        (boolean("x", False, ""), " TRUE ", True),
        (boolean("x", True, ""), "false", False),
        (integer("x", 0, ""), " 2147483647 ", MAX_INT),
        (integer("x", 0, ""), "-2147483648", -MAX_INT - 1),
        (integer("x", 0, ""), "+5", 5),
        (short("x", 0, ""), "-32768", -32768),
        (long("x", 0, ""), "9223372036854775807", MAX_LONG),
        (double("x", 0.0, ""), "1.5e3", 1500.0),
        (double("x", 0.0, ""), ".5", 0.5),
        (text("x", "", ""), "  two words ", "two words"),
        (words("x", (), ""), " a , b,c ", ("a", "b", "c")),
        (words("x", (), ""), "a,,b", ("a", "", "b")),
        (words("x", ("a",), ""), "  ", ()),
        (Setting("x", Kind.CLASS, None, ""), "a.b.C", "a.b.C"),
        (Setting("x", Kind.CLASS, None, ""), " ", None),
        (password("x", ""), " secret ", "secret"),
    ],
)
def test_text_is_parsed_by_kafkas_rules(
    setting: Setting[Value], given: str, expected: Value
) -> None:
    assert setting.parse(given) == expected


@pytest.mark.parametrize(
    ("setting", "given"),
    [
        (integer("x", 0, ""), "2147483648"),
        (integer("x", 0, ""), "1_000"),
        (integer("x", 0, ""), "٣"),
        (integer("x", 0, ""), "1.0"),
        (integer("x", 0, ""), ""),
        (integer("x", 0, ""), "9" * 10_000),
        (short("x", 0, ""), "32768"),
        (long("x", 0, ""), "9223372036854775808"),
        (double("x", 0.0, ""), "a half"),
        (double("x", 0.0, ""), "."),
    ],
)
def test_a_number_outside_its_java_type_is_refused(setting: Setting[Value], given: str) -> None:
    expected = (
        f"Invalid value {given} for configuration x: not a number of type {setting.kind.name}"
    )
    assert problem(setting, given) == expected


def test_a_boolean_must_be_true_or_false() -> None:
    assert problem(boolean("x", False, ""), "yes") == (
        "Invalid value yes for configuration x: must be true or false"
    )


def test_a_refusal_names_the_rule() -> None:
    assert problem(Kettle.litres, "6") == (
        "Invalid value 6 for configuration litres: must be from 1 to 5"
    )


def test_a_refusal_hides_a_secret() -> None:
    assert "1234" not in problem(password("code", "", check=exactly("0")), "1234")


@pytest.mark.parametrize(
    ("check", "good", "bad"),
    [
        (at_least(1), [1, 2, 1.0], [0, -1, None, "1"]),
        (between(0, 1), [0, 0.5, 1], [-0.1, 1.1, None]),
        (one_of("a", "b"), ["a", ("a", "b"), ()], ["A", "c", ("a", "c"), None]),
        (one_of("None", "all", ignore_case=True), ["NONE", "All"], ["some"]),
        (either(between(1, 9), exactly(-1)), [-1, 1, 9], [0, 10]),
        (matching(r"[0-9]+:[0-9]+", "pairs"), ["1:2", ("1:2", "3:4")], ["1", ("1:2", "x"), 1]),
        (non_empty(), ["a", ("a",)], ["", (), None]),
    ],
)
def test_a_check_accepts_what_its_rule_says(
    check: Check, good: list[Value], bad: list[Value]
) -> None:
    assert all(check.accepts(value) for value in good)
    assert not any(check.accepts(value) for value in bad)


def test_values_are_written_as_java_writes_them() -> None:
    assert Kettle.litres.text_of(True) == "true"
    assert Kettle.litres.text_of(3) == "3"
    assert Kettle.litres.text_of(0.5) == "0.5"
    assert Kettle.litres.text_of(1.7976931348623157e308) == "1.7976931348623157E308"
    assert Kettle.litres.text_of(("a", "b")) == "a,b"
    assert Kettle.litres.text_of(None) is None


def test_an_attribute_is_the_declaration_on_the_class_and_the_value_on_an_instance() -> None:
    assert Kettle.litres.name == "litres"
    assert Kettle({}).litres == 2
    assert Kettle({"litres": 3}).litres == 3


def test_groups_join_in_order_and_declare_nothing_twice() -> None:
    assert list(Kitchen.table) == ["litres", "boil.ms", "colours", "safe.code", "pitch", "stove"]
    kitchen = Kitchen({"pitch": 0.7})
    assert (kitchen.litres, kitchen.pitch, kitchen.values["stove"]) == (2, 0.7, "gas")
    with pytest.raises(AssertionError, match="declared twice"):
        SettingTable([Kettle.litres, Kettle.litres])


def test_an_attribute_must_be_called_as_its_setting() -> None:
    with pytest.raises(AssertionError, match="height declares width"):

        class Wrong(Settings):
            height = optional_integer("width", "Not the height.")


def test_a_configuration_does_not_change() -> None:
    kettle = Kettle({})
    with pytest.raises(AttributeError, match="litres stays as it is"):
        kettle.litres = 3


def test_configurations_are_equal_by_their_values() -> None:
    assert Kettle({}) == Kettle({"litres": 2})
    assert Kettle({}) != Kettle({"litres": 3})
    assert Kettle({}) != Whistle({})


def test_a_configuration_shows_what_differs_and_no_secret() -> None:
    shown = repr(Kettle({"litres": 3, "safe.code": "1234"}))
    assert shown == "Kettle(litres=3, safe.code='[hidden]')"


def test_a_configuration_can_be_sent_to_another_process() -> None:
    kettle = Kettle({"litres": 4})
    assert pickle.loads(pickle.dumps(kettle)) == kettle


def test_a_table_parses_what_it_knows_and_names_what_it_does_not() -> None:
    texts = {"litres": "3", "colours": "red,blue", "lid": "yes"}
    assert Kettle.table.parse(texts) == {"litres": 3, "colours": ("red", "blue")}
    assert Kettle.table.unknown(texts) == ["lid"]


def test_a_table_collects_every_problem() -> None:
    with pytest.raises(SettingsError) as caught:
        Kettle.table.parse({"litres": "9", "boil.ms": "soon"})
    assert [sentence.split(":")[0] for sentence in caught.value.problems] == [
        "Invalid value 9 for configuration litres",
        "Invalid value soon for configuration boil.ms",
    ]


def test_wire_numbers_are_those_of_describe_configs() -> None:
    assert {kind.name: kind.value for kind in Kind}["PASSWORD"] == 9
    assert (Source.TOPIC, Source.STATIC_BROKER, Source.DEFAULT) == (1, 4, 5)
