"""Specs: which partitions a person names.

A spec gives values to some or all partition keys, and means every partition with these values. A call names several
specs and means the partitions of any.

As a text, a spec looks like a partition path: `dt=20240101,hr=08` or `dt=20240101/hr=08`. In names and values, `%XX`
stands for a byte, so a comma is `%2C`, `/` is `%2F`, `=` is `%3D` and `%` is `%25`. All other characters stand for
themselves, also blanks at the ends. As a JSON object, `{"dt": "20240101", "hr": 8, "x": null}`, a spec needs no
escapes. Null is JSON's null, or the text that the table's paths have for null (`partition.default-name`).
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakesweep.errors import RefusedError, some_of
from lakesweep.format.values.data_type import DataType
from lakesweep.format.values.json_document import shorten
from lakesweep.format.values.partition_path import DEFAULT_NAME
from lakesweep.model.partitions.cast import Zone, bad_partition, cast, comparable, shown

MAX_SPECS = 10_000
MAX_LENGTH = 8 << 20
"""The most characters of all specs of a call together."""

_TEXTS = frozenset(("CHAR", "VARCHAR"))
_SEPARATORS = re.compile("[,/]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})?")

Row = Sequence[object]
"""The values of a partition, in the order of the table's partition keys, as `binary_row` decodes them."""


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """Values of some or all partition keys, in the order of the keys."""

    values: tuple[tuple[str, object], ...]
    """Name and typed value, `None` for null."""
    positions: tuple[int, ...]
    """The place of each of these keys among the table's partition keys."""
    is_whole: bool
    """Every partition key has a value here, so at most one partition matches."""

    def matches(self, row: Row) -> bool:
        """Tell whether a partition has these values."""
        return all(
            comparable(row[position]) == comparable(value)
            for position, (_, value) in zip(self.positions, self.values, strict=True)
        )

    def __str__(self) -> str:
        """Return the spec for messages, such as `dt=20240101, hr=8`."""
        return ", ".join(f"{shorten(name)}={shown(value)}" for name, value in self.values)


def parse_specs(
    arguments: Sequence[object],
    keys: Sequence[str],
    types: Sequence[DataType],
    default_name: str = DEFAULT_NAME,
    zone: Zone = None,
) -> tuple[PartitionSpec, ...]:
    """Read the specs of a call. Equal specs count once.

    Args:
        arguments: Texts or JSON objects; anything else is refused.
        keys: The table's partition keys.
        types: Their types.
        default_name: The text for null: the option `partition.default-name`.
        zone: The declared zone, for texts of TIMESTAMP WITH LOCAL TIME ZONE.

    Raises:
        RefusedError: With code `bad_partition`: no spec, an empty one, an unknown key, a key given twice, a value that
            its type does not have, or too many or too long specs. `not_partitioned`: the table has no partition keys.
            `zone_not_declared`: a value depends on a zone.
    """
    if not keys:
        raise RefusedError("the table has no partition keys; expected truncate for all of it", code="not_partitioned")
    if not arguments:
        raise bad_partition("no partition is named; expected one or more, such as dt=20240101")
    if len(arguments) > MAX_SPECS:
        raise bad_partition(f"{len(arguments)} partitions are named; expected at most {MAX_SPECS} in one call")
    pairs = [_pairs(each) for each in arguments]
    if (length := sum(_length(pair) for each in pairs for pair in each)) > MAX_LENGTH:
        raise bad_partition(f"the specs have {length} characters; expected at most {MAX_LENGTH} in one call")
    specs = (_spec(each, keys, types, default_name, zone) for each in pairs)
    return tuple({(each.positions, _values(each)): each for each in specs}.values())


def matcher(specs: Iterable[PartitionSpec]) -> Callable[[Row], bool]:
    """Return a test whether a partition matches any spec, in the time of one lookup for each set of keys."""
    groups: dict[tuple[int, ...], set[tuple[object, ...]]] = {}
    for spec in specs:
        groups.setdefault(spec.positions, set()).add(_values(spec))
    wanted = tuple(groups.items())
    return lambda row: any(tuple(comparable(row[each]) for each in places) in values for places, values in wanted)


def matcher_of_alike(
    specs: Iterable[PartitionSpec], types: Sequence[DataType], default_name: str = DEFAULT_NAME
) -> Callable[[Row], bool]:
    """Return a test whether a partition matches any spec, or looks like one that does.

    Callers that read only some partitions read these, so that `refuse_ambiguous` sees all that it compares.

    Args:
        specs: The specs of a call.
        types: The types of the table's partition keys.
        default_name: The text for null.
    """
    specs = tuple(specs)
    matches = matcher(specs)
    alike: dict[tuple[int, ...], set[tuple[object, ...]]] = {}
    for spec in specs:
        if _has_null_text(spec, types):
            alike.setdefault(spec.positions, set()).add(_alike(_values(spec), default_name))
    if not alike:
        return matches

    def is_alike(row: Row) -> bool:
        return any(
            _alike(tuple(comparable(row[each]) for each in places), default_name) in values
            for places, values in alike.items()
        )

    return lambda row: matches(row) or is_alike(row)


