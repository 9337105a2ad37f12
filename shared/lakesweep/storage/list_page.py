"""Pages of ListObjectsV2, parsed by expat; most objects of a page by one regular expression (`regular_page`).

botocore's own parse of a page of 1 000 keys takes about five times the CPU of everything else. So `parse_response` runs
before it (`PARSE_EVENT`), stores its result beside botocore's, and gives botocore an empty page. Retries, credentials
and endpoints remain botocore's business. botocore also gets the answers that report an error or are no XML, and sends
the request again. If a version of botocore does not send the event, `page_of` takes botocore's own result.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from operator import add
from typing import Any
from urllib.parse import unquote_plus
from xml.parsers import expat

from lakesweep.errors import StorageError
from lakesweep.storage.regular_page import RegularPage, regular_page

PARSE_EVENT = "before-parse.*.ListObjectsV2"
"""With the asterisk, botocore calls Lakesweep before its own handler of `before-parse.s3.*`. That handler parses every
answer completely to see whether it reports an error. In another order, the result is right but takes 50 % longer."""
_RESULT = "LakesweepPage"
_PROBLEM = "LakesweepProblem"
_EMPTY = b'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult></ListBucketResult>'
_HTTP_OK = 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_MAX_SIZE = 2**63 - 1
_SINGLE = frozenset(("Key", "Prefix", "IsTruncated", "NextContinuationToken", "EncodingType"))
"""Fields that decide which keys exist. If one had two values, a key would be lost."""

PageEntry = tuple[str, int, str, int]
"""Whole key, size in bytes, ETag without quotes, epoch milliseconds."""


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page, and the token for the next."""

    entries: tuple[PageEntry, ...]
    next_token: str | None
    """`None` on the last page."""
    folders: tuple[str, ...] = ()
    """Whole common prefixes with their trailing slashes, if a delimiter was given."""


