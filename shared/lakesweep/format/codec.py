"""Values as JSON and back: one codec for the documents by which parts of Lakesweep talk to each other.

A value is a dataclass or a named tuple: an object with a member for each field, or an array. `from_json` reads exactly
what `to_json` writes. It refuses an unknown, missing or wrongly typed member with one sentence. The types of the fields
say what is expected: numbers, texts, words of a `Literal`, `None`, arrays, objects, other values. `Annotated` adds a
`Check`.

A class with a constant `kind` writes it, so that a union of such classes can be read. A class with a constant
`may_lack_members` is also read without members that have a default, since earlier versions did not write them. A class
with methods `to_json` and `from_json` of its own is read and written by them.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeGuard, Union, get_args, get_origin, get_type_hints

from lakesweep.errors import FormatError
from lakesweep.format.values.json_document import shorten, wrong_type

_Reader = Callable[[Any, str, str], Any]
"""Takes a JSON value, the path of its document and the name of the member; returns the checked value."""
_ARRAYS: Mapping[Any, Callable[[Iterable[Any]], Any]] = {tuple: tuple, list: list, set: set, frozenset: frozenset}
MAX_NUMBER = 1 << 80
"""Beyond every time, count and size that Lakesweep writes."""
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class Check:
    """A condition beyond the type of a field."""

    def __init__(self, holds: Callable[[Any], object], expected: str) -> None:
        """Create it.

        Args:
            holds: Tells whether a value of the right type is valid.
            expected: What is expected, for messages.
        """
        self.holds = holds
        self.expected = expected


class Only(Check):
    """A condition that says by itself which JSON values are valid: the type of the field is not asked."""


def is_number(value: object) -> TypeGuard[int]:
    """Tell whether a value is an integer of plausible size."""
    return type(value) is int and -MAX_NUMBER < value < MAX_NUMBER


def is_count(value: object) -> TypeGuard[int]:
    """Tell whether a value is an integer of plausible size, and not negative."""
    return is_number(value) and value >= 0


def is_id(value: object) -> TypeGuard[str]:
    """Tell whether a value can be the id of a run or a plan."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def are_ids(value: object) -> TypeGuard[list[str]]:
    """Tell whether a value is a list of at least one such id."""
    return isinstance(value, list) and bool(value) and all(map(is_id, value))


