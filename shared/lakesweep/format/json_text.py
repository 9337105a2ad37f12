"""JSON as the engine prints it: two blanks a level, ` : ` after a name, arrays on one line.

Source: Jackson `DefaultPrettyPrinter`, with which Paimon writes snapshots, tags and success files.
"""

import json
import re
from collections.abc import Mapping

from lakesweep.errors import FormatError
from lakesweep.format import json_document

_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


class RawNumber(str):
    """A number in the digits of the document that it comes from, so that none is lost or added."""

    __slots__ = ()


def parse_raw(body: bytes, path: str) -> dict[str, object]:
    """Parse a document that must be one JSON object, with its numbers as they are written.

    Raises:
        FormatError: It is none, or beyond the bounds of `json_document`.
    """
    json_document.parse_object(body, path)
    document: dict[str, object] = json.loads(body, parse_float=RawNumber, parse_int=RawNumber)
    return document


def print_object(document: Mapping[str, object], path: str) -> bytes:
    """Print an object.

    Raises:
        FormatError: A text in it holds half a character, which UTF-8 cannot say.
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
        # Arrays take no level of their own, so an object in one is as deep as it would be without.
        return f"[ {', '.join(_text(item, depth) for item in value)} ]" if value else "[ ]"
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, int):
        return str(value)
    raise TypeError(f"expected what JSON can say, found {type(value).__name__}")


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
