"""JSON as Paimon prints it: two blanks for each level, ` : ` after a name, arrays on one line.

Source: Jackson `DefaultPrettyPrinter`, with which Paimon writes snapshots, tags and success files.
"""

import json
import re
from collections.abc import Mapping

from lakesweep.errors import FormatError
from lakesweep.format.values import json_document

_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


class RawNumber(str):
    """A number with exactly the digits of its document."""

    __slots__ = ()


def parse_raw(body: bytes, path: str) -> dict[str, object]:
    """Parse a document that must be one JSON object, and keep the digits of its numbers.

    Raises:
        FormatError: It is not an object, or exceeds the limits of `json_document`.
    """
    json_document.parse_object(body, path)
    document: dict[str, object] = json.loads(body, parse_float=RawNumber, parse_int=RawNumber)
    return document


def print_object(document: Mapping[str, object], path: str) -> bytes:
    """Print an object.

    Raises:
        FormatError: A text contains half a character, which UTF-8 cannot encode.
    """
    try:
        return _object(document, 0).encode("utf-8")
    except UnicodeEncodeError as error:
        raise FormatError(f"{path}: expected text in Unicode, found {error.object[error.start]!a}") from error


def _text(value: object, depth: int) -> str:
    if isinstance(value, RawNumber):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, Mapping):
        return _object(value, depth)
    if isinstance(value, list | tuple):
        # An array adds no level of indentation, so an object inside it is indented as without the array.
        return f"[ {', '.join(_text(item, depth) for item in value)} ]" if value else "[ ]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(value)
    raise TypeError(f"expected a JSON value, found {type(value).__name__}")


def _object(document: Mapping[str, object], depth: int) -> str:
    if not document:
        return "{ }"
    inside = "\n" + "  " * (depth + 1)
    fields = ("," + inside).join(f"{_quoted(name)} : {_text(value, depth + 1)}" for name, value in document.items())
    return f"{{{inside}{fields}\n{'  ' * depth}}}"


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(match: re.Match[str]) -> str:
    sign = match[0]
    return _SHORT.get(sign) or f"\\u{ord(sign):04X}"
