"""JSON documents: one object per file, with typed access to its fields.

A document can harm its reader in three ways: by its size, its nesting, and the number of values that a few bytes can
expand to. Each has a limit that is checked before parsing. As in Java, a field with `null` counts as absent.
"""

import json
import re
from decimal import Decimal
from typing import NoReturn

from lakesweep.errors import FormatError

MAX_BYTES = 16 << 20
MAX_DEPTH = 64
MAX_SEPARATORS = 500_000
"""More commas, colons and brackets than in a schema of ten thousand columns; a million tiny values take 100 MiB."""

MAX_NAME_BYTES = 1024
"""The longest object key of S3, so no file name is longer."""

SEPARATORS = (b"{", b"[", b",", b":")
# Possessive, and the closing quote is optional: one pass is enough, however the quotes are placed.
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)

_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
"""Control characters, and characters that turn or break a line of output."""


def parse_object(body: bytes, path: str) -> dict[str, object]:
    """Parse a document that must be one JSON object.

    Fractions become `Decimal`, so no digit is lost. If a key is given twice, the last one counts.
    """
    value = parse_value(body, path)
    if not isinstance(value, dict):
        raise FormatError(f"{path}: expected a JSON object, found {describe(value)}")
    return value


def parse_value(body: bytes, path: str) -> object:
    """Parse any JSON value in UTF-8, within the bounds of this module."""
    if len(body) > MAX_BYTES:
        raise FormatError(f"{path}: expected a JSON document of at most {MAX_BYTES} bytes, found {len(body)}")
    if (separators := sum(body.count(sign) for sign in SEPARATORS)) > MAX_SEPARATORS:
        raise FormatError(f"{path}: expected at most {MAX_SEPARATORS} JSON values, found {separators} separators")
    # Between two texts there is a separator. So only quotes inside texts or outside of JSON can exceed this limit.
    if body.count(b'"') > 4 * MAX_SEPARATORS:
        raise FormatError(f"{path}: expected at most {4 * MAX_SEPARATORS} quotes in JSON, found more")
    _check_depth(body, path)
    try:
        return json.loads(body.decode("utf-8"), parse_float=Decimal, parse_constant=_refuse_constant)
    # ArithmeticError: an exponent that Decimal cannot hold. RecursionError: the caller's stack was almost used up.
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise FormatError(f"{path}: expected JSON in UTF-8, found {shorten(str(error))}") from error


def get_int(document: dict[str, object], field: str, path: str) -> int | None:
    """Return an integer of at most 64 bits, or None if it is absent."""
    value = document.get(field)
    if value is None:
        return None
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise wrong_type(path, field, "a 64-bit integer", value)
    return value


def require_int(document: dict[str, object], field: str, path: str) -> int:
    """Return an integer of at most 64 bits."""
    value = get_int(document, field, path)
    if value is None:
        raise wrong_type(path, field, "a 64-bit integer", None)
    return value


def get_str(document: dict[str, object], field: str, path: str) -> str | None:
    """Return a text, or None if it is absent."""
    value = document.get(field)
    return None if value is None else check_str(value, path, field)


def require_str(document: dict[str, object], field: str, path: str) -> str:
    """Return a text."""
    return check_str(document.get(field), path, field)


def get_list(document: dict[str, object], field: str, path: str) -> list[object]:
    """Return an array, empty if it is absent."""
    value = document.get(field)
    if value is None:
        return []
    if not isinstance(value, list):
        raise wrong_type(path, field, "an array", value)
    return value


def get_object(document: dict[str, object], field: str, path: str) -> dict[str, object]:
    """Return an object, empty if it is absent."""
    value = document.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise wrong_type(path, field, "an object", value)
    return value


def get_file_name(document: dict[str, object], field: str, path: str) -> str | None:
    """Return the name of a file that this document refers to, or None if it is absent."""
    name = get_str(document, field, path)
    return None if name is None else check_file_name(name, path, field)


def require_file_name(document: dict[str, object], field: str, path: str) -> str:
    """Return the name of a file that this document refers to."""
    return check_file_name(require_str(document, field, path), path, field)


def check_field_names(document: dict[str, object], known: frozenset[str], path: str) -> None:
    """Refuse a field whose name differs from a known, absent field in one character.

    A flipped bit in the name of an optional field would otherwise make the field absent: a snapshot without index
    files. Fields of later versions have other names and are accepted.
    """
    absent = known - document.keys()
    sizes = frozenset(map(len, absent))
    for name in (name for name in document.keys() - known if len(name) in sizes):
        for like in absent:
            if len(name) == len(like) and sum(map(str.__ne__, name, like)) == 1:
                raise FormatError(f"{path}: expected the field {like}, found {describe(name)}")


def check_str(value: object, path: str, field: str) -> str:
    """Return `value` if it is a text that UTF-8 can encode. JSON's escapes can produce half a character."""
    if not isinstance(value, str):
        raise wrong_type(path, field, "a text", value)
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise wrong_type(path, field, "text in Unicode", value) from error
    return value


def check_file_name(name: str, path: str, field: str) -> str:
    """Return `name` if it is one plain path part.

    Names in metadata become keys that Lakesweep deletes. A name with a slash or `..` would lead out of its folder.
    """
    try:
        size = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= MAX_NAME_BYTES or name in (".", "..") or "/" in name or _INVISIBLE.search(name):
        raise wrong_type(path, field, "a plain file name", name)
    return name


def wrong_type(path: str, field: str, expected: str, found: object) -> FormatError:
    """Build the error for a field with a value of the wrong type."""
    return FormatError(f"{path}: expected {expected} in {field}, found {describe(found)}")


def describe(value: object) -> str:
    """Return `value` in a few words, however large the value is."""
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return f"an object of {len(value)} fields"
    if isinstance(value, list):
        return f"an array of {len(value)} values"
    if isinstance(value, int) and value.bit_length() > 256:
        return "a huge number"
    return shorten(ascii(value)) if isinstance(value, str) else shorten(str(value))


def shorten(text: str) -> str:
    """Return the beginning of `text`, short enough for a message."""
    return text if len(text) <= 120 else text[:117] + "..."


def _check_depth(body: bytes, path: str) -> None:
    if body.count(b"{") + body.count(b"[") <= MAX_DEPTH:
        return
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(body):
        first = body[match.start()]
        if first in b"[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise FormatError(f"{path}: expected JSON nested at most {MAX_DEPTH} deep, found more")
        elif first in b"]}":
            depth -= 1


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name}, which is not JSON")
