"""Locations: the root of a table, a control location or an external data root, in one spelling each."""

import os
from dataclasses import dataclass
from pathlib import Path

from lakesweep.errors import UsageError

_S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})


@dataclass(frozen=True, slots=True)
class Location:
    """A place where a store is rooted."""

    scheme: str
    """`file`, `s3` or `memory`."""
    bucket: str
    """Empty for `file`."""
    path: str
    """Absolute for `file`, else without outer slashes, maybe empty."""

    def __str__(self) -> str:
        if self.scheme == "file":
            return self.path
        return f"{self.scheme}://{self.bucket}/{self.path}".rstrip("/")

    def contains(self, other: "Location") -> bool:
        """Tell whether `other` is this place or lies below it, however links spell the two."""
        if self.scheme != other.scheme or self.bucket != other.bucket:
            return False
        if _is_within(self.path, other.path):
            return True
        return self.scheme == "file" and _is_within(os.path.realpath(self.path), os.path.realpath(other.path))


def parse_location(text: str) -> Location:
    """Read a local path, a `file:` URI, `s3://bucket/prefix` (also `s3a`, `s3n`) or `memory://name/path`.

    Raises:
        UsageError: Anything else.
    """
    scheme, separator, rest = text.partition("://")
    scheme = scheme.lower()
    if not separator:
        if text.lower().startswith("file:"):
            return _local(text[5:], text)
        return _local(text, text)
    if scheme == "file":
        return _local(rest if rest.startswith("/") else "", text)
    if scheme not in _S3_SCHEMES and scheme != "memory":
        raise UsageError(f"expected a local path or s3://bucket/prefix, found {text!r}")
    bucket, _, path = rest.partition("/")
    parts = [part for part in path.split("/") if part]
    if not bucket or "\0" in text or any(part in (".", "..") for part in parts):
        raise UsageError(f"expected {scheme}://bucket/prefix without dot parts, found {text!r}")
    return Location("s3" if scheme in _S3_SCHEMES else scheme, bucket, "/".join(parts))


def _local(path: str, text: str) -> Location:
    if not path or "\0" in path:
        raise UsageError(f"expected a local path or s3://bucket/prefix, found {text!r}")
    return Location("file", "", os.path.abspath(Path(path)))


def _is_within(root: str, path: str) -> bool:
    root, path = root.strip("/"), path.strip("/")
    return not root or path == root or path.startswith(f"{root}/")
