"""Locations: the root of a table, a control location or an external data root, each in one spelling."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from lakesweep.errors import UsageError

_S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):(?P<slashes>/*)(?P<rest>.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9._-]+")
_ALIASES = ("-s3alias", "--ol-s3")
_SLASHES = re.compile(r"//+")


@dataclass(frozen=True, slots=True)
class Location:
    """The root of a store."""

    scheme: str
    """`file`, `s3` or `memory`."""
    bucket: str
    """Empty for `file`."""
    path: str
    """Absolute for `file`; otherwise without outer slashes, possibly empty."""

    def __str__(self) -> str:
        if self.scheme == "file":
            return self.path
        return f"{self.scheme}://{self.bucket}/{self.path}".rstrip("/")

    def contains(self, other: "Location") -> bool:
        """Tell whether `other` is this location or lies below it, in any spelling.

        Links in local paths are treated broadly. A folder counts as inside if it only appears to lie elsewhere because
        of a link, and also if it lies elsewhere but is reached through a link inside.
        """
        return self.relative(other) is not None

    def relative(self, other: "Location") -> str | None:
        """Return the key of `other` below this location: `""` for the location itself, `None` if it lies outside."""
        if (self.scheme, self.bucket) != (other.scheme, other.bucket):
            return None
        if self.scheme != "file":
            return _below(self.path, other.path)
        roots = dict.fromkeys((self.path, os.path.realpath(self.path)))
        found = (_below(root, path) for path in _spellings(other.path) for root in roots)
        return next((key for key in found if key is not None), None)


def parse_location(text: str) -> Location:
    """Parse a local path, a `file:` URI, `s3://bucket/prefix` (also `s3a`, `s3n`) or `memory://name/path`.

    A relative path begins at the working directory. As in Paimon, repeated and trailing slashes are ignored.

    Raises:
        UsageError: The text is anything else.
    """
    if not text.strip() or "\0" in text:
        raise _unusable(text)
    match = _SCHEME.fullmatch(text)
    scheme = match["scheme"].lower() if match else ""
    if match is None or (not match["slashes"] and scheme != "file"):
        return Location("file", "", _absolute(text))
    if scheme == "file":
        # `file:/p` and `file:///p`; after two slashes, the name of a machine would begin.
        if not match["slashes"] or len(match["slashes"]) == 2:
            raise _unusable(text)
        return Location("file", "", _absolute("/" + match["rest"]))
    if scheme in _S3_SCHEMES:
        scheme = "s3"
    if (scheme != "s3" and scheme != "memory") or match["slashes"] != "//":
        raise _unusable(text)
    bucket, _, path = match["rest"].partition("/")
    parts = [part for part in path.split("/") if part]
    if not _BUCKET.fullmatch(bucket):
        raise UsageError(f"location {text!r}: expected {scheme}://bucket/prefix, found no usable bucket name")
    if "." in parts or ".." in parts:
        raise UsageError(f"location {text!r}: expected a prefix without . and .. parts")
    return Location(scheme, bucket, "/".join(parts))


def alias_warning(location: str) -> str | None:
    """Return a warning if a bucket looks like the alias of an access point, since the bucket then has a second name."""
    bucket = location.removeprefix("s3://").partition("/")[0]
    if not location.startswith("s3://") or not bucket.endswith(_ALIASES):
        return None
    return (
        f"{location}: {bucket} looks like the alias of an access point; a table with two names has two leases, so use "
        "the bucket's own name, the same for every maintainer"
    )


def _unusable(text: str) -> UsageError:
    return UsageError(f"location {text!r}: expected a local path, file:///path or s3://bucket/prefix")


def _absolute(path: str) -> str:
    try:
        return _resolved(path)
    except FileNotFoundError as error:
        raise UsageError(
            f"location {path!r}: expected a path that begins with /, since the working directory does not exist "
            "any more"
        ) from error


def _resolved(path: str) -> str:
    parts = path.split("/")
    if ".." in parts:
        # `link/..` is the folder above the link's target. Only the file system knows this folder.
        end = len(parts) - parts[::-1].index("..")
        path = str(Path(os.path.realpath("/".join(parts[:end])), *parts[end:]))
    return str(Path(_SLASHES.sub("/", path)).absolute())


def _spellings(path: str) -> list[str]:
    """Return every path on the way to `path`: links in its first part resolved, then in its first two, ..."""
    parts = path.split("/")
    found = (Path(os.path.realpath("/".join(parts[:end]) or "/"), *parts[end:]) for end in range(len(parts) + 1))
    return list(dict.fromkeys(str(each) for each in found))


def _below(root: str, path: str) -> str | None:
    root, path = root.strip("/"), path.strip("/")
    if not root or path == root:
        return path if not root else ""
    return path.removeprefix(f"{root}/") if path.startswith(f"{root}/") else None


def spell(location: str) -> str:
    """Return the one spelling of a location; for a local path, the path without symbolic links.

    Raises:
        UsageError: This is no location.
    """
    place = parse_location(location)
    return os.path.realpath(place.path) if place.scheme == "file" else str(place)