def _is_unicode(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


Id = Annotated[str, Only(is_id, "an id")]
"""The id of a run or a plan."""
Number = Annotated[int, Only(is_number, "a finite number")]
LargeCount = Annotated[int, Only(is_count, "a number from 0 of plausible size")]
"""A number that may not fit into 64 bits, such as a sum of sizes."""
Count = Annotated[int, Check(lambda number: number >= 0, "a whole number from 0")]
Text = Annotated[str, Check(_is_unicode, "text in Unicode")]
"""A text that UTF-8 can encode. A plain `str` may also hold the name of a local file in another encoding."""


def to_json(value: Any) -> Any:
    """Return a value as JSON. Equal sets give equal arrays."""
    if value is None or isinstance(value, str | int | float):
        return value
    if hasattr(value, "from_json"):
        return value.to_json()
    if is_dataclass(value):
        kind = {"kind": kind} if isinstance(kind := getattr(type(value), "kind", None), str) else {}
        return {**kind, **{each.name: to_json(getattr(value, each.name)) for each in fields(value)}}
    if isinstance(value, Mapping):
        return {key: to_json(each) for key, each in value.items()}
    return [to_json(each) for each in (sorted(value) if isinstance(value, set | frozenset) else value)]


def from_json(kind: Any, document: object, path: str, member: str = "the document") -> Any:
    """Return the value that `to_json` wrote.

    Args:
        kind: The type of the value.
        document: The JSON.
        path: Of the document, for messages.
        member: What the JSON is in the document, for messages.

    Raises:
        FormatError: The JSON is no such value.
    """
    return _reader(kind)(document, path, member)


@cache
def _reader(kind: Any) -> _Reader:
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _checked(_reader(object if isinstance(args[1], Only) else args[0]), args[1])
    if origin in (Union, UnionType):
        return _either(args)
    if origin is Literal:
        return _checked(_reader(str), Check(args.__contains__, " or ".join(args)))
    if origin is tuple and args[-1] is not Ellipsis:
        return _row(tuple, args)
    if origin in _ARRAYS:
        return _array(_ARRAYS[origin], _reader(args[0]))
    if origin is Counter:
        return _object(Counter, _reader(int))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _object(dict, _reader(args[1]))
    if kind is object or kind is Any:
        return lambda value, path, member: value
    if hasattr(kind, "from_json"):
        return lambda value, path, member: kind.from_json(value, path)
    if is_dataclass(kind):
        return _members(kind)
    if hasattr(kind, "_fields"):
        return _row(kind._make, list(get_type_hints(kind, include_extras=True).values()))
    return _plain(kind)


def _plain(kind: type) -> _Reader:
    words = {
        int: "a 64-bit integer",
        float: "a finite number",
        str: "a text",
        bool: "true or false",
        NoneType: "nothing",
    }
    kinds = (int, float) if kind is float else (kind,)

    def read(value: Any, path: str, member: str) -> Any:
        if type(value) not in kinds or (kind is int and not -(1 << 63) <= value < 1 << 63):
            raise wrong_type(path, member, words[kind], value)
        if kind is float and not -MAX_NUMBER < value < MAX_NUMBER:
            raise wrong_type(path, member, words[kind], value)
        return value

    return read


def _checked(read: _Reader, check: Check) -> _Reader:
    def checked(value: Any, path: str, member: str) -> Any:
        if not check.holds(found := read(value, path, member)):
            raise wrong_type(path, member, check.expected, value)
        return found

    return checked


def _either(kinds: tuple[Any, ...]) -> _Reader:
    """Read one of several types: nothing or a value, or one of several classes with a `kind`."""
    others = [kind for kind in kinds if kind is not NoneType]
    if len(others) == 1:
        read = _reader(others[0])
        return lambda value, path, member: None if value is None else read(value, path, member)
    readers = {kind.kind: _reader(kind) for kind in others}
    word = _reader(Literal[tuple(readers)])

    def either(value: Any, path: str, member: str) -> Any:
        found = value.get("kind") if isinstance(value, dict) else None
        return readers[word(found, path, f"the kind of {member}")](value, path, member)

    return either


def _array(build: Callable[[Iterable[Any]], Any], read: _Reader) -> _Reader:
    def array(value: Any, path: str, member: str) -> Any:
        if not isinstance(value, list):
            raise wrong_type(path, member, "an array", value)
        return build(read(each, path, member) for each in value)

    return array


def _row(build: Callable[[Iterable[Any]], Any], kinds: Sequence[Any]) -> _Reader:
    readers = [_reader(kind) for kind in kinds]

    def row(value: Any, path: str, member: str) -> Any:
        if not isinstance(value, list) or len(value) != len(readers):
            raise wrong_type(path, member, f"an array of {len(readers)} values", value)
        return build(read(each, path, member) for read, each in zip(readers, value, strict=True))

    return row


def _object(build: Callable[[dict[str, Any]], Any], read: _Reader) -> _Reader:
    def entries(value: Any, path: str, member: str) -> Any:
        if not isinstance(value, dict):
            raise wrong_type(path, member, "an object", value)
        return build({key: read(each, path, member) for key, each in value.items()})

    return entries


def _members(kind: Any) -> _Reader:
    hints = get_type_hints(kind, include_extras=True)
    readers = {each.name: _reader(hints[each.name]) for each in fields(kind)}
    if isinstance(constant := getattr(kind, "kind", None), str):
        readers["kind"] = _reader(Literal[constant])
    may_lack = {
        each.name for each in fields(kind) if each.default is not MISSING or each.default_factory is not MISSING
    }
    needed = readers.keys() - (may_lack if getattr(kind, "may_lack_members", False) else ())

    def members(value: Any, path: str, member: str) -> Any:
        if not isinstance(value, dict):
            raise wrong_type(path, member, "an object", value)
        for odd in sorted((value.keys() - readers.keys()) | (needed - value.keys())):
            expected = "no such member" if odd in value else "a value"
            raise wrong_type(path, f"{shorten(odd)} of {member}", expected, value.get(odd))
        found = {name: read(value[name], path, name) for name, read in readers.items() if name in value}
        if isinstance(constant, str):
            del found["kind"]
        try:
            return kind(**found)
        except ValueError as error:  # the class checks how its fields fit together
            raise FormatError(f"{path}: expected {error} in {member}") from error

    return members
