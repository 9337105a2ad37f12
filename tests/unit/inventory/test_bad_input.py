"""Inventories that cannot be relied on: one sentence and a code each, and never a part for the whole."""

import gzip
import hashlib
import io
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.errors import (
    FormatError,
    MaintenanceError,
    RefusedError,
    StorageError,
    UnsupportedFormatError,
    UsageError,
)
from lakesweep.storage.store import DeleteRequest
from lakesweep.table.inventory.manifest import Inventory, InventoryFile, place_of_inventory, read_inventory
from lakesweep.table.inventory.rows import MAX_LINE, list_inventory, rows_of
from tests.support.inventories import (
    COLUMNS,
    VERSION_COLUMNS,
    Row,
    csv_file,
    manifest_entry,
    parquet_file,
    write_inventory,
    write_manifest,
)
from tests.support.memory_store import MemoryStore

BUCKET = "warehouse"
ROWS = [Row(f"db.db/t/data-{number}", 3, "e", 1_700_000_000_000) for number in range(5)]
NAMES = ("Bucket", "Key", *COLUMNS)
LINE = '"warehouse","db.db/t/a","3","2026-01-31T12:00:00.000Z","e","STANDARD","false"\n'


def refused(call: Callable[[], object], kind: type[MaintenanceError], code: str) -> str:
    """Return the message of the refusal."""
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.code == code
    message = str(caught.value)
    assert len(message) < 600
    assert "\n" not in message
    return message


def written(**words: Any) -> tuple[MemoryStore, str]:
    """Return a destination bucket with an inventory, and its key."""
    at = MemoryStore("memory://inventories")
    return at, write_inventory(at, BUCKET, ROWS, **words)


def changed(**fields: object) -> tuple[MemoryStore, str]:
    """Return an inventory whose manifest says something else, with a checksum that is right."""
    return written(change=lambda manifest: manifest.update(fields))


def of_bytes(data: bytes, file_format: str = "CSV", **more: Any) -> tuple[Inventory, InventoryFile]:
    """Return an inventory whose only data file has these bytes, with size and MD5 as they are."""
    at = MemoryStore("memory://inventories")

    def change(manifest: dict[str, Any]) -> None:
        manifest["files"] = [manifest_entry("data/0", data)]

    inventory = read_inventory(
        at, write_inventory(at, BUCKET, [], file_format=file_format, change=change, **more), BUCKET
    )
    return inventory, inventory.files[0]


def read(data: bytes, file_format: str = "CSV", **more: Any) -> list[str]:
    """Return the keys that a data file lists."""
    inventory, file = of_bytes(data, file_format, **more)
    return [each.key for page in rows_of(data, inventory, file, "db.db/t/") for each in page]


def csv_of(text: str) -> bytes:
    """Return a data file of a text."""
    return gzip.compress(text.encode(), mtime=0)


def test_another_bucket() -> None:
    """An inventory of another bucket says nothing of this one."""
    at, key = written()
    message = refused(lambda: read_inventory(at, key, "lake"), RefusedError, "inventory_of_another_bucket")
    assert "lake" in message and "warehouse" in message and key in message


def test_checksum_of_the_manifest() -> None:
    """A manifest that was changed, cut, or overwritten between the two reads."""
    at, key = written()
    at.put(key, at.read(key).data + b" ")
    assert "MD5" in refused(lambda: read_inventory(at, key, BUCKET), FormatError, "inventory_damaged")


def test_missing_files() -> None:
    """No manifest, no checksum, no data file: each is named."""
    at, key = written()
    for gone in (key.replace(".json", ".checksum"), key):
        at.delete([DeleteRequest(gone)])
        assert gone in refused(lambda: read_inventory(at, key, BUCKET), RefusedError, "inventory_incomplete")
    at, key = written()
    inventory = read_inventory(at, key, BUCKET)
    at.delete([DeleteRequest(inventory.files[1].key)])
    pages = list_inventory(inventory, at, "db.db/t/")
    assert next(pages)
    message = refused(lambda: list(pages), RefusedError, "inventory_incomplete")
    assert inventory.files[1].key in message and inventory.location in message


@pytest.mark.parametrize("file_format", ["CSV", "Parquet"])
@pytest.mark.parametrize("change", [b"", b"x" * 10, "longer", "other bit", "cut"])
def test_data_files_are_what_the_manifest_says(file_format: str, change: bytes | str) -> None:
    """Not a single row comes from a file whose size or MD5 is another."""
    at, key = written(file_format=file_format)
    inventory = read_inventory(at, key, BUCKET)
    file = inventory.files[0]
    data = at.read(file.key).data
    bad = {"longer": data + b"x", "other bit": bytes([data[0] ^ 1]) + data[1:], "cut": data[:-1]}
    at.put(file.key, change if isinstance(change, bytes) else bad[change])
    pages = list_inventory(inventory, at, "db.db/t/")
    assert file.key in refused(lambda: next(pages), FormatError, "inventory_damaged")


