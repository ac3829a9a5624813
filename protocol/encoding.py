"""Writes the source of encoders. See `compiler` for why, `schema` for the declarations.

An encoder is `encode(m, out)`: it appends parts to the list `out`. Fixed-size fields wait in a
run until something of variable size comes, and are then packed at once, together with the length
that follows them (a compact one as long as it fits in one byte), with the numbers of an array, or
with the zero byte of an empty section of tagged fields.
"""

from odradek.protocol.primitives import ONE_BYTE, text_uvarint, uvarint
from odradek.protocol.schema import (
    Array,
    Blob,
    Field,
    Fixed,
    Kind,
    Message,
    Nested,
    Records,
    Text,
    Versioned,
)
from odradek.protocol.source import Source

_EMPTY = {"h": "b'\\xff\\xff'", "i": "b'\\xff\\xff\\xff\\xff'"}


def write_encoder(message: type[Versioned], version: int) -> Source:
    writer = _EncoderWriter(version, flexible=version in message.flexible)
    with writer.source.block("def encode(m, out):"):
        writer.source.line("add = out.append")
        writer.struct(message, "m")
    return writer.source


class _EncoderWriter:
    def __init__(self, version: int, *, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.source = Source()
        self.source.names.update(one_byte=ONE_BYTE, uvarint=uvarint, text_uvarint=text_uvarint)
        self._run: list[tuple[str, str]] = []  # (expression, format) not yet packed

    def struct(self, cls: type[Message], subject: str) -> None:
        tagged: list[Field] = []
        for field in cls.fields:
            if self.version not in field.versions:
                continue
            if field.tag is not None:
                tagged.append(field)
            else:
                self._field(field, f"{subject}.{field.name}")
        if self.flexible:
            self._tags(tagged, subject)
        self._flush()

    def _field(self, field: Field, subject: str) -> None:
        nullable = self.version in field.nullable
        compact = self.flexible and field.compact
        self._value(field.kind, subject, nullable=nullable, compact=compact)

    def _value(self, kind: Kind, subject: str, *, nullable: bool, compact: bool) -> None:
        match kind:
            case Fixed(format=format_):
                self._run.append((subject, format_))
            case Text():
                self._optional(subject, kind, "h", nullable=nullable, compact=compact)
            case Blob() | Records() | Array():
                self._optional(subject, kind, "i", nullable=nullable, compact=compact)
            case Nested(struct=cls):
                self._nested(cls, subject, nullable=nullable, null="\\xff")

    def _flush(self) -> None:
        run, self._run = self._run, []
        if run == [("", "x")]:
            self.source.line("add(b'\\x00')")
        elif run:
            self.source.line(f"add({self._packed(run)})")

    def _packed(self, run: list[tuple[str, str]], array: tuple[str, str, str] | None = None) -> str:
        """An expression that packs a run, and an array of (code, count, values) after it."""
        format_ = "".join(code for _, code in run)
        values = [expression for expression, _ in run if expression]
        if array is None:
            return f"{self.source.struct(format_, 'pack')}({', '.join(values)})"
        code, count, items = array
        vectors = self.source.vectors(format_, code, "pack")
        return f"{vectors}[{count}]({', '.join([*values, f'*{items}'])})"

    def _optional(
        self, subject: str, kind: Kind, classic: str, *, nullable: bool, compact: bool
    ) -> None:
        value = self.source.fresh("v")
        if not nullable:
            self.source.line(f"{value} = {subject}")
            self._present(value, kind, classic, compact=compact)
            return
        self._flush()
        self.source.line(f"{value} = {subject}")
        with self.source.block(f"if {value} is None:"):
            self.source.line("add(b'\\x00')" if compact else f"add({_EMPTY[classic]})")
        with self.source.block("else:"):
            self._present(value, kind, classic, compact=compact)

    def _present(self, value: str, kind: Kind, classic: str, *, compact: bool) -> None:
        if isinstance(kind, Text):
            self.source.line(f"{value} = {value}.encode()")
        if isinstance(kind, Array):
            self._array(value, kind.of, compact=compact)
            return
        prefix = self._prefix(value, classic, compact=compact, is_text=isinstance(kind, Text))
        if isinstance(kind, Records):
            self.source.line(f"add({prefix})")
            self.source.line(f"add({value})")
        else:
            self.source.line(f"add({prefix} + {value})")

    def _prefix(self, value: str, classic: str, *, compact: bool, is_text: bool = False) -> str:
        """An expression for the waiting run and the length or count of `value` after it."""
        run, self._run = self._run, []
        if not compact:
            return self._packed([*run, (f"len({value})", classic)])
        length = self.source.fresh("n")
        self.source.line(f"{length} = len({value}) + 1")
        longer = f"text_uvarint({length})" if is_text else f"uvarint({length})"
        if not run:
            return f"(one_byte[{length}] if {length} < 128 else {longer})"
        together, before = self._packed([*run, (length, "B")]), self._packed(run)
        return f"({together} if {length} < 128 else {before} + {longer})"

    def _array(self, value: str, element: Fixed | Text | Blob | Nested, *, compact: bool) -> None:
        if isinstance(element, Fixed):
            self._numbers(value, element.format, compact=compact)
            return
        self.source.line(f"add({self._prefix(value, 'i', compact=compact)})")
        if isinstance(element, Nested):
            self._structs(value, element.struct)
            return
        item = self.source.fresh("v")
        with self.source.block(f"for {item} in {value}:"):
            self._value(element, item, nullable=False, compact=compact)

    def _numbers(self, value: str, code: str, *, compact: bool) -> None:
        """Pack the waiting run, the count and all the values of an array at once."""
        run, self._run = self._run, []
        count = self.source.fresh("n")
        self.source.line(f"{count} = len({value})")
        if not compact:
            self.source.line(f"add({self._packed([*run, (count, 'i')], (code, count, value))})")
            return
        with self.source.block(f"if {count} < 127:"):
            short = self._packed([*run, (f"{count} + 1", "B")], (code, count, value))
            self.source.line(f"add({short})")
        with self.source.block("else:"):
            if run:
                self.source.line(f"add({self._packed(run)})")
            self.source.line(f"add(uvarint({count} + 1))")
            self.source.line(f"add({self._packed([], (code, count, value))})")

    def _structs(self, value: str, cls: type[Message]) -> None:
        item = self.source.fresh("m")
        present = [f for f in cls.fields if self.version in f.versions]
        run = [
            (f"{item}.{f.name}", f.kind.format)
            for f in present
            if isinstance(f.kind, Fixed) and f.tag is None
        ]
        if run and len(run) == len(present):
            if self.flexible:
                run.append(("", "x"))
            self.source.line(f"out += [{self._packed(run)} for {item} in {value}]")
            return
        with self.source.block(f"for {item} in {value}:"):
            self.struct(cls, item)

    def _nested(self, cls: type[Message], subject: str, *, nullable: bool, null: str) -> None:
        item = self.source.fresh("m")
        if not nullable:
            self.source.line(f"{item} = {subject}")
            self.struct(cls, item)
            return
        self._flush()
        self.source.line(f"{item} = {subject}")
        with self.source.block(f"if {item} is None:"):
            self.source.line(f"add(b'{null}')")
        with self.source.block("else:"):
            self.source.line("add(b'\\x01')")
            self.struct(cls, item)

    def _tags(self, tagged: list[Field], subject: str) -> None:
        if not tagged:
            self._run.append(("", "x"))
            return
        self._flush()
        sections = self.source.fresh("s")
        self.source.line(f"{sections} = []")
        for field in sorted(tagged, key=lambda field: field.tag or 0):
            value = f"{subject}.{field.name}"
            if _is_nullable_struct(field, self.version):
                # To Kafka an absent struct is one of defaults, so that null must be said.
                self._tag(field, value, sections)
                continue
            with self.source.block(f"if {_differs(value, field)}:"):
                self._tag(field, value, sections)
        with self.source.block(f"if {sections}:"):
            self.source.line(f"add(uvarint(len({sections})))")
            self.source.line(f"out += {sections}")
        with self.source.block("else:"):
            self.source.line("add(b'\\x00')")

    def _tag(self, field: Field, value: str, sections: str) -> None:
        """Encode one tagged field apart, since its size goes before it."""
        out, add, body = (self.source.fresh(stem) for stem in ("out", "add", "b"))
        self.source.line(f"{out}, {add} = out, add")
        self.source.line("out = []")
        self.source.line("add = out.append")
        if isinstance(field.kind, Nested):
            # Kafka marks null by 0 here and by -1 outside of tags.
            nullable = self.version in field.nullable
            self._nested(field.kind.struct, value, nullable=nullable, null="\\x00")
        else:
            self._field(field, value)
        self._flush()
        self.source.line(f"{body} = b''.join(out)")
        self.source.line(f"out, add = {out}, {add}")
        head = f"uvarint({field.tag}) + uvarint(len({body}))"
        self.source.line(f"{sections}.append({head} + {body})")


def _is_nullable_struct(field: Field, version: int) -> bool:
    return isinstance(field.kind, Nested) and version in field.nullable


def _differs(value: str, field: Field) -> str:
    """The condition under which a tagged field is sent: it differs from its default."""
    absent = field.absent
    if absent is None:
        return f"{value} is not None"
    if absent == [] or absent == "" or absent is False:
        return value
    return f"{value} != {absent!r}"
