"""Success files: each lies beside a tag and tells waiting programs about it. Source: Paimon `SuccessFile`."""

from lakesweep.format.values import json_document
from lakesweep.format.values.json_text import print_object


def success_body(created_ms: int, modified_ms: int) -> bytes:
    """Return the document: when the tag of this name was first made, and when it was last made."""
    return print_object({"creationTime": created_ms, "modificationTime": modified_ms}, "success file")


def created_ms_of(body: bytes, path: str) -> int:
    """Read when the tag of this name was first made.

    Raises:
        FormatError: The document lacks this time.
    """
    return json_document.require_int(json_document.parse_object(body, path), "creationTime", path)
