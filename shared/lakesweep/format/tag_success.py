"""Success files: next to each tag, for those who wait for one. Source: Paimon `SuccessFile`."""

from lakesweep.format import json_document
from lakesweep.format.json_text import print_object


def success_body(created_ms: int, modified_ms: int) -> bytes:
    """Return the document: when the tag of this name was first made, and when last."""
    return print_object({"creationTime": created_ms, "modificationTime": modified_ms}, "success file")


def created_ms_of(body: bytes, path: str) -> int:
    """Read when the tag of this name was first made.

    Raises:
        FormatError: The document does not say.
    """
    return json_document.require_int(json_document.parse_object(body, path), "creationTime", path)
