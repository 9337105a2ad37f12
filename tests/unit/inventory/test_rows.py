"""Rows of inventories: what a listing of the same bucket shows, and nothing else."""

import pickle
from collections.abc import Callable
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.storage.listing import list_all
from lakesweep.storage.store import DeleteRequest, Page, Store, StoredObject
from lakesweep.table.inventory.manifest import read_inventory
from lakesweep.table.inventory.rows import list_inventory, read_file, rows_of
from tests.support.inventories import Row, rows_of_store, rows_of_versions, write_inventory
from tests.support.memory_store import MemoryStore
from tests.support.s3_server import moto_client, moto_store, versioned_bucket
from tests.support.sampling import examples

FORMATS = ["CSV", "Parquet"]
BUCKET = "warehouse"
TABLE = f"memory://{BUCKET}/db.db/t"
HOSTILE = (
    "a",
    "dt=a%3Ab%2Fc%25/bucket-0/data-1.parquet",
    "dt=a%253Ab/bucket-0/data-1.parquet",
    "dt=2026-01-01 00:00/bucket-0/data-2.parquet",
    "dt=1+1/bucket-0/data-3.parquet",
    'dt="quoted", and more/bucket-0/data-4.parquet',
    "dt=two\nlines\r\n/bucket-0/data-5.parquet",
    "dt=größe-漢字-🎿/bucket-0/data-6.parquet",
    "dt=%/bucket-0/100%.parquet",
    "dt=;'&<>/bucket-0/data-7.parquet",
    "x//empty-part",
    "Z" * 600,
)


def listed(pages: object) -> set[StoredObject]:
    """Return all objects of pages, none of which may come twice."""
    objects = [each for page in pages for each in page]  # type: ignore[attr-defined]
    assert len(set(objects)) == len(objects)
    return set(objects)


def objects_of(
    destination: Store, key: str, bucket: str = BUCKET, location: str = TABLE
) -> tuple[set[StoredObject], list[Page]]:
    """Return what an inventory lists below a location."""
    inventory = read_inventory(destination, key, bucket)
    prefix = inventory.prefix(location)
    assert prefix is not None
    pages = list(list_inventory(inventory, destination, prefix))
    return listed(pages), pages


def destination() -> MemoryStore:
    """Return an empty destination bucket."""
    return MemoryStore("memory://inventories")


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("files", [1, 3])
def test_equals_a_listing(file_format: str, files: int) -> None:
    """Several files, several pages, other tables beside: the same objects as a listing brings, a page at a time."""
    table = MemoryStore(TABLE)
    for number in range(2500):
        table.put(f"dt={number % 7}/bucket-0/data-{number}.parquet", b"x" * (number % 5))
    others = [Row(f"db.db/t2/data-{number}", 1, "e", 5) for number in range(30)] + [Row("db.db/t", 1, "e", 5)]
    at = destination()
    key = write_inventory(at, BUCKET, rows_of_store(table, "db.db/t/") + others, file_format=file_format, files=files)
    found, pages = objects_of(at, key)
    assert found == listed(list_all(table))
    assert all(0 < len(page) <= 1000 and list(page) == sorted(page, key=lambda each: each.key) for page in pages)


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("bucket_root", [True, False])
def test_directory_markers_are_no_objects(file_format: str, bucket_root: bool) -> None:
    """A key that ends in a slash is dropped, as in a listing, the table's own included."""
    rows = [Row("db.db/t/", 0, "e", 1000), Row("db.db/t/x/", 0, "e", 1000), Row("db.db/t/x/y", 2, "e", 1000)]
    at = destination()
    key = write_inventory(at, BUCKET, rows, file_format=file_format)
    found, _ = objects_of(at, key, location=f"memory://{BUCKET}" if bucket_root else TABLE)
    assert found == {StoredObject("db.db/t/x/y" if bucket_root else "x/y", 2, "e", 1000)}


def test_keys_are_decoded_once() -> None:
    """`dt=a%3Ab%2Fc%25` reads the same from a listing with URL encoding and from CSV, decoded once."""
    store = moto_store("db.db/t")
    bucket = store.location.split("/")[2]
    for key in HOSTILE:
        if "//" not in key and "\n" not in key:  # moto knows no line break in a key
            store.put(key, b"1")
    names = {each.key for each in store.list("")}
    assert "dt=a%3Ab%2Fc%25/bucket-0/data-1.parquet" in names
    for file_format in FORMATS:
        at = destination()
        key = write_inventory(at, bucket, rows_of_store(store, "db.db/t/"), file_format=file_format)
        assert objects_of(at, key, bucket, store.location)[0] == listed(list_all(store))


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("encode", [None, lambda key: quote(key, safe=""), lambda key: quote(key, safe="/+= "[:1])])
def test_hostile_keys(file_format: str, encode: Callable[[str], str] | None) -> None:
    """Whatever is escaped, and however a space is: keys come out as they are."""
    rows = [Row(f"db.db/t/{key}", 3, "e-2", 1_700_000_000_123) for key in HOSTILE]
    at = destination()
    key = write_inventory(at, BUCKET, rows, file_format=file_format, encode=encode)
    assert objects_of(at, key)[0] == {StoredObject(name, 3, "e-2", 1_700_000_000_123) for name in HOSTILE}