def refuse_ambiguous(
    specs: Iterable[PartitionSpec],
    rows: Iterable[Row],
    keys: Sequence[str],
    types: Sequence[DataType],
    default_name: str = DEFAULT_NAME,
) -> None:
    """Refuse a spec with null if a real text looks the same in paths, and both partitions exist.

    Args:
        specs: The specs of a call.
        rows: All partitions of the table; read once, and not at all if no spec has a null text.
        keys: The table's partition keys.
        types: Their types.
        default_name: The text for null.

    Raises:
        RefusedError: With code `ambiguous_partition`.
    """
    # Place of the keys -> their values with the same text for null -> the forms that exist: (with null, with the text).
    seen: dict[tuple[int, ...], dict[tuple[object, ...], set[tuple[object, ...]]]] = {}
    for spec in specs:
        if _has_null_text(spec, types):
            seen.setdefault(spec.positions, {}).setdefault(_alike(_values(spec), default_name), set())
    if not seen:
        return
    for row in rows:
        for places, wanted in seen.items():
            values = tuple(comparable(row[each]) for each in places)
            forms = wanted.get(_alike(values, default_name))
            if forms is None:
                continue
            forms.add(values)
            if len(forms) > 1:
                raise RefusedError(
                    f"two partitions look alike in {', '.join(shorten(keys[each]) for each in places)}: one has null, "
                    f"the other the text {shorten(ascii(default_name))}, which stands for null; Lakesweep drops neither"
                    ", so drop them by a filter on the column in Paimon (DELETE FROM ... WHERE ... IS NULL)",
                    code="ambiguous_partition",
                )


def _has_null_text(spec: PartitionSpec, types: Sequence[DataType]) -> bool:
    places = zip(spec.positions, spec.values, strict=True)
    return any(value is None and types[at].root in _TEXTS for at, (_, value) in places)


def _values(spec: PartitionSpec) -> tuple[object, ...]:
    return tuple(comparable(value) for _, value in spec.values)


def _alike(values: tuple[object, ...], default_name: str) -> tuple[object, ...]:
    return tuple(default_name if value is None else value for value in values)


def _length(pair: tuple[str, object]) -> int:
    name, value = pair
    return len(name) + (len(value) if isinstance(value, str) else 20)


def _pairs(argument: object) -> list[tuple[str, object]]:
    """Return names and values of one spec, not yet typed."""
    if isinstance(argument, Mapping):
        return [(str(name), value) for name, value in argument.items()]
    if not isinstance(argument, str):
        raise bad_partition(f"a partition is {shown(argument)}; expected a text or an object")
    if len(argument) > MAX_LENGTH:
        raise bad_partition(f"a partition has {len(argument)} characters; expected at most {MAX_LENGTH}")
    text = argument.removesuffix("/")
    return [_pair(part, argument) for part in _SEPARATORS.split(text)] if text else []


def _pair(part: str, argument: str) -> tuple[str, object]:
    name, sign, value = part.partition("=")
    if not sign or "=" in value:
        raise bad_partition(
            f"partition {shorten(ascii(argument))} has the part {shorten(ascii(part))}; expected key=value, with %2C, "
            "%2F and %3D for a comma, a slash and = in a value"
        )
    return _unescaped(name, argument), _unescaped(value, argument)


def _unescaped(text: str, argument: str) -> str:
    if "%" not in text:
        return text
    if any(match[1] is None for match in _ESCAPE.finditer(text)):
        raise bad_partition(f"partition {shorten(ascii(argument))} has a % alone; expected %25 for it")
    try:
        # A path escapes ASCII alone, but other tools also write the bytes of UTF-8.
        plain = re.split(b"%(..)", text.encode("utf-8"), flags=re.DOTALL)
        return b"".join(bytes.fromhex(each.decode()) if at % 2 else each for at, each in enumerate(plain)).decode()
    except UnicodeError as error:
        raise bad_partition(f"partition {shorten(ascii(argument))} is no text in UTF-8") from error


def _spec(
    pairs: Sequence[tuple[str, object]],
    keys: Sequence[str],
    types: Sequence[DataType],
    default_name: str,
    zone: Zone,
) -> PartitionSpec:
    if not pairs:
        raise bad_partition("a partition without any key is named; expected one key or more, or truncate for all")
    given: dict[str, object] = {}
    for name, value in pairs:
        if name not in keys:
            known = some_of([shorten(key) for key in keys])
            raise bad_partition(f"{shorten(ascii(name))} is no partition key; expected {known}")
        if name in given:
            raise bad_partition(f"partition key {shorten(name)} is given twice; expected one value")
        given[name] = value
    found = [(at, key, type_) for at, (key, type_) in enumerate(zip(keys, types, strict=True)) if key in given]
    return PartitionSpec(
        values=tuple((key, _typed(given[key], key, type_, default_name, zone)) for _, key, type_ in found),
        positions=tuple(at for at, _, _ in found),
        is_whole=len(found) == len(keys),
    )


def _typed(value: object, key: str, type_: DataType, default_name: str, zone: Zone) -> object:
    return None if value is None or value == default_name else cast(value, key, type_, zone)
