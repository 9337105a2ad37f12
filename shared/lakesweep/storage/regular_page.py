"""The objects of a page of a listing, found by one regular expression: in a fifth of the time that expat takes.

Servers print the objects of a page one after the other, each in the same form. If a page is like that, `regular_page`
returns its objects as columns, and the page without all but its first object. The caller lets expat parse that page,
which proves these things:

- The page is well-formed, and the objects are where objects belong: expat finds the first one there.
- No object is outside the columns: the rest of the page has no other `<Contents`.
- No byte of the objects was skipped: each object matches as a whole, and nothing lies between two of them.

Any other page is the business of expat alone: with another character than plain ASCII, an escape in an object other
than the quotes of an ETag, an unknown element, a comment or a declaration.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

_DECLARATION = re.compile('(?:<[?]xml version="1.0" encoding="(?i:utf-8)"[?]>)?')
_BEGIN, _END = "<Contents>", "</Contents>"
_ODD = ("<!", "<?", "<Contents")
"""What must not be outside the objects. Comments and the like could hide them; declarations could change their text."""
_TEXT = r"[ !\"#-%'-;=?-~]*"
"""Text that means itself: ASCII without `&`, `<`, `>` and control characters."""
_QUOTE = '(?:&quot;|&#34;|")?'
_FIELDS = {
    # Names of files have no escapes, and few files share a folder with none. So only folders are decoded.
    "Key": r"([ !\"#-%'-;=?-~]*/)?([ !\"#$'-*,-.0-;=?-~]*)",
    "LastModified": f"({_TEXT})",
    "ETag": rf"{_QUOTE}([ !#-%'-;=?-~]*){_QUOTE}",
    "Size": "([0-9]{1,18})",
}
_COLUMNS = {"Key": ("folders", "names"), "LastModified": ("times",), "ETag": ("etags",), "Size": ("sizes",)}
_FIELD = re.compile(f"<({'|'.join(_FIELDS)})>")


def _element(name: str, content: str = _TEXT) -> str:
    return f"<{name}>{content}</{name}>"


_OWNER = _element("Owner", f"(?:{_element('ID')})?(?:{_element('DisplayName')})?")
_OTHERS = f"(?:{'|'.join([*map(_element, ('ChecksumAlgorithm', 'ChecksumType', 'StorageClass', 'Type')), _OWNER])})*"


@dataclass(frozen=True, slots=True)
class RegularPage:
    """A page whose objects have the usual form."""

    rest: bytes
    """The page with its first object alone."""
    folders: Sequence[str | None]
    """The keys up to their last slash, still encoded as the page says; `None` without a slash."""
    names: Sequence[str]
    """The keys after their last slash, without escapes."""
    times: Sequence[str]
    etags: Sequence[str]
    """Without quotes."""
    sizes: Sequence[str]
    """At most 18 digits."""


def regular_page(body: bytes) -> RegularPage | None:
    """Return the columns of a page, or `None` if it has no objects or anything unusual."""
    if not body.isascii():
        return None
    text = body.decode("ascii")
    begin = text.find(_BEGIN)
    end = text.find(_END, begin) + len(_END)
    if begin < 0 or end < begin:
        return None
    fields = tuple(_FIELD.findall(text, begin, end))
    if len(fields) != len(_FIELDS) or len(set(fields)) != len(_FIELDS):
        return None
    # The parts are the text before the first object, then for each object its columns and the text after it.
    parts = _pattern(fields).split(text)
    width = 1 + sum(map(len, _COLUMNS.values()))
    head, tail = parts[0], parts[-1]
    outside = _DECLARATION.sub("", head, count=1) + tail
    if len(head) != begin or any(parts[width:-1:width]) or any(odd in outside for odd in _ODD):
        return None
    names = [column for field in fields for column in _COLUMNS[field]]
    columns = {name: parts[number::width] for number, name in enumerate(names, start=1)}
    return RegularPage((text[:end] + tail).encode("ascii"), **columns)


@cache
def _pattern(fields: Sequence[str]) -> re.Pattern[str]:
    """Return the pattern of an object with its fields in this order; there are 24 orders."""
    inner = "".join(f"{_element(field, _FIELDS[field])}{_OTHERS}" for field in fields)
    return re.compile(f"{_BEGIN}{_OTHERS}{inner}{_END}")