@pytest.mark.parametrize("file_format", FORMATS)
@pytest.mark.parametrize("whole", [True, False])
def test_only_current_objects_count(file_format: str, whole: bool) -> None:
    """Of a versioned bucket, only current objects count; older versions and delete markers do not."""
    bucket = versioned_bucket()
    store = moto_store("" if whole else "db.db/t", bucket=bucket)
    for number in range(6):
        store.put(f"data-{number}", b"1")
    store.put("data-1", b"another")
    store.put("data-2", b"another")
    store.delete([DeleteRequest("data-2"), DeleteRequest("data-3")])
    store.delete([DeleteRequest("data-4")])
    store.put("data-4", b"back again")
    rows = rows_of_versions(moto_client(), bucket)
    assert len(rows) == 6 + 2 + 3 + 1
    at = destination()
    key = write_inventory(at, bucket, rows, file_format=file_format, versions=True)
    found, _ = objects_of(at, key, bucket, store.location)
    assert {each.key for each in found} == {"data-0", "data-1", "data-4", "data-5"}
    assert found == listed(list_all(store))


@pytest.mark.parametrize("file_format", FORMATS)
def test_undo_brings_back_what_the_next_inventory_lists(file_format: str) -> None:
    """What was deleted and taken back is current again, with the same identity."""
    bucket = versioned_bucket()
    store = moto_store("db.db/t", bucket=bucket)
    store.put("data-0", b"1")
    before = listed(list_all(store))
    store.delete([DeleteRequest("data-0", next(iter(before)).etag)])
    marker = next(row for row in rows_of_versions(moto_client(), bucket) if row.is_delete_marker)
    assert current_of(bucket, store, file_format) == set()
    moto_client().delete_object(Bucket=bucket, Key=marker.key, VersionId=marker.version_id)
    assert current_of(bucket, store, file_format) == before


def current_of(bucket: str, store: Store, file_format: str) -> set[StoredObject]:
    """Return what an inventory of all versions lists below a store's root."""
    at = destination()
    rows = rows_of_versions(moto_client(), bucket)
    key = write_inventory(at, bucket, rows, file_format=file_format, versions=True)
    return objects_of(at, key, bucket, store.location)[0]


def test_every_part_travels() -> None:
    """What an executor needs goes through pickle, and one file a task lists what all files list together."""
    table = MemoryStore(TABLE)
    for number in range(50):
        table.put(f"data-{number}", b"x")
    at = destination()
    key = write_inventory(at, BUCKET, rows_of_store(table, "db.db/t/"), files=4)
    inventory = pickle.loads(pickle.dumps(read_inventory(at, key, BUCKET)))
    pages = [
        page
        for file in pickle.loads(pickle.dumps(inventory.files))
        for page in rows_of(read_file(at, inventory, file), inventory, file, "db.db/t/")
    ]
    assert len(pages) == 4
    assert listed(pages) == listed(list_all(table))


@pytest.mark.parametrize("file_format", FORMATS)
def test_rows_in_any_order(file_format: str) -> None:
    """S3 promises no order of rows; keys ascend within a page all the same."""
    rows = [Row(f"db.db/t/{number * 37 % 1500:04d}", 1, "e", 1000) for number in range(1500)]
    at = destination()
    found, pages = objects_of(at, write_inventory(at, BUCKET, rows, file_format=file_format, files=1))
    assert len(found) == 1500
    assert [len(page) for page in pages] == [1000, 500]
    assert all(list(page) == sorted(page, key=lambda each: each.key) for page in pages)


def test_empty_inventories() -> None:
    """No files, and files without rows, list nothing."""
    for file_format in FORMATS:
        for files in (0, 2):
            at = destination()
            key = write_inventory(at, BUCKET, [], file_format=file_format, files=files)
            assert objects_of(at, key) == (set(), [])


def test_columns_in_any_order() -> None:
    """The manifest says where which column is."""
    rows = [Row("db.db/t/a", 7, "e", 1000)]
    for file_format in FORMATS:
        at = destination()
        columns = ("ETag", "IsMultipartUploaded", "LastModifiedDate", "Size")
        key = write_inventory(at, BUCKET, rows, file_format=file_format, columns=columns)
        assert objects_of(at, key)[0] == {StoredObject("a", 7, "e", 1000)}


_names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=12).filter(
    lambda name: name not in (".", "..")
)
_keys = (
    st.lists(_names, min_size=1, max_size=4)
    .map("/".join)
    .filter(lambda key: not any(part in ("", ".", "..") for part in key.split("/")))
)


@given(
    keys=st.sets(_keys, max_size=12),
    file_format=st.sampled_from(FORMATS),
    versions=st.booleans(),
    files=st.integers(1, 3),
    folder=st.sampled_from(["", "db.db/t", "a b/c+d%41=ü"]),
)
@settings(max_examples=examples(60))
def test_any_bucket(keys: set[str], file_format: str, versions: bool, files: int, folder: str) -> None:
    """Property: of any bucket, an inventory lists what a listing lists."""
    location = f"memory://{BUCKET}/{folder}".rstrip("/")
    store = MemoryStore(location)
    for number, key in enumerate(sorted(keys)):
        store.put(key, b"x" * number)
    rows = rows_of_store(store, f"{folder}/" if folder else "")
    if versions:
        rows += [Row(f"{row.key}{at}", 1, "old", 5, is_latest=False) for at, row in enumerate(rows)]
        rows += [Row(f"{row.key}-gone", None, None, 5, is_delete_marker=True) for row in rows[:3]]
    at = destination()
    key = write_inventory(at, BUCKET, rows, file_format=file_format, versions=versions, files=files)
    assert objects_of(at, key, location=location)[0] == listed(list_all(store))
