"""Locations outside the table: absolute paths and URIs, each in one spelling.

Metadata and options may spell one location in many ways: `FILE:/tmp/x`, `file:///tmp/x` and `/tmp/x`; `s3a://b/k` and
`s3://b/k`.
"""

import re

from lakesweep.errors import FormatError
from lakesweep.format.values.json_document import describe, wrong_type

MAX_BYTES = 4096

_URI = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?://(?P<authority>[^/]*))?(?P<path>/.*|)")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SLASHES = re.compile(r"//+")
_SAME_SCHEME = {"s3a": "s3", "s3n": "s3"}


def normalise_uri(text: str) -> str:
    """Return the spelling for comparisons: a plain path on this machine, otherwise `scheme://authority/path`.

    The scheme becomes lower case, `s3a` and `s3n` become `s3`, repeated and trailing slashes are removed.

    Raises:
        FormatError: It is not absolute, or has a `.` or `..` part.
    """
    if text.startswith("/"):
        return _normal_path(text, text) or "/"
    match = _URI.fullmatch(text)
    if match is None:
        raise FormatError(f"expected an absolute path or URI, found {describe(text)}")
    scheme = match["scheme"].lower()
    path = _normal_path(match["path"], text)
    authority = match["authority"] or ""
    if scheme == "file" and not authority:
        return path or "/"
    if not authority and not path:
        raise FormatError(f"expected an absolute path or URI, found {describe(text)}")
    return f"{_SAME_SCHEME.get(scheme, scheme)}://{authority}{path}"


def check_external_path(text: str, path: str, field: str) -> str:
    """Return `text` unchanged if it names one file by an absolute path or URI."""
    try:
        sound = 0 < len(text.encode("utf-8")) <= MAX_BYTES and not _CONTROL.search(text) and not text.endswith("/")
        normal = normalise_uri(text) if sound else ""
    except (FormatError, UnicodeEncodeError):
        normal = ""
    # A bucket or the root folder alone is not a file.
    if not normal.partition("://")[2 if "://" in normal else 0].strip("/").count("/"):
        raise wrong_type(path, field, "the absolute path or URI of a file", text)
    return text


def _normal_path(path: str, whole: str) -> str:
    if "/./" in (closed := path + "/") or "/../" in closed:
        raise FormatError(f"expected an absolute path or URI without . and .. parts, found {describe(whole)}")
    return _SLASHES.sub("/", path).rstrip("/")
