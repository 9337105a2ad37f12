"""The source code of decoders, which `projection` compiles.

A decoder is a function `decode(buf, count)` from the bytes of a block to its rows. Its code contains no text from the
file: names of fields and symbols of enums are separate constants.

A decoder only moves forward, and a block is valid only if it ends exactly at its last byte. So a slice that reaches
past the end needs no check of its own: the final check finds it.
"""

from collections.abc import Callable

from lakesweep.errors import FormatError
from lakesweep.format.avro.schema import AvroType
from lakesweep.format.avro.wants import ACCEPTED, Want


class BrokenRecordError(ValueError):
    """A record has an impossible value. Generated code raises this."""


def long_tail(buf: bytes, pos: int, number: int) -> tuple[int, int]:
    """Read the rest of a number whose first byte is `number`. Return the number before zigzag, and its end."""
    number &= 127
    for shift in range(7, 70, 7):
        byte = buf[pos]
        pos += 1
        number |= (byte & 127) << shift
        if byte < 128:
            if number >> 64:
                break
            return number, pos
    raise BrokenRecordError("a number beyond 64 bits")


MAX_ITEMS = 300_000
"""Kept items of all arrays and maps of one block: as many as file names fit into the largest block."""


class DecoderWriter:
    """Writes the source of one decoder, line by line."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0
        self._variables = 0
        self.constants: list[tuple[str, ...]] = []

    def decoder(self, root: AvroType, want: Want) -> str:
        """Return the source of a decoder for records of `root`."""
        self._add("def decode(buf, count):")
        self._depth += 1
        self._add("size = len(buf)", "pos = 0", "rows = []", f"room = {MAX_ITEMS}", "for _ in range(count):")
        self._depth += 1
        if any(field.kind == "raw" for field in want.fields):
            self._add("start = pos")
        row = self._value(root, want)
        self._add(f"rows.append({row})")
        self._depth -= 1
        self._add("if pos != size:")
        self._add("    raise Broken(f'{size} bytes that end at byte {pos}')")
        self._add("return rows")
        return "\n".join(self._lines)

    # Reading

    def _value(self, type_: AvroType, want: Want) -> str:
        """Write code that decodes a value; return the name of its variable."""
        if type_.kind == "union":
            return self._union(type_, want)
        if type_.kind == "null" and want.required:
            self._broken(f"null in {want.name}")
            return "None"
        if want.kind != "any" and type_.kind not in ACCEPTED[want.kind] and type_.kind != "null":
            raise FormatError(f"expected {want.kind} in {want.name}, found {type_.kind}")
        match type_.kind:
            case "null":
                return "None"
            case "boolean":
                return self._assign("buf[pos] != 0", "pos += 1")
            case "int" | "long" if want.kind == "natural":
                return self._natural(want.name)
            case "int" | "long":
                return self._long()
            case "float" | "double":
                return self._float(type_.kind)
            case "bytes":
                return self._sized("buf[pos:end]")
            case "string":
                return self._sized("buf[pos:end].decode()")
            case "fixed":
                return self._assign(f"buf[pos:pos + {type_.size}]", f"pos += {type_.size}")
            case "enum":
                return self._enum(type_.symbols)
            case "record":
                return self._record(type_, want)
        return self._collection(type_, want)

    def _union(self, type_: AvroType, want: Want) -> str:
        result = self._variable()
        self._add("branch = buf[pos]", "pos += 1")
        for number, branch in enumerate(type_.branches):
            self._add(f"{'if' if number == 0 else 'elif'} branch == {2 * number}:")
            self._depth += 1
            self._add(f"{result} = {self._value(branch, want)}")
            self._depth -= 1
        self._no_branch()
        return result

    def _record(self, type_: AvroType, want: Want) -> str:
        if want.kind == "any":
            wanted = {name: Want(name) for name, _ in type_.fields}
        else:
            wanted = want.by_name
        values: dict[str, str] = {}
        for name, field_type in type_.fields:
            if name in wanted:
                values[name] = self._value(field_type, wanted[name])
            else:
                self._skip(field_type)
        for field in wanted.values():
            if field.required and field.name not in values:
                raise FormatError(f"expected the field {field.name}, found nothing")
        if want.kind == "any":
            keys = self._constant(tuple(values))
            return self._assign(f"dict(zip({keys}, ({''.join(f'{value}, ' for value in values.values())})))")
        row = ["buf[start:pos]" if each.kind == "raw" else values.get(each.name, "None") for each in want.fields]
        return self._assign(f"({''.join(value + ', ' for value in row)})")

    def _collection(self, type_: AvroType, want: Want) -> str:
        result, is_map = self._variable(), type_.kind == "map"
        if want.kind == "strings":
            item_want = Want(want.name, "string", required=True)
        elif want.kind == "records":
            item_want = Want(want.name, "record", required=True, fields=want.fields)
        else:
            item_want = Want(want.name)
        self._add(f"{result} = {'{}' if is_map else '[]'}")

        def read_item() -> None:
            key = self._sized("buf[pos:end].decode()") if is_map else ""
            value = self._value(type_.item, item_want)
            self._add(f"{result}[{key}] = {value}" if is_map else f"{result}.append({value})")

        self._items(read_item, skip=False)
        if want.kind in ("strings", "records"):
            self._add(f"{result} = tuple({result})")
        return result

    def _enum(self, symbols: tuple[str, ...]) -> str:
        number = self._long()
        self._add(f"if not 0 <= {number} < {len(symbols)}:")
        self._broken("an unknown symbol", indent=1)
        return self._assign(f"{self._constant(symbols)}[{number}]")

    def _float(self, kind: str) -> str:
        size, code = (4, "<f") if kind == "float" else (8, "<d")
        self._add(f"if pos + {size} > size:")
        self._broken("a number that is cut short", indent=1)
        return self._assign(f"unpack_from({code!r}, buf, pos)[0]", f"pos += {size}")

    def _long(self) -> str:
        number = self._raw_long()
        self._add(f"{number} = {number} >> 1 ^ -({number} & 1)")
        return number

    def _natural(self, name: str) -> str:
        self._add("if buf[pos] & 1:")
        self._broken(f"a negative number in {name}", indent=1)
        self._raw_long()
        return "None"

    def _raw_long(self) -> str:
        number = self._assign("buf[pos]", "pos += 1")
        self._add(f"if {number} > 127:")
        self._add(f"    {number}, pos = tail(buf, pos, {number})")
        return number

    def _sized(self, expression: str) -> str:
        self._end()
        return self._assign(expression, "pos = end")

    def _end(self) -> None:
        length = self._raw_long()
        self._add(f"if {length} & 1:")
        self._broken("a negative length", indent=1)
        self._add(f"end = pos + ({length} >> 1)")

    # Stepping over

    def _skip(self, type_: AvroType) -> None:
        match type_.kind:
            case "null":
                pass
            case "boolean":
                self._add("pos += 1")
            case "int" | "long" | "enum":
                self._add("while buf[pos] > 127:", "    pos += 1", "pos += 1")
            case "float":
                self._add("pos += 4")
            case "double":
                self._add("pos += 8")
            case "fixed":
                self._add(f"pos += {type_.size}")
            case "bytes" | "string":
                self._end()
                self._add("pos = end")
            case "record":
                for _, field_type in type_.fields:
                    self._skip(field_type)
            case "union":
                self._skip_union(type_)
            case "array" | "map":
                self._items(lambda: self._skip_item(type_), skip=True)

    def _skip_union(self, type_: AvroType) -> None:
        self._add("branch = buf[pos]", "pos += 1")
        for number, branch in enumerate(type_.branches):
            self._add(f"{'if' if number == 0 else 'elif'} branch == {2 * number}:")
            self._depth += 1
            self._add("pass")
            self._skip(branch)
            self._depth -= 1
        self._no_branch()

    def _skip_item(self, type_: AvroType) -> None:
        if type_.kind == "map":
            self._end()
            self._add("pos = end")
        self._skip(type_.item)

    # Shared

    def _items(self, item: Callable[[], None], *, skip: bool) -> None:
        """Write the loop over the blocks of an array or map."""
        self._add("while True:")
        self._depth += 1
        left = self._long()
        self._add(f"if {left} == 0:", "    break", f"if {left} < 0:")
        self._depth += 1
        size = self._long()  # A negative count is followed by the size in bytes of its items.
        if skip:
            self._add(f"if {size} < 0:")
            self._broken("a negative length", indent=1)
            self._add(f"pos += {size}", "continue")
        else:
            self._add(f"{left} = -{left}")
        self._depth -= 1
        self._add(f"if {left} > size - pos:")
        self._broken("more items than bytes", indent=1)
        if not skip:
            self._add(f"room -= {left}", "if room < 0:")
            self._broken(f"more than {MAX_ITEMS} items", indent=1)
        self._add(f"for _ in range({left}):")
        self._depth += 1
        self._add("pass")
        item()
        self._depth -= 2

    def _no_branch(self) -> None:
        self._add("else:")
        self._broken("an unknown branch of a union", indent=1)

    def _constant(self, values: tuple[str, ...]) -> str:
        self.constants.append(values)
        return f"constants[{len(self.constants) - 1}]"

    def _variable(self) -> str:
        self._variables += 1
        return f"v{self._variables}"

    def _assign(self, expression: str, *then: str) -> str:
        name = self._variable()
        self._add(f"{name} = {expression}", *then)
        return name

    def _broken(self, found: str, indent: int = 0) -> None:
        self._add("    " * indent + f"raise Broken({found!r})")

    def _add(self, *lines: str) -> None:
        self._lines += ["    " * self._depth + line for line in lines]
