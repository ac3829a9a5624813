"""The one mechanism behind every configuration of the broker, its topics and its clients.

A setting is declared once, as a class attribute of a `Settings` class:

    class Network(Settings):
        num_io_threads = integer("num.io.threads", 8, "Handlers …", check=at_least(1))

On the class, `Network.num_io_threads` is the declaration; on an instance it is the typed value.
Parsing, validation, DescribeConfigs and the generated documentation all read the declaration.
The attribute's name is the setting's name with underscores for dots.

Texts are parsed by Kafka's rules: surrounding space is dropped, lists split at commas, numbers
keep to the range of their Java type. Every problem is one sentence that names the setting, and
`SettingsError` carries all of them at once. Instances never change; any layer may hold one.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import ClassVar, Generic, NoReturn, Self, TypedDict, TypeVar, Unpack, cast, overload

from odradek.protocol.checks import Check, Value


class Kind(IntEnum):
    """The type of a setting; the numbers are those of DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Source(IntEnum):
    """Where a value came from; the numbers are those of DescribeConfigs."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


class Dynamic(Enum):
    """Whether and for whom a broker setting may change while the broker runs."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    CLUSTER_WIDE = "cluster-wide"


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class SettingsError(ValueError):
    """Settings that cannot be used, each problem a sentence."""

    def __init__(self, problems: Iterable[str]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(self.problems))


@dataclass(frozen=True, slots=True)
class Synonym:
    """Another setting that gives this one its value when it is unset itself.

    `unit` is how much of this setting's unit one unit of the other is: 3 600 000 for hours.
    """

    name: str
    unit: int = 1


T_co = TypeVar("T_co", bound=Value, covariant=True)


class Traits(TypedDict, total=False):
    """What a declaration may add to name, default and doc."""

    check: Check
    dynamic: Dynamic
    importance: Importance
    synonyms: tuple[Synonym, ...]