def test_a_size_that_is_another() -> None:
    """A manifest whose size and MD5 contradict each other."""
    data = csv_of(LINE)
    inventory, file = of_bytes(data)
    for size in (len(data) - 1, len(data) + 1):
        pages = rows_of(data, inventory, replace(file, size_bytes=size), "")
        assert f"expected {size} bytes" in refused(lambda pages=pages: next(pages), FormatError, "inventory_damaged")


def test_orc_and_unknown_formats() -> None:
    """What is not read here is refused, with what to configure."""
    for stated in ("ORC", "csv", "", "Iceberg"):
        at, key = changed(fileFormat=stated)
        assert "CSV or Parquet" in refused(
            lambda at=at, key=key: read_inventory(at, key, BUCKET), UnsupportedFormatError, "inventory_format"
        )


@pytest.mark.parametrize("file_format", ["CSV", "Parquet"])
@pytest.mark.parametrize("missing", ["Size", "LastModifiedDate", "ETag"])
def test_needed_columns(file_format: str, missing: str) -> None:
    """Without size, time or ETag nothing could be looked up again."""
    at, key = written(file_format=file_format, columns=[name for name in COLUMNS if name != missing])
    assert missing in refused(lambda: read_inventory(at, key, BUCKET), RefusedError, "inventory_columns")


@pytest.mark.parametrize("left", VERSION_COLUMNS)
def test_versions_need_both_flags(left: str) -> None:
    """Where older versions or delete markers may be listed, rows say which they are."""
    at, key = changed(fileSchema=", ".join((*NAMES, left)))
    refused(lambda: read_inventory(at, key, BUCKET), RefusedError, "inventory_columns")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("sourceBucket", None),
        ("sourceBucket", 5),
        ("fileFormat", None),
        ("fileSchema", None),
        ("fileSchema", "Key, Key, Size, LastModifiedDate, ETag"),
        ("creationTimestamp", None),
        ("creationTimestamp", "yesterday"),
        ("creationTimestamp", "-5"),
        ("creationTimestamp", 0),
        ("creationTimestamp", "9" * 16),
        ("creationTimestamp", True),
        ("files", None),
        ("files", {}),
        ("files", ["data"]),
        ("files", [{"key": "a", "size": 1}]),
        ("files", [{"key": "a", "MD5checksum": "0" * 32}]),
        ("files", [{"key": "a", "size": 1, "MD5checksum": "0" * 31}]),
        ("files", [{"key": "a", "size": 1.5, "MD5checksum": "0" * 32}]),
        ("files", [{"size": 1, "MD5checksum": "0" * 32}]),
        ("files", [{"key": "a", "size": 1, "MD5checksum": "0" * 32}] * 2),
    ],
)
def test_manifests_that_make_no_sense(field: str, value: object) -> None:
    """A field that is absent or of another type, or a data file that is named twice."""
    at, key = changed(**{field: value})
    with pytest.raises(FormatError, match=r"manifest\.json"):
        read_inventory(at, key, BUCKET)


@pytest.mark.parametrize("key", ["", "/a", "a//b", "../a", "a/./b", "a\0b"])
def test_keys_of_data_files(key: str) -> None:
    """Only keys that a store can read."""
    at, manifest = changed(files=[{"key": key, "size": 1, "MD5checksum": "0" * 32}])
    refused(lambda: read_inventory(at, manifest, BUCKET), UnsupportedFormatError, "inventory_key")


@pytest.mark.parametrize("size", [-1, 1 << 40, (1 << 63) - 1])
def test_sizes_of_data_files(size: int) -> None:
    """A file that no machine should load."""
    at, manifest = changed(files=[{"key": "a", "size": size, "MD5checksum": "0" * 32}])
    refused(lambda: read_inventory(at, manifest, BUCKET), UnsupportedFormatError, "inventory_file_size")


