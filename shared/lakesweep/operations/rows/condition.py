"""The text of a condition: from a call, or from an object in S3, so that its values are in no message."""

from lakesweep.errors import ObjectNotFoundError, UsageError
from lakesweep.runs.parameters.rows import WHERE, WHERE_FILE
from lakesweep.runs.session import Table

MAX_BYTES = 1 << 20
"""Of a condition."""
_OBJECT = "s3://"


def read_condition(table: Table, where: str | None, where_file: str | None) -> str:
    """Return the text of a condition.

    Args:
        table: Its store opens others.
        where: The text.
        where_file: The location of an object with the text: `s3://bucket/key`.

    Raises:
        UsageError: Not exactly one of the two is given, or there is no such object, or it holds no text.
        StorageError: The read failed.
    """
    check_stated(where, where_file)
    if where_file is None:
        assert where is not None
        return where
    folder, _, name = where_file.rpartition("/")
    try:
        body = table.open_store(folder).read(name, max_bytes=MAX_BYTES)
    except ObjectNotFoundError as error:
        raise UsageError(f"{WHERE_FILE.name}: {where_file} does not exist", code="bad_argument") from error
    return text_of(body.data, where_file)


def check_stated(where: str | None, where_file: str | None) -> None:
    """Make sure that a call states one condition; see `read_condition`.

    Raises:
        UsageError: It states none or two, or something else than an object in S3.
    """
    if (where is None) == (where_file is None):
        found = "none" if where is None else "both"
        raise UsageError(f"expected {WHERE.name} or {WHERE_FILE.name}, found {found}", code="bad_argument")
    if where_file is not None:
        bucket, _, key = where_file.removeprefix(_OBJECT).partition("/")
        if not where_file.startswith(_OBJECT) or not bucket or not key or key.endswith("/"):
            raise UsageError(f"{WHERE_FILE.name}: expected s3://bucket/key, found {where_file!r}", code="bad_argument")


def text_of(data: bytes, path: str) -> str:
    """Return the text of a file.

    Raises:
        UsageError: It is too long, empty or not in UTF-8.
    """
    found = f"more than {MAX_BYTES} bytes" if len(data) > MAX_BYTES else ""
    try:
        text = data.decode("utf-8-sig").strip()
        found = found or ("" if text else "nothing")
    except UnicodeDecodeError:
        text, found = "", "bytes that are no text in UTF-8"
    if found:
        raise UsageError(f"{WHERE_FILE.name}: {path}: expected a condition, found {found}", code="bad_argument")
    return text
