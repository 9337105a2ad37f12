"""Pages of ListObjectsV2, parsed by expat.

botocore's own parse of a page of 1 000 keys costs many times more CPU than all else about it. The hook parses the page,
leaves the result beside botocore's, and hands botocore an empty page. What it does not understand (an error, garbled
XML) it leaves to botocore, and `page_of` then takes botocore's result.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import unquote_plus
from xml.parsers import expat

from lakesweep.errors import StorageError
from lakesweep.storage.store import StoredObject

_RESULT = "LakesweepPage"
_EMPTY = b'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult></ListBucketResult>'
_HTTP_OK = 200


@dataclass(slots=True)
class ListPage:
    """One page: objects with whole keys, and where to go on."""

    objects: list[StoredObject] = field(default_factory=list)
    next_token: str | None = None
    is_truncated: bool = False


def parse_list_response(response_dict: dict[str, Any], customized_response_dict: dict[str, Any], **_: object) -> None:
    """Parse a page before botocore does (event `before-parse.s3.ListObjectsV2`)."""
    if response_dict.get("status_code") != _HTTP_OK:
        return
    page = parse_page(response_dict["body"])
    if page is not None:
        customized_response_dict[_RESULT] = page
        response_dict["body"] = _EMPTY


def page_of(response: Mapping[str, Any], where: str) -> ListPage:
    """Return the page of a response, however it was parsed.

    Raises:
        StorageError: A page that promises more and does not say where.
    """
    page = response.get(_RESULT)
    if page is None:
        page = ListPage(
            [
                StoredObject(
                    entry["Key"], entry["Size"], entry["ETag"].strip('"'), int(entry["LastModified"].timestamp() * 1000)
                )
                for entry in response.get("Contents", ())
            ],
            response.get("NextContinuationToken"),
            bool(response.get("IsTruncated")),
        )
    assert isinstance(page, ListPage)
    if page.is_truncated and not page.next_token:
        raise StorageError(f"list {where}: expected a continuation token in a truncated page, found none")
    return page


def parse_page(body: bytes) -> ListPage | None:
    """Parse a page; `None` when this is no whole ListBucketResult."""
    reader = _PageReader()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(body, True)
        return reader.page if reader.complete else None
    except (expat.ExpatError, ValueError, KeyError):
        return None


class _PageReader:
    """Collects text at the depth where a page keeps it: 2 for the page's own fields, 3 for those of an object."""

    def __init__(self) -> None:
        self.page = ListPage()
        self.complete = False
        self._depth = 0
        self._in_contents = False
        self._text: list[str] = []
        self._fields: dict[str, str] = {}
        self._url_encoded = False
        self._times: dict[str, int] = {}
        self._raw: list[dict[str, str]] = []

    def start(self, name: str, _attributes: object) -> None:
        self._depth += 1
        if self._depth == 1 and name != "ListBucketResult":
            raise ValueError(name)
        if self._depth == 2:
            self._in_contents = name == "Contents"
            self._fields = {}
        self._text = []

    def text(self, data: str) -> None:
        self._text.append(data)

    def end(self, name: str) -> None:
        if self._depth == 3 and self._in_contents:
            self._fields[name] = "".join(self._text)
        elif self._depth == 2 and self._in_contents:
            self._raw.append(self._fields)
        elif self._depth == 2:
            self._page_field(name, "".join(self._text))
        elif self._depth == 1:
            # EncodingType may stand behind the objects, so keys are decoded at the end.
            self.page.objects = [self._object(fields) for fields in self._raw]
            self.complete = True
        self._depth -= 1
        self._text = []

    def _page_field(self, name: str, value: str) -> None:
        if name == "IsTruncated":
            self.page.is_truncated = value == "true"
        elif name == "NextContinuationToken":
            self.page.next_token = value
        elif name == "EncodingType":
            self._url_encoded = value == "url"

    def _object(self, fields: dict[str, str]) -> StoredObject:
        key = unquote_plus(fields["Key"]) if self._url_encoded else fields["Key"]
        modified = fields["LastModified"]
        if modified not in self._times:
            self._times[modified] = int(datetime.fromisoformat(modified).timestamp() * 1000)
        return StoredObject(key, int(fields["Size"]), fields["ETag"].strip('"'), self._times[modified])