def test_manifests_of_any_size() -> None:
    """Neither a huge manifest nor one of too many values is loaded or parsed."""
    at = MemoryStore("memory://inventories")
    write_manifest(at, "a/manifest.json", b" " * ((16 << 20) + 1))
    refused(lambda: read_inventory(at, "a/manifest.json", BUCKET), StorageError, "too_large")
    write_manifest(at, "b/manifest.json", b'{"files": [' + b"[]," * 400_000 + b"[]]}")
    refused(lambda: read_inventory(at, "b/manifest.json", BUCKET), FormatError, "damaged")
    write_manifest(at, "c/manifest.json", b"[" * 100_000)
    refused(lambda: read_inventory(at, "c/manifest.json", BUCKET), FormatError, "damaged")
    at.put("d/manifest.json", b"{}")
    at.put("d/manifest.checksum", b"0" * 5000)
    refused(lambda: read_inventory(at, "d/manifest.json", BUCKET), StorageError, "too_large")


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (LINE.replace(',"false"', ""), "7 columns"),
        (LINE.replace("\n", ',"more"\n'), "7 columns"),
        ("\n", "7 columns"),
        (LINE.replace('"3"', '""'), "a size"),
        (LINE.replace('"3"', '"-3"'), "a size"),
        (LINE.replace('"3"', '"3_0"'), "a size"),
        (LINE.replace('"3"', '"٣"'), "a size"),
        (LINE.replace('"3"', f'"{"9" * 5000}"'), "a size"),
        (LINE.replace('"e"', '""'), "an ETag"),
        (LINE.replace("2026-01-31T12:00:00.000Z", "2026-01-31"), "a time"),
        (LINE.replace("2026-01-31T12:00:00.000Z", "2026-01-31T12:00:00"), "a time"),
        (LINE.replace("2026-01-31T12:00:00.000Z", "2026-13-31T12:00:00Z"), "month"),
        (LINE.replace("warehouse", "lake"), "the bucket"),
        (LINE.replace("db.db/t/a", ""), "a key"),
        (LINE.replace("db.db/t/a", "db.db/t/100%"), "URL-encoded"),
        (LINE.replace("db.db/t/a", "db.db/t/%zz"), "URL-encoded"),
        (LINE.replace("db.db/t/a", "db.db/t/%ff"), "utf-8"),
        (LINE.replace('"3"', '"3'), ""),
        (LINE[:30], "end of data"),
        ('"' + "x" * 200_000 + '"\n', "field larger"),
    ],
)
def test_rows_that_cannot_be_understood(line: str, found: str) -> None:
    """The file and the line are named, and the rows before them do not pass for the whole."""
    message = refused(lambda: read(csv_of(LINE * 3 + line)), FormatError, "inventory_damaged")
    assert found in message
    assert "memory://inventories/data/0, line 4" in message or not found


@pytest.mark.parametrize("flag", ["", "yes", "1", "null"])
def test_flags_that_cannot_be_understood(flag: str) -> None:
    """Whether a row is current is known, or nothing is."""
    names = ("Bucket", "Key", *VERSION_COLUMNS, *COLUMNS)
    text = gzip.decompress(csv_file(BUCKET, ROWS, names)).decode()
    for old in ('"true"', '"false"'):
        with pytest.raises(FormatError, match="true or false"):
            read(csv_of(text.replace(old, f'"{flag}"', 1)), versions=True)


@pytest.mark.parametrize("end", range(1, 60, 7))
def test_cut_gzip(end: int) -> None:
    """A file that was cut before its MD5 was taken."""
    data = csv_file(BUCKET, ROWS * 50, NAMES)
    refused(lambda: read(data[:-end]), FormatError, "inventory_damaged")


def test_bytes_that_are_no_gzip() -> None:
    """Plain CSV, Parquet and bytes of other text."""
    for data in (LINE.encode(), b"PAR1" * 10, csv_file(BUCKET, ROWS, NAMES) + b"garbage", gzip.compress(b"\xff\xfe\n")):
        refused(lambda data=data: read(data), FormatError, "inventory_damaged")


def test_bombs() -> None:
    """A line without end is not collected."""
    with io.BytesIO() as sink:
        with gzip.open(sink, "wb", compresslevel=9) as file:
            for _ in range(64):
                file.write(b"x" * MAX_LINE)
        data = sink.getvalue()
    assert "lines of at most" in refused(lambda: read(data), FormatError, "inventory_damaged")