def parse_response(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Parse a page before botocore does. botocore determines the names of the parameters."""
    body = response_dict["body"]
    if response_dict["status_code"] != _HTTP_OK or b"<Error>" in body[:1000]:
        return
    try:
        customized_response_dict[_RESULT] = parse_page(body)
    except StorageError as error:
        if isinstance(error.__cause__, expat.ExpatError):
            return
        customized_response_dict[_PROBLEM] = str(error)
    response_dict["body"] = _EMPTY


def page_of(response: Mapping[str, Any], where: str) -> ListPage:
    """Return the page of a response, whether Lakesweep or botocore parsed it.

    Args:
        response: The result of botocore.
        where: The listed location, for messages.

    Raises:
        StorageError: The page is incomplete, so objects that it does not name may exist nevertheless.
    """
    if _PROBLEM in response:
        raise _damaged(f"list {where}: {response[_PROBLEM]}")
    page = response.get(_RESULT)
    if isinstance(page, ListPage):
        return page
    try:
        entries = tuple(
            (entry["Key"], _size(entry["Size"]), entry["ETag"].strip('"'), _epoch_ms(entry["LastModified"]))
            for entry in response.get("Contents", ())
        )
        folders = tuple(common["Prefix"] for common in response.get("CommonPrefixes", ()))
        return ListPage(entries, _next_token(response["IsTruncated"], response.get("NextContinuationToken")), folders)
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(f"list {where}: expected a whole page, found {error!r}") from error


def parse_page(body: bytes) -> ListPage:
    """Parse a ListBucketResult.

    Raises:
        StorageError: The body is anything else than a complete result.
    """
    regular = regular_page(body)
    if regular is not None:
        with suppress(expat.ExpatError, LookupError, TypeError, ValueError):
            reader = _read(regular.rest)
            rest, entries = reader.page(), reader.regular(regular)
            if rest.entries == entries[:1]:
                return replace(rest, entries=entries)
    return parse_carefully(body)


def parse_carefully(body: bytes) -> ListPage:
    """Parse a ListBucketResult by expat alone; see `parse_page`."""
    try:
        return _read(body).page()
    except (expat.ExpatError, LookupError, TypeError, ValueError) as error:
        raise _damaged(f"expected a whole ListBucketResult, found {len(body)} bytes with {error!r}") from error


def _read(body: bytes) -> "_PageReader":
    reader = _PageReader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    parser.Parse(body, True)
    return reader


def _size(value: str | int) -> int:
    """Return the size of an object in bytes. It fits into 64 bits."""
    size = int(value)
    if not 0 <= size <= _MAX_SIZE:
        raise ValueError(f"a size of {len(str(value))} digits")
    return size


class _PageReader:
    """Collects text by depth: 2 for the page's own fields, 3 for the fields of an object."""

    def __init__(self) -> None:
        self._depth = 0
        self._text = ""
        self._page: dict[str, str] = {}
        self._object: dict[str, str] = {}
        self._objects: list[dict[str, str]] = []
        self._folders: list[str] = []

    def start(self, name: str, _attributes: object) -> None:
        self._depth += 1
        if self._depth == 2:
            self._object = {}
        elif name == "Contents":
            raise ValueError("an object in another element")
        elif self._depth == 1 and name != "ListBucketResult":
            raise ValueError(name)
        if ":" in name or (self._depth > 3 and self._text.strip()):
            raise ValueError("an element with a prefix, or inside a text")
        self._text = ""

    def text(self, data: str) -> None:
        self._text += data

    def end(self, name: str) -> None:
        depth = self._depth
        self._depth = depth - 1
        if depth == 3:
            _set_once(self._object, name, self._text)
        elif depth == 2 and name == "Contents":
            self._objects.append(self._object)
        elif depth == 2 and name == "CommonPrefixes":
            self._folders.append(self._object["Prefix"])
        elif depth == 2:
            _set_once(self._page, name, self._text)
        self._text = ""

    def page(self) -> ListPage:
        # Decode only here, because EncodingType may follow the objects. Lakesweep asks for no other encoding than
        # "url".
        decoded = _UrlDecoder().decoded if self._is_encoded() else str
        times = _Times()
        entries = tuple(
            (decoded(fields["Key"]), _size(fields["Size"]), fields["ETag"].strip('"'), times[fields["LastModified"]])
            for fields in self._objects
        )
        truncated = {"true": True, "false": False}[self._page["IsTruncated"]]
        next_token = _next_token(truncated, self._page.get("NextContinuationToken"))
        return ListPage(entries, next_token, tuple(map(decoded, self._folders)))

    def regular(self, found: RegularPage) -> tuple[PageEntry, ...]:
        """Return the objects of a page, of which this reader has read the rest."""
        decoded = _unquote if self._is_encoded() else str
        folders = {folder: decoded(folder) for folder in set(found.folders) if folder is not None} | {None: ""}
        times = {time: _epoch_ms(datetime.fromisoformat(time)) for time in set(found.times)}
        keys = map(add, map(folders.__getitem__, found.folders), found.names)
        return tuple(zip(keys, map(int, found.sizes), found.etags, map(times.__getitem__, found.times), strict=True))

    def _is_encoded(self) -> bool:
        return self._page.get("EncodingType") == "url"


def _set_once(fields: dict[str, str], name: str, text: str) -> None:
    if fields.setdefault(name, text) != text and name in _SINGLE:
        raise ValueError(f"{name} twice")


class _Times(dict[str, int]):
    """Epoch milliseconds of the times on a page. Many of them are equal."""

    def __missing__(self, time: str) -> int:
        found = self[time] = _epoch_ms(datetime.fromisoformat(time))
        return found


class _UrlDecoder:
    """Decodes keys. A folder that a key shares with the previous one is decoded only once.

    Keys of partitioned tables need this (`=` comes as `%3D`), though seldom in their last part. No escape spans a
    slash, since the parts would not be UTF-8.
    """

    def __init__(self) -> None:
        self._folder = ("", "")

    def decoded(self, key: str) -> str:
        folder, slash, name = key.rpartition("/")
        if folder != self._folder[0]:
            self._folder = (folder, _unquote(folder))
        return self._folder[1] + slash + _unquote(name)


def _unquote(text: str) -> str:
    return unquote_plus(text, errors="strict") if "%" in text or "+" in text else text


def _next_token(truncated: bool, token: str | None) -> str | None:
    if not truncated:
        return None
    if not token:
        raise ValueError("a truncated page without a token for the next")
    return token


def _epoch_ms(time: datetime) -> int:
    return (time - _EPOCH) // _MILLISECOND


def _damaged(message: str) -> StorageError:
    return StorageError(message, code="damaged_page")
