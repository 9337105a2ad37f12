"""Manifests from raw entries: what comes out, how it is counted, and where the next one begins."""

import io
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import Any

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.manifest import ManifestMeta, read_manifest
from lakesweep.format.manifest_writer import WrittenManifest, write_manifests
from lakesweep.format.metadata_names import MetadataNames
from lakesweep.format.raw_entries import RawEntry, as_delete, read_raw_manifest
from lakesweep.format.values.data_type import parse_data_type
from tests.support.binary_row import encode_row
from tests.support.sampling import examples

from .samples import EMPTY_ROW, FUTURE_MANIFEST, NEW_MANIFEST, Schema, avro_file, manifest_record

INT = parse_data_type("INT", "p")


def raw_entries(records: Iterable[Any], schema: Schema = NEW_MANIFEST) -> list[tuple[bytes, RawEntry]]:
    manifest = read_raw_manifest(avro_file(schema, records), "m")
    return [(manifest.schema_text, raw) for raw in manifest.entries()]


def written(entries: Iterable[tuple[bytes, RawEntry]], types: Sequence[Any] = (), **how: Any) -> list[WrittenManifest]:
    how = {"codec": "zstandard"} | how
    return list(write_manifests(entries, MetadataNames("u"), types, **how))


def partition(value: int | None) -> bytes:
    return encode_row(("INT",), (value,))


def test_a_drop() -> None:
    """The DELETE of every file: fastavro reads each field unchanged but the kind, and everything is counted."""
    records = [
        manifest_record("data-1-0.parquet", _PARTITION=partition(7), _BUCKET=3, _LEVEL=5, _SCHEMA_ID=2),
        manifest_record("data-1-1.parquet", _PARTITION=partition(None), _BUCKET=-2, _EMBEDDED_FILE_INDEX=b"i"),
        manifest_record("data-1-2.parquet", _PARTITION=partition(-7), _BUCKET=4, _LEVEL=1, _SCHEMA_ID=1),
    ]
    entries = [(text, raw._replace(record=as_delete(raw.record))) for text, raw in raw_entries(records)]
    ((body, meta, null_counts),) = written(entries, [INT])
    before = list(fastavro.reader(io.BytesIO(avro_file(NEW_MANIFEST, records))))
    assert list(fastavro.reader(io.BytesIO(body))) == [each | {"_KIND": 1} for each in before]
    assert meta == ManifestMeta(
        file_name="manifest-u-0",
        file_size=len(body),
        added_count=0,
        deleted_count=3,
        schema_id=2,
        partition_min=partition(-7),
        partition_max=partition(7),
        extra_files=(),
        min_bucket=-2,
        max_bucket=4,
        min_level=0,
        max_level=5,
    )
    assert null_counts == (1,)


def test_the_bytes_of_a_record_say_what_is_counted() -> None:
    """The entry still says ADD where `as_delete` was applied to its record."""
    (first, second) = raw_entries([manifest_record("a"), manifest_record("b", kind=1)])
    changed = (first[0], first[1]._replace(record=as_delete(first[1].record)))
    for entries, counts in (([first, second], (1, 1)), ([changed, second], (0, 2)), ([first], (1, 0))):
        ((_, meta, _),) = written(entries)
        assert (meta.added_count, meta.deleted_count) == counts


def test_row_ids_only_if_every_entry_has_one() -> None:
    records = [
        manifest_record("a", _FIRST_ROW_ID=50, _ROW_COUNT=10),
        manifest_record("b", _FIRST_ROW_ID=0, _ROW_COUNT=100),
        manifest_record("c", _FIRST_ROW_ID=70, _ROW_COUNT=5),
    ]
    ((_, meta, _),) = written(raw_entries(records))
    assert (meta.min_row_id, meta.max_row_id) == (0, 99)
    for position in range(4):
        ((_, meta, _),) = written(raw_entries([*records[:position], manifest_record("d"), *records[position:]]))
        assert (meta.min_row_id, meta.max_row_id) == (None, None)


def test_without_partition_keys() -> None:
    ((_, meta, null_counts),) = written(raw_entries([manifest_record()]))
    assert (meta.partition_min, meta.partition_max, null_counts) == (EMPTY_ROW, EMPTY_ROW, ())


def test_without_entries_there_is_no_manifest() -> None:
    assert written([]) == []


def test_one_writers_schema_a_manifest() -> None:
    """Records of two releases lie in manifests of their own, in their order."""
    old, new = raw_entries([manifest_record("a")]), raw_entries([manifest_record("b")], FUTURE_MANIFEST)
    found = written([*old, *old, *new, *old])
    assert [meta.file_name for _, meta, _ in found] == ["manifest-u-0", "manifest-u-1", "manifest-u-2"]
    names = [[entry.file_name for entry in read_manifest(body, "m")] for body, _, _ in found]
    assert names == [["a", "a"], ["b"], ["a"]]
    texts = [read_raw_manifest(body, "m").schema_text for body, _, _ in found]
    assert texts == [old[0][0], new[0][0], old[0][0]]