def test_parquet_files_that_cannot_be_understood() -> None:
    """Other bytes, missing columns, other types, another bucket, values that are missing."""
    good = parquet_file(BUCKET, ROWS, NAMES)
    for data in (b"", b"PAR1", good[:-1], good[: len(good) // 2], b"x" + good[1:-1] + b"x", LINE.encode()):
        refused(lambda data=data: read(data, "Parquet"), FormatError, "inventory_damaged")
    for names in (NAMES[:2] + NAMES[3:], ("Bucket", *NAMES[2:])):
        data = parquet_file(BUCKET, ROWS, names)
        assert "no " in refused(lambda data=data: read(data, "Parquet"), FormatError, "inventory_damaged")
    refused(lambda: read(parquet_file("lake", ROWS, NAMES), "Parquet"), FormatError, "inventory_damaged")
    for bad in (replace(ROWS[0], size_bytes=None), replace(ROWS[0], etag=None), replace(ROWS[0], size_bytes=-1)):
        data = parquet_file(BUCKET, [*ROWS, bad], NAMES)
        message = refused(lambda data=data: read(data, "Parquet"), FormatError, "inventory_damaged")
        assert "memory://inventories/data/0, row 6" in message
    data = parquet_file(BUCKET, [*ROWS * 2000, replace(ROWS[0], size_bytes=None)], NAMES)
    assert "row 10001:" in refused(lambda: read(data, "Parquet"), FormatError, "inventory_damaged")


def test_parquet_columns_of_other_types() -> None:
    """A time that is a text, and a size that is a fraction."""
    import pyarrow
    from pyarrow import parquet

    good = parquet.read_table(io.BytesIO(parquet_file(BUCKET, ROWS, NAMES)))
    for name, values in (("last_modified_date", ["2026-01-31"] * 5), ("size", [1.5] * 5), ("key", [b"a"] * 5)):
        at = good.schema.get_field_index(name)
        sink = io.BytesIO()
        parquet.write_table(good.set_column(at, name, pyarrow.array(values)), sink)
        message = refused(lambda sink=sink: read(sink.getvalue(), "Parquet"), FormatError, "inventory_damaged")
        assert name in message


@pytest.mark.parametrize("position", range(0, 100, 3))
def test_flipped_bits_in_parquet(position: int) -> None:
    """Damage before the MD5 was taken is noticed, or changes nothing that is not seen when keys are looked up again."""
    good = parquet_file(BUCKET, ROWS * 20, NAMES)
    at = len(good) * position // 100
    data = good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1 :]
    try:
        read(data, "Parquet")
    except FormatError as error:
        assert error.code == "inventory_damaged"


def test_places() -> None:
    """The manifest and its folder name the same inventory; a bucket alone and a local path name none."""
    folder = "p/warehouse/daily/2026-11-20T01-00Z"
    for uri in (f"s3://inv/{folder}/manifest.json", f"s3://inv/{folder}", f"s3a://inv/{folder}/"):
        assert place_of_inventory(uri) == ("s3://inv", f"{folder}/manifest.json")
    for uri in ("s3://inv", "s3://inv/", "/tmp/manifest.json", "file:///a/b"):
        refused(lambda uri=uri: place_of_inventory(uri), UsageError, "bad_inventory")


def test_what_it_covers() -> None:
    """Locations of the source bucket have a prefix, others have none."""
    at, key = written()
    inventory = read_inventory(at, key, BUCKET)
    assert inventory.prefix("s3://warehouse/db.db/t") == "db.db/t/"
    assert inventory.prefix("s3a://warehouse//db.db/t/") == "db.db/t/"
    assert inventory.prefix("s3://warehouse") == ""
    assert inventory.prefix("s3://lake/db.db/t") is None
    assert inventory.prefix("/warehouse/db.db/t") is None
    assert inventory.md5 == hashlib.md5(at.read(key).data).hexdigest()
    assert inventory.to_json()["files"] == 2


def test_without_pyarrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parquet asks for pyarrow by name; CSV does not need it."""
    inventory, file = of_bytes(b"PAR1", "Parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    pages = rows_of(b"PAR1", inventory, file, "")
    refused(lambda: next(pages), UnsupportedFormatError, "inventory_needs_pyarrow")
    assert read(csv_of(LINE)) == ["a"]


@pytest.mark.parametrize("file_format", ["CSV", "Parquet"])
def test_keys_are_as_long_as_those_of_s3(file_format: str) -> None:
    """1 024 bytes are read, one more is refused, also where characters take several."""
    for letter, count in (("x", 1024), ("é", 512)):
        rows = [Row("db.db/t/" + letter * (count - 8 // len(letter.encode())), 3, "e", 1_700_000_000_000)]
        longer = [Row(rows[0].key + "y", 3, "e", 1_700_000_000_000)]
        data = [csv_file(BUCKET, each, NAMES) if file_format == "CSV" else parquet_file(BUCKET, each, NAMES)
                for each in (rows, longer)]  # fmt: skip
        assert len(read(data[0], file_format)) == 1
        assert "1024 bytes" in refused(lambda data=data: read(data[1], file_format), FormatError, "inventory_damaged")
