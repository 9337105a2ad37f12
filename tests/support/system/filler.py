"""Objects that take next to no memory: the many files of a large table, of which nobody reads a byte.

moto keeps some kilobytes for each object and sorts all keys of a bucket for each page of a listing. So a bucket that
holds filler is listed here, in the order and the pages of S3, with what moto holds of it among the filler; and filler
is read and deleted here. Everything else about the bucket stays moto's.

Filler is written at one time, and is nothing but zeros, of one size for all.
"""

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, quote
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from werkzeug.wrappers import Response

MOST_KEYS = 1000
"""On a page, as S3 has it."""
_BEHIND_ALL = "\U0010ffff"
_NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


class Filler:
    """The filler of one bucket."""

    def __init__(self, modified_s: float, size_bytes: int = 1024) -> None:
        """Begin with none.

        Args:
            modified_s: When all of it was written, in seconds since the epoch.
            size_bytes: Of each object.
        """
        self.body = b"\0" * size_bytes
        self.etag = f'"{hashlib.md5(self.body, usedforsecurity=False).hexdigest()}"'
        self._modified = datetime.fromtimestamp(int(modified_s), UTC)
        self._keys: list[str] = []
        self._gone: set[str] = set()

    def add(self, keys: Iterable[str]) -> None:
        """Write objects that are not there."""
        self._keys = sorted({*self.keys(), *keys})
        self._gone.clear()

    def keys(self) -> list[str]:
        """Return what is there, in the order of a listing."""
        return [key for key in self._keys if key not in self._gone] if self._gone else self._keys

    def __contains__(self, key: str) -> bool:
        at = bisect_left(self._keys, key)
        return at < len(self._keys) and self._keys[at] == key and key not in self._gone

    def __len__(self) -> int:
        return len(self._keys) - len(self._gone)

    def remove(self, key: str) -> None:
        """Delete one object that is there."""
        self._gone.add(key)

    def next(self, after: str) -> str | None:
        """Return the first key behind a text."""
        at = bisect_right(self._keys, after)
        while at < len(self._keys) and self._keys[at] in self._gone:
            at += 1
        return self._keys[at] if at < len(self._keys) else None

    # --- answers ---

    def answer(
        self, operation: str, key: str, environ: Mapping[str, Any], others: Mapping[str, Any]
    ) -> Response | None:
        """Answer what is about filler, `None` for what is not.

        Args:
            operation: As the API names it.
            key: That it is about, empty if it is about the bucket.
            environ: Of the request.
            others: What moto holds of the bucket, by key.
        """
        if operation == "ListObjectsV2":
            return self._list(dict(parse_qsl(environ["QUERY_STRING"], keep_blank_values=True)), others)
        if key not in self:
            return None
        if operation == "DeleteObject":
            self.remove(key)
            return Response(status=204)
        if operation not in ("GetObject", "HeadObject"):
            raise NotImplementedError(f"{operation} of filler {key}")
        headers = {"ETag": self.etag, "Last-Modified": f"{self._modified:%a, %d %b %Y %H:%M:%S} GMT"}
        return Response(self.body, 200, headers, content_type="binary/octet-stream")

    def delete_some(self, body: bytes) -> tuple[bytes | None, list[str]]:
        """Delete the filler among the objects of a DeleteObjects.

        Returns:
            The rest of the request for moto, `None` if nothing is left, and the keys that went.
        """
        document = ElementTree.fromstring(body)
        gone = []
        for each in document.findall(f"{{{_NAMESPACE}}}Object"):
            key = each.findtext(f"{{{_NAMESPACE}}}Key") or ""
            if key in self:
                self.remove(key)
                gone.append(key)
                document.remove(each)
        if not gone:
            return body, gone
        ElementTree.register_namespace("", _NAMESPACE)
        is_left = document.find(f"{{{_NAMESPACE}}}Object") is not None
        return ElementTree.tostring(document) if is_left else None, gone

    def _list(self, query: Mapping[str, str], others: Mapping[str, Any]) -> Response:
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        most = min(int(query.get("max-keys", MOST_KEYS)), MOST_KEYS)
        token = query.get("continuation-token")
        after = bytes.fromhex(token).decode() if token else query.get("start-after", "")
        kept = sorted(key for key in others if key.startswith(prefix))
        objects: list[str] = []
        folders: list[str] = []
        if after < prefix:
            after = _just_before(prefix, self._keys, kept)
        is_truncated = False
        while (key := self._first(after, kept)) is not None and key.startswith(prefix):
            if len(objects) + len(folders) == most:
                is_truncated = True
                break
            end = key.find(delimiter, len(prefix)) if delimiter else -1
            if end < 0:
                objects.append(key)
                after = key
            else:
                folders.append(key[: end + len(delimiter)])
                after = folders[-1] + _BEHIND_ALL
        return self._page(query, objects, folders, others, after if is_truncated else None)

    def _first(self, after: str, kept: Sequence[str]) -> str | None:
        at = bisect_right(kept, after)
        mine, other = self.next(after), kept[at] if at < len(kept) else None
        return min((key for key in (mine, other) if key is not None), default=None)

    def _page(
        self,
        query: Mapping[str, str],
        objects: Sequence[str],
        folders: Sequence[str],
        others: Mapping[str, Any],
        next_after: str | None,
    ) -> Response:
        said = quote if query.get("encoding-type") == "url" else escape
        plain = f"<LastModified>{self._modified:%Y-%m-%dT%H:%M:%S}.000Z</LastModified><ETag>{escape(self.etag)}</ETag>"
        plain += f"<Size>{len(self.body)}</Size>"
        parts = []
        for key in objects:
            facts = plain
            if (found := others.get(key)) is not None:
                facts = f"<LastModified>{found.last_modified_ISO8601}</LastModified><ETag>{escape(found.etag)}</ETag>"
                facts += f"<Size>{found.size}</Size>"
            parts.append(f"<Contents><Key>{said(key)}</Key>{facts}<StorageClass>STANDARD</StorageClass></Contents>")
        parts += [f"<CommonPrefixes><Prefix>{said(each)}</Prefix></CommonPrefixes>" for each in folders]
        if "encoding-type" in query:
            parts.append(f"<EncodingType>{query['encoding-type']}</EncodingType>")
        if next_after is not None:
            parts.append(f"<NextContinuationToken>{next_after.encode().hex()}</NextContinuationToken>")
        body = (
            f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="{_NAMESPACE}">'
            f"<Prefix>{said(query.get('prefix', ''))}</Prefix><KeyCount>{len(objects) + len(folders)}</KeyCount>"
            f"<IsTruncated>{'true' if next_after is not None else 'false'}</IsTruncated>{''.join(parts)}"
            "</ListBucketResult>"
        )
        return Response(body, 200, content_type="application/xml")


def with_deleted(answer: Response | None, keys: Sequence[str]) -> Response:
    """Return moto's answer to a DeleteObjects, or one of our own, that tells of further keys."""
    told = "".join(f"<Deleted><Key>{escape(key)}</Key></Deleted>" for key in keys)
    if answer is None:
        return Response(
            f'<DeleteResult xmlns="{_NAMESPACE}">{told}</DeleteResult>', 200, content_type="application/xml"
        )
    text = answer.get_data(as_text=True)
    if answer.status_code != 200 or "</DeleteResult>" not in text:
        raise NotImplementedError(f"filler was deleted, and moto answered {answer.status_code}: {text[:200]}")
    answer.set_data(text.replace("</DeleteResult>", f"{told}</DeleteResult>"))
    return answer


def _just_before(prefix: str, *sorted_keys: Sequence[str]) -> str:
    """Return the last key in front of a prefix, so that what comes behind it begins with the prefix, if anything."""
    found = [keys[at - 1] for keys in sorted_keys if (at := bisect_left(keys, prefix))]
    return max(found, default="")