@dataclass(frozen=True)
class Setting(Generic[T_co]):
    name: str
    kind: Kind
    default: T_co
    doc: str
    check: Check | None = None
    dynamic: Dynamic = Dynamic.READ_ONLY
    importance: Importance = Importance.MEDIUM
    synonyms: tuple[Synonym, ...] = ()

    @property
    def attribute(self) -> str:
        return self.name.replace(".", "_")

    @property
    def secret(self) -> bool:
        return self.kind is Kind.PASSWORD

    def parse(self, text: str) -> T_co:
        """The typed value of `text`. Raises SettingsError with one problem."""
        value = _parse(self, text.strip())
        if self.check is not None and not self.check.accepts(value):
            raise self.refusal(text, f"must be {self.check.rule}")
        return cast(T_co, value)

    def text_of(self, value: Value) -> str | None:
        """How Kafka writes the value; None for a value that is not there."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        if isinstance(value, float):
            return repr(value).replace("e+", "E")
        return None if value is None else str(value)

    def refusal(self, text: str, why: str) -> SettingsError:
        shown = "[hidden]" if self.secret else text
        return SettingsError([f"Invalid value {shown} for configuration {self.name}: {why}"])

    @overload
    def __get__(self, owner: None, kind: type) -> Self: ...

    @overload
    def __get__(self, owner: "Settings", kind: type) -> T_co: ...

    def __get__(self, owner: "Settings | None", kind: type) -> Self | T_co:
        return self if owner is None else cast(T_co, owner.values[self.name])


# Java's ranges: a value that passed here fits the field that carries it on the wire.
_RANGES = {
    Kind.SHORT: (-(2**15), 2**15 - 1),
    Kind.INT: (-(2**31), 2**31 - 1),
    Kind.LONG: (-(2**63), 2**63 - 1),
}
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")

MAX_INT = _RANGES[Kind.INT][1]
MAX_LONG = _RANGES[Kind.LONG][1]


def _parse(setting: Setting[Value], text: str) -> Value:
    match setting.kind:
        case Kind.STRING | Kind.CLASS:
            # Where nothing is the default, an empty text says nothing, too.
            return None if not text and setting.default is None else text
        case Kind.PASSWORD:
            return text
        case Kind.LIST:
            return tuple(re.split(r"\s*,\s*", text)) if text else ()
        case Kind.BOOLEAN:
            if text.lower() not in ("true", "false"):
                raise setting.refusal(text, "must be true or false")
            return text.lower() == "true"
        case Kind.DOUBLE:
            if not _DECIMAL.fullmatch(text):
                raise setting.refusal(text, f"not a number of type {setting.kind.name}")
            return float(text)
        case Kind.INT | Kind.SHORT | Kind.LONG:
            low, high = _RANGES[setting.kind]
            # Length first: int() of endless digits is slow, and no range here has 20 of them.
            if not _WHOLE.fullmatch(text) or len(text) > 20 or not low <= int(text) <= high:
                raise setting.refusal(text, f"not a number of type {setting.kind.name}")
            return int(text)


def boolean(name: str, default: bool, doc: str, **traits: Unpack[Traits]) -> Setting[bool]:
    return Setting(name, Kind.BOOLEAN, default, doc, **traits)


def integer(name: str, default: int, doc: str, **traits: Unpack[Traits]) -> Setting[int]:
    return Setting(name, Kind.INT, default, doc, **traits)


def short(name: str, default: int, doc: str, **traits: Unpack[Traits]) -> Setting[int]:
    return Setting(name, Kind.SHORT, default, doc, **traits)


def long(name: str, default: int, doc: str, **traits: Unpack[Traits]) -> Setting[int]:
    return Setting(name, Kind.LONG, default, doc, **traits)


def double(name: str, default: float, doc: str, **traits: Unpack[Traits]) -> Setting[float]:
    return Setting(name, Kind.DOUBLE, default, doc, **traits)


def text(name: str, default: str, doc: str, **traits: Unpack[Traits]) -> Setting[str]:
    return Setting(name, Kind.STRING, default, doc, **traits)


def words(
    name: str, default: tuple[str, ...], doc: str, **traits: Unpack[Traits]
) -> Setting[tuple[str, ...]]:
    """A list of words, written with commas between them."""
    return Setting(name, Kind.LIST, default, doc, **traits)


def optional_integer(name: str, doc: str, **traits: Unpack[Traits]) -> Setting[int | None]:
    return Setting(name, Kind.INT, None, doc, **traits)


def optional_text(name: str, doc: str, **traits: Unpack[Traits]) -> Setting[str | None]:
    return Setting(name, Kind.STRING, None, doc, **traits)


def password(name: str, doc: str, **traits: Unpack[Traits]) -> Setting[str | None]:
    return Setting(name, Kind.PASSWORD, None, doc, **traits)


class SettingTable(Mapping[str, Setting[Value]]):
    """Settings by name, in the order of their declaration."""

    def __init__(self, settings: Iterable[Setting[Value]] = ()) -> None:
        self._by_name: dict[str, Setting[Value]] = {}
        for setting in settings:
            assert setting.name not in self._by_name, f"{setting.name} is declared twice"
            self._by_name[setting.name] = setting

    def __getitem__(self, name: str) -> Setting[Value]:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)

    def defaults(self) -> dict[str, Value]:
        return {setting.name: setting.default for setting in self.values()}

    def unknown(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name not in self._by_name]

    def parse(self, texts: Mapping[str, str]) -> dict[str, Value]:
        """The typed values of those texts whose names are in the table.

        Raises one SettingsError for all texts that do not parse.
        """
        values: dict[str, Value] = {}
        problems: list[str] = []
        for name, given in texts.items():
            if name not in self._by_name:
                continue
            try:
                values[name] = self._by_name[name].parse(given)
            except SettingsError as error:
                problems += error.problems
        if problems:
            raise SettingsError(problems)
        return values


class Settings:
    """Base of the classes whose attributes are settings.

    A subclass may inherit several groups, and may name more settings in `also`: those have no
    attribute and are reached through `values`.
    """

    table: ClassVar[SettingTable] = SettingTable()
    values: Mapping[str, Value]

    def __init_subclass__(cls, also: Iterable[Setting[Value]] = ()) -> None:
        declared: dict[str, Setting[Value]] = {}
        for base in cls.__bases__:
            if issubclass(base, Settings):
                declared.update(base.table)
        for attribute, setting in vars(cls).items():
            if isinstance(setting, Setting):
                assert attribute == setting.attribute, f"{attribute} declares {setting.name}"
                declared[setting.name] = setting
        cls.table = SettingTable([*declared.values(), *also])

    def __init__(self, values: Mapping[str, Value]) -> None:
        """`values` holds what differs from the declared defaults."""
        complete = self.table.defaults() | dict(values)
        # Writing past __setattr__ once makes reading plain: these entries stand before the
        # declarations of the same name on the class, so an attribute costs one dict look-up.
        self.__dict__["values"] = complete
        self.__dict__.update((self.table[name].attribute, complete[name]) for name in self.table)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{type(self).__name__} does not change: {name} stays as it is")

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.values == other.values

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        shown = (
            f"{name}={'[hidden]' if self.table[name].secret else value!r}"
            for name, value in self.values.items()
            if name in self.table and value != self.table[name].default
        )
        return f"{type(self).__name__}({', '.join(shown)})"
