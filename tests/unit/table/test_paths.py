"""Where the files that metadata names lie."""

import json
from typing import Any

import pytest

from lakesweep.errors import FormatError
from lakesweep.format.manifest import IndexEntry, ManifestEntry
from lakesweep.format.schema import parse_schema
from lakesweep.table.paths import TablePaths

EMPTY = bytes(12)
ONE = bytes.fromhex("00000001 00000000 00000000")
DT_1 = ONE + b"1".ljust(7, b"\0") + b"\x81"
NULL = bytes.fromhex("00000001 00010000 00000000 00000000 00000000")


def paths(*, partition_keys: tuple[str, ...] = ("dt",), type_: str = "STRING", **options: str) -> TablePaths:
    document = {
        "version": 3,
        "id": 0,
        "fields": [{"id": 0, "name": "dt", "type": type_}],
        "partitionKeys": partition_keys,
        "options": {key.replace("__", "-").replace("_", "."): value for key, value in options.items()},
    }
    return TablePaths(parse_schema(json.dumps(document).encode(), "schema-0"))


def data(name: str = "data-1.orc", partition: bytes = DT_1, bucket: int = 0, **changes: Any) -> ManifestEntry:
    return ManifestEntry(True, partition, bucket, 0, name, 1, (), None, None, None, 1)._replace(**changes)


def index(kind: str = "DELETION_VECTORS", external_path: str | None = None) -> IndexEntry:
    return IndexEntry(DT_1, 0, kind, "index-1-0", 1, 1, external_path, ())


def test_data_files() -> None:
    assert paths().data_file(data()) == "dt=1/bucket-0/data-1.orc"
    assert paths().data_file(data(bucket=-2)) == "dt=1/bucket-postpone/data-1.orc"
    assert paths(partition_keys=()).data_file(data(partition=EMPTY, bucket=7)) == "bucket-7/data-1.orc"
    assert paths().bucket_dir(DT_1, 3) == "dt=1/bucket-3"


def test_options_that_name_directories() -> None:
    assert paths().data_file(data(partition=NULL)) == "dt=__DEFAULT_PARTITION__/bucket-0/data-1.orc"
    assert paths(partition_default__name="NONE").bucket_dir(NULL, 0) == "dt=NONE/bucket-0"
    day = ONE + bytes.fromhex("0c4d0000 00000000")
    assert paths(type_="DATE").bucket_dir(day, 0) == "dt=19724/bucket-0"
    assert paths(type_="DATE", partition_legacy__name="false").bucket_dir(day, 0) == "dt=2024-01-02/bucket-0"
    for folder in ("data", "/data/", "data//"):
        assert TablePaths(_with_option("data-file.path-directory", folder)).bucket_dir(DT_1, 0) == "data/dt=1/bucket-0"


def _with_option(key: str, value: str) -> Any:
    document = {
        "version": 3,
        "id": 0,
        "fields": [{"id": 0, "name": "dt", "type": "STRING"}],
        "partitionKeys": ["dt"],
        "options": {key: value},
    }
    return parse_schema(json.dumps(document).encode(), "schema-0")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data-file.path-directory", "../elsewhere"),
        ("data-file.path-directory", "a/./b"),
        ("partition.legacy-name", "maybe"),
        ("index-file-in-data-file-dir", ""),
    ],
)
def test_options_that_mean_nothing(key: str, value: str) -> None:
    with pytest.raises(FormatError, match=rf"^option {key}: expected "):
        TablePaths(_with_option(key, value))


def test_extra_files_lie_beside_their_owner() -> None:
    entry = data(extra_files=("data-1.orc.index", "x.row"))
    assert paths().extra_files(entry) == ("dt=1/bucket-0/data-1.orc.index", "dt=1/bucket-0/x.row")
    outside = entry._replace(external_path="FILE:/tmp//ext/dt=1/bucket-0/data-1.orc")
    assert paths().data_file(outside) == "/tmp/ext/dt=1/bucket-0/data-1.orc"
    assert paths().extra_files(outside) == ("/tmp/ext/dt=1/bucket-0/data-1.orc.index", "/tmp/ext/dt=1/bucket-0/x.row")
    assert paths().extra_files(data()) == ()


def test_a_file_outside_needs_no_partition() -> None:
    outside = data(partition=b"damaged", external_path="s3a://other/x/data-1.orc", extra_files=("e",))
    assert paths().data_file(outside) == "s3://other/x/data-1.orc"
    assert paths().extra_files(outside) == ("s3://other/x/e",)


def test_index_files() -> None:
    assert paths().index_file(index()) == "index/index-1-0"
    beside = TablePaths(_with_option("index-file-in-data-file-dir", "true"))
    assert beside.index_file(index()) == "dt=1/bucket-0/index-1-0"
    assert beside.index_file(index("HASH")) == "dt=1/bucket-0/index-1-0"
    assert beside.index_file(index("btree")) == "index/index-1-0"
    assert beside.index_file(index(external_path="file:///x/index-1-0")) == "/x/index-1-0"


def test_metadata_files() -> None:
    assert paths().manifest("m") == "manifest/m"
    assert paths().manifest_list("m") == "manifest/m"
    assert paths().index_manifest("m") == "manifest/m"
    assert paths().statistics("s") == "statistics/s"


def test_a_share_of_a_compacted_changelog_is_the_whole_file() -> None:
    """Several buckets' changelogs lie in one file, and all but one name it by a name that does not exist."""
    fake = data("compacted-changelog-1a-2b$3-500-100-50.cc-parquet", bucket=7)
    assert paths().data_file(fake) == "dt=1/bucket-3/compacted-changelog-1a-2b$3-500.cc-parquet"
    real = data("compacted-changelog-1a-2b$3-500.cc-parquet", bucket=3)
    assert paths().data_file(real) == "dt=1/bucket-3/compacted-changelog-1a-2b$3-500.cc-parquet"
    unpartitioned = fake._replace(partition=EMPTY)
    assert paths(partition_keys=()).data_file(unpartitioned) == "bucket-3/compacted-changelog-1a-2b$3-500.cc-parquet"
    outside = fake._replace(external_path="s3a://b/x/bucket-7/compacted-changelog-1a-2b$3-500-100-50.cc-parquet")
    assert paths().data_file(outside) == "s3://b/x/bucket-3/compacted-changelog-1a-2b$3-500.cc-parquet"
    other = data("data-1$2-3-4-5.orc")
    assert paths().data_file(other) == "dt=1/bucket-0/data-1$2-3-4-5.orc"


def test_a_damaged_partition() -> None:
    with pytest.raises(FormatError, match=r"^schema/schema-0, partition .*: expected a row of 1 fields, found "):
        paths().data_file(data(partition=EMPTY))
    with pytest.raises(FormatError):
        paths().data_file(data(partition=b""))
