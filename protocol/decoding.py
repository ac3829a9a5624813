"""Writes the source of decoders. See `compiler` for why, `schema` for the declarations.

A decoder is `decode(buf, pos) -> (message, pos)`. While it is being written, the fixed-size
fields met so far wait in a run; a run is read by one `unpack_from`, and takes with it the length
that follows: the two or four bytes of a classic length, or the first byte of a compact one.

A count is refused at once when the bytes left cannot hold that many elements, and arrays of small
but bulky structs draw on an allowance of memory, `room`; see `footprint`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import calcsize

from odradek.protocol.errors import ProtocolError
from odradek.protocol.footprint import MEMORY_PER_BYTE, SPARE_MEMORY, Footprint
from odradek.protocol.primitives import (
    MAX_STRING_BYTES,
    finish_uvarint,
    read_uvarint,
    skip_tagged_fields,
)
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


def write_decoder(message: type[Versioned], version: int) -> Source:
    writer = _DecoderWriter(version, flexible=version in message.flexible)
    with writer.source.block("def decode(buf, pos):"):
        writer.source.line("limit = len(buf)")
        if writer.footprint.holds_bulky_arrays(message):
            writer.source.line(f"room = {SPARE_MEMORY} + {MEMORY_PER_BYTE} * (limit - pos)")
        if _holds_bytes(message, version):
            writer.source.line("view = memoryview(buf)")
        writer.struct(message, "m")
        writer.source.line("return m, pos")
    return writer.source


class _DecoderWriter:
    def __init__(self, version: int, *, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.footprint = Footprint(version, flexible=flexible)
        self.source = Source()
        self.source.names.update(
            new=object.__new__,
            finish=finish_uvarint,
            read_uvarint=read_uvarint,
            skip_tagged_fields=skip_tagged_fields,
            ProtocolError=ProtocolError,
        )
        self._run: list[tuple[str, str]] = []  # (target, format) of fields not yet read

    def struct(self, cls: type[Message], target: str) -> None:
        """Read a struct into `target`, a variable."""
        self._create(cls, target)
        tagged: list[Field] = []
        for field in cls.fields:
            if self.version not in field.versions:
                continue
            if field.tag is not None:
                tagged.append(field)
            else:
                self._field(field, f"{target}.{field.name}")
        if self.flexible:
            self._tags(tagged, target)
        self._flush()

    def _create(self, cls: type[Message], target: str) -> None:
        name = self.source.bind(cls.__qualname__.replace(".", "_"), cls)
        self.source.line(f"{target} = new({name})")
        self._absent(cls, target)

    def _absent(self, cls: type[Message], target: str) -> None:
        """Give every field that this version lacks, or may lack, its default."""
        by_value: dict[str, list[str]] = {}
        for field in cls.fields:
            if self.version in field.versions and field.tag is None:
                continue
            absent = field.absent
            if isinstance(absent, list):
                self.source.line(f"{target}.{field.name} = []")
            else:
                by_value.setdefault(repr(absent), []).append(f"{target}.{field.name}")
        for value, targets in by_value.items():
            self.source.line(f"{' = '.join(targets)} = {value}")

    def _field(self, field: Field, target: str) -> None:
        nullable = self.version in field.nullable
        compact = self.flexible and field.compact
        self._value(field.kind, target, nullable=nullable, compact=compact)

    def _value(self, kind: Kind, target: str, *, nullable: bool, compact: bool) -> None:
        match kind:
            case Fixed(format=format_):
                self._run.append((target, format_))
            case Text():
                self._sized(target, "h", nullable=nullable, compact=compact, kind=kind)
            case Blob() | Records():
                self._sized(target, "i", nullable=nullable, compact=compact, kind=kind)
            case Array(of=element):
                self._array(element, target, nullable=nullable, compact=compact)
            case Nested(struct=cls):
                self._nested(cls, target, nullable=nullable, null="< 0")

    def _flush(self, length: tuple[str, str] | None = None) -> None:
        """Read the waiting run, and a length of the given (variable, format) right after it."""
        run = self._run + ([length] if length else [])
        self._run = []
        if not run:
            return
        targets = ", ".join(target for target, _ in run)
        format_ = "".join(code for _, code in run)
        if format_ == "B":
            self.source.line(f"{targets} = buf[pos]")
        else:
            unpack = self.source.struct(format_, "unpack_from")
            self.source.line(f"{targets}{',' if len(run) == 1 else ''} = {unpack}(buf, pos)")
        self.source.line(f"pos += {_size(format_)}")

    def _length(self, classic: str, *, compact: bool) -> str:
        """Read a length or count into a variable; null reads as -1."""
        variable = self.source.fresh("n")
        if not compact:
            self._flush((variable, classic))
            return variable
        self._flush((variable, "B"))
        with self.source.block(f"if {variable} > 127:"):
            self.source.line(f"{variable}, pos = finish(buf, {variable}, pos)")
        self.source.line(f"{variable} -= 1")
        return variable

    def _sized(
        self, target: str, classic: str, *, nullable: bool, compact: bool, kind: Kind
    ) -> None:
        length = self._length(classic, compact=compact)
        with self._unless_null(length, target, nullable=nullable, compact=compact):
            end = self.source.fresh("e")
            self.source.line(f"{end} = pos + {length}")
            too_long = f"{end} > limit"
            if isinstance(kind, Text) and compact:
                too_long += f" or {length} > {MAX_STRING_BYTES}"
            with self.source.block(f"if {too_long}:"):
                self.source.line(f"raise ProtocolError('length %d is too long' % {length})")
            self.source.line(f"{target} = {_slice(kind, end)}")
            self.source.line(f"pos = {end}")

    @contextmanager
    def _unless_null(
        self, length: str, target: str, *, nullable: bool, compact: bool
    ) -> Iterator[None]:
        """What is written inside runs when the length is that of something."""
        with self.source.block(f"if {length} < 0:"):
            self._null(length, target, nullable=nullable, compact=compact)
        if not nullable:
            yield
            return
        with self.source.block("else:"):
            yield

    def _null(self, length: str, target: str, *, nullable: bool, compact: bool) -> None:
        if not nullable:
            self.source.line(f"raise ProtocolError('{target.partition('.')[2]} is null')")
            return
        if not compact:
            with self.source.block(f"if {length} < -1:"):
                self.source.line("raise ProtocolError('negative length')")
        self.source.line(f"{target} = None")

    def _array(
        self, element: Fixed | Text | Blob | Nested, target: str, *, nullable: bool, compact: bool
    ) -> None:
        count = self._length("i", compact=compact)
        if isinstance(element, Fixed):
            self._numbers(element, count, target)
            with self.source.block("else:"):
                self._null(count, target, nullable=nullable, compact=compact)
            return
        with self._unless_null(count, target, nullable=nullable, compact=compact):
            self._bound(count, self.footprint.smallest(element))
            if isinstance(element, Nested):
                self._charge(element.struct, count)
                self._struct_elements(element.struct, count, target)
            else:
                self._plain_elements(element, count, target, compact=compact)

    def _bound(self, count: str, smallest: int) -> None:
        with self.source.block(f"if {count} * {smallest} > limit - pos:"):
            self.source.line(f"raise ProtocolError('count %d is too large' % {count})")

    def _charge(self, struct: type[Message], count: str) -> None:
        if self.footprint.is_bulky(struct):
            self.source.line(f"room -= {count} * {self.footprint.memory(struct)}")
            with self.source.block("if room < 0:"):
                self.source.line("raise ProtocolError('too many small elements')")

    def _numbers(self, element: Fixed, count: str, target: str) -> None:
        """Read an array of fixed-size values, unless its count is negative."""
        with self.source.block(f"if {count} > 0:"):
            if len(element.format) > 1:
                self._bound(count, element.size)
            # Of one-letter formats unpack_from refuses a forged count before it allocates.
            unpack = self.source.vectors("", element.format, "unpack_from")
            self.source.line(f"{target} = list({unpack}[{count}](buf, pos))")
            self.source.line(f"pos += {count} * {element.size}")
        with self.source.block(f"elif {count} == 0:"):
            self.source.line(f"{target} = []")

    def _plain_elements(
        self, element: Text | Blob, count: str, target: str, *, compact: bool
    ) -> None:
        items, item = self.source.fresh("a"), self.source.fresh("v")
        self.source.line(f"{target} = {items} = []")
        with self.source.block(f"for _ in range({count}):"):
            self._value(element, item, nullable=False, compact=compact)
            self.source.line(f"{items}.append({item})")

    def _struct_elements(self, cls: type[Message], count: str, target: str) -> None:
        items = self.source.fresh("a")
        self.source.line(f"{target} = {items} = []")
        present = [f for f in cls.fields if self.version in f.versions and f.tag is None]
        if not present or not all(isinstance(f.kind, Fixed) for f in present):
            self._struct_loop(cls, count, items)
            return
        # Elements of one size: read them all with iter_unpack, unless one carries tags.
        format_ = "".join(f.kind.format for f in present if isinstance(f.kind, Fixed))
        stride = _size(format_)
        end = self.source.fresh("e")
        if not self.flexible:
            self.source.line(f"{end} = pos + {count} * {stride}")
            self._unpack_loop(cls, present, format_, end, items)
            return
        self.source.line(f"{end} = pos + {count} * {stride + 1}")
        tags = f"buf[pos + {stride}:{end}:{stride + 1}]"
        with self.source.block(f"if {end} <= limit and {tags}.count(0) == {count}:"):
            self._unpack_loop(cls, present, format_ + "x", end, items)
        with self.source.block("else:"):
            self._struct_loop(cls, count, items)

    def _unpack_loop(
        self, cls: type[Message], present: list[Field], format_: str, end: str, items: str
    ) -> None:
        unpack = self.source.struct(format_, "iter_unpack")
        item, values = self.source.fresh("m"), self.source.fresh("t")
        with self.source.block(f"for {values} in {unpack}(buf[pos:{end}]):"):
            self._create(cls, item)
            targets = ", ".join(f"{item}.{field.name}" for field in present)
            self.source.line(f"{targets}{',' if len(present) == 1 else ''} = {values}")
            self.source.line(f"{items}.append({item})")
        self.source.line(f"pos = {end}")

    def _struct_loop(self, cls: type[Message], count: str, items: str) -> None:
        item = self.source.fresh("m")
        with self.source.block(f"for _ in range({count}):"):
            self.struct(cls, item)
            self.source.line(f"{items}.append({item})")

    def _nested(self, cls: type[Message], target: str, *, nullable: bool, null: str) -> None:
        if not nullable:
            self._flush()
            item = self.source.fresh("m")
            self.struct(cls, item)
            self.source.line(f"{target} = {item}")
            return
        marker, item = self.source.fresh("n"), self.source.fresh("m")
        self._flush((marker, "b"))
        with self.source.block(f"if {marker} {null}:"):
            self.source.line(f"{target} = None")
        with self.source.block("else:"):
            self.struct(cls, item)
            self.source.line(f"{target} = {item}")

    def _tags(self, tagged: list[Field], owner: str) -> None:
        count = self.source.fresh("n")
        self._flush((count, "B"))
        with self.source.block(f"if {count}:"):
            if not tagged:
                self.source.line(f"pos = skip_tagged_fields(buf, {count}, pos)")
                return
            with self.source.block(f"if {count} > 127:"):
                self.source.line(f"{count}, pos = finish(buf, {count}, pos)")
            tag, end = self.source.fresh("t"), self.source.fresh("e")
            with self.source.block(f"for _ in range({count}):"):
                self.source.line(f"{tag}, pos = read_uvarint(buf, pos)")
                self.source.line(f"{end}, pos = read_uvarint(buf, pos)")
                self.source.line(f"{end} += pos")
                with self.source.block(f"if {end} > limit:"):
                    self.source.line("raise ProtocolError('tagged field is too long')")
                for i, field in enumerate(tagged):
                    with self.source.block(f"{'el' if i else ''}if {tag} == {field.tag}:"):
                        self._tagged(field, f"{owner}.{field.name}")
                with self.source.block("else:"):
                    self.source.line(f"pos = {end}")
                # A field that runs past its size would let a frame be read again and again.
                with self.source.block(f"if pos != {end}:"):
                    self.source.line("raise ProtocolError('tagged field has another size')")

    def _tagged(self, field: Field, target: str) -> None:
        value = self.source.fresh("v")
        if isinstance(field.kind, Nested):
            # Kafka marks null by 0 here and by -1 outside of tags.
            nullable = self.version in field.nullable
            self._nested(field.kind.struct, value, nullable=nullable, null="<= 0")
        else:
            self._field(field, value)
        self._flush()
        self.source.line(f"{target} = {value}")


def _slice(kind: Kind, end: str) -> str:
    match kind:
        case Text():
            return f"buf[pos:{end}].decode('utf-8', 'replace')"
        case Blob():
            return f"bytes(view[pos:{end}])"
        case _:
            return f"view[pos:{end}]"


def _holds_bytes(cls: type[Message], version: int) -> bool:
    return any(_kind_holds_bytes(f.kind, version) for f in cls.fields if version in f.versions)


def _kind_holds_bytes(kind: Kind, version: int) -> bool:
    match kind:
        case Blob() | Records():
            return True
        case Array(of=element):
            return _kind_holds_bytes(element, version)
        case Nested(struct=cls):
            return _holds_bytes(cls, version)
        case _:
            return False


def _size(format_: str) -> int:
    return calcsize(">" + format_)