def test_a_manifest_ends_at_its_size() -> None:
    """Each but the last has the target size, and at most one block more."""
    entries = raw_entries([manifest_record(f"data-1-{number:05}.parquet") for number in range(6000)])
    target = 300_000
    found = written(entries, codec="null", target_bytes=target)
    assert len(found) == 3
    for body, meta, _ in found[:-1]:
        assert target <= len(body) < target + 70_000
        assert meta.file_size == len(body)
    records = [raw.record for body, _, _ in found for raw in read_raw_manifest(body, "m").entries()]
    assert records == [raw.record for _, raw in entries]
    assert [meta.file_name for _, meta, _ in found] == [f"manifest-u-{number}" for number in range(3)]


def test_only_one_manifest_is_in_memory() -> None:
    """The next entries are asked for only after a manifest was taken."""
    asked = 0

    def entries() -> Iterable[tuple[bytes, RawEntry]]:
        nonlocal asked
        for asked, each in enumerate(raw_entries([manifest_record()]) * 5000, 1):  # noqa: B007
            yield each

    found = write_manifests(entries(), MetadataNames("u"), [], codec="null", target_bytes=100_000)
    first = next(found)
    assert first.meta.added_count + 1 == asked < 1500


def test_other_records_are_refused() -> None:
    ((text, raw),) = raw_entries([manifest_record()])
    for start in (b"", b"\x04", b"\x04\x04", b"\x02\x04"):
        with pytest.raises(
            FormatError, match=rf"^manifest-u-0: expected a record that begins as an entry, found {start.hex()}$"
        ):
            written([(text, raw._replace(record=start))])
    with pytest.raises(FormatError, match=r"^manifest-u-0: expected a row of 1 fields, found 0$"):
        written([(text, raw)], [INT])
    with pytest.raises(UnsupportedFormatError, match=r"^expected one of the installed codecs"):
        written([(text, raw)], codec="lz4")


DRAWN = st.tuples(
    st.integers(0, 1),
    st.none() | st.integers(-5, 5),
    st.integers(-2, 9),
    st.integers(0, 5),
    st.none() | st.integers(0, 99),
)


@settings(max_examples=examples(40))
@given(
    st.lists(DRAWN, max_size=40), st.integers(300, 3000), st.sampled_from(("null", "deflate", "zstandard", "snappy"))
)
def test_any_entries(drawn: list[Any], target: int, codec: str) -> None:
    """All records in their order, and for each manifest what its own entries say."""
    records = [
        manifest_record(
            f"d-{n}", kind=kind, _PARTITION=partition(at), _BUCKET=bucket, _LEVEL=level, _FIRST_ROW_ID=row_id
        )
        for n, (kind, at, bucket, level, row_id) in enumerate(drawn)
    ]
    entries = raw_entries(records)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lakesweep.format.avro.container_writer.BLOCK_BYTES", 500)
        found = written(entries, [INT], codec=codec, target_bytes=target)
    left = iter(drawn)
    for body, meta, null_counts in found:
        own = [values for _, values in zip(read_manifest(body, "m", expected_size=meta.file_size), left, strict=False)]
        kinds, values, buckets, levels, row_ids = zip(*own, strict=True)
        assert (meta.added_count, meta.deleted_count) == (kinds.count(0), kinds.count(1))
        known = [value for value in values if value is not None]
        assert meta.partition_min == partition(min(known, default=None))
        assert meta.partition_max == partition(max(known, default=None))
        assert null_counts == (values.count(None),)
        assert (meta.min_bucket, meta.max_bucket) == (min(buckets), max(buckets))
        assert (meta.min_level, meta.max_level) == (min(levels), max(levels))
        ids = (None, None) if None in row_ids else (min(row_ids), max(row_ids) + 9)
        assert (meta.min_row_id, meta.max_row_id) == ids
    copied = (raw.record for body, _, _ in found for raw in read_raw_manifest(body, "m").entries())
    assert all(mine == raw.record for mine, (_, raw) in zip_longest(copied, entries, fillvalue=(b"", None)))


def test_what_is_written_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that are nearly alike unpack to more than a reader takes for sane, long before a manifest is full."""
    entries = raw_entries([manifest_record(f"d-{number}", _MIN_KEY=bytes(1000)) for number in range(200)])
    monkeypatch.setattr("lakesweep.format.avro.container.MAX_BLOCK_BYTES", 66_000)
    monkeypatch.setattr("lakesweep.format.avro.container.MAX_RATIO", 2)
    found = written(entries)
    assert len(found) > 1
    assert [len(list(read_manifest(body, "m"))) for body, _, _ in found] == [meta.added_count for _, meta, _ in found]
    assert sum(meta.added_count for _, meta, _ in found) == len(entries)


def test_names_count_for_each_kind() -> None:
    names = MetadataNames("1-2")
    assert [
        names.manifest(),
        names.manifest(),
        names.manifest_list(),
        names.index_manifest(),
        names.manifest_list(),
    ] == [
        "manifest-1-2-0",
        "manifest-1-2-1",
        "manifest-list-1-2-0",
        "index-manifest-1-2-0",
        "manifest-list-1-2-1",
    ]
