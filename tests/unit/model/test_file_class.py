"""What an object below a table is, by its key alone."""

import json
import re
import string
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakesweep.format.schema import TableSchema, parse_schema
from lakesweep.model.paths.allowed import may_delete
from lakesweep.model.paths.file_class import FileClass, FileClasses
from lakesweep.model.paths.layout import Layout, layout_of
from tests.support.fixture_tables import TABLE_NAMES, expected_facts, read_branch

U = "0a1b2c3d-4e5f-6789-abcd-ef0123456789"
W = "ffffffff-0000-1111-2222-333333333333"
HASH = "0123456789abcdef" * 4


def classes(*, keys: tuple[str, ...] = ("dt",), index: bool = False, nested: tuple[str, ...] = ()) -> FileClasses:
    return FileClasses(Layout(partition_keys=frozenset((keys,)), index_beside_data=index), nested)


def judged(file_class: FileClass) -> str:
    return f"{file_class.policy} {file_class.kind}" + (f" of {file_class.owner}" if file_class.owner else "")


BRANCH_DOCUMENTS = {
    "snapshot/snapshot-0": "never snapshot",
    "snapshot/snapshot-9223372036854775807": "never snapshot",
    "snapshot/EARLIEST": "never hint",
    "snapshot/LATEST": "never hint",
    "changelog/changelog-3": "never changelog_document",
    "changelog/EARLIEST": "never hint",
    "changelog/LATEST": "never hint",
    "tag/tag-2026-01-01": "never tag",
    "tag/tag-a b%20:c": "never tag",
    f"tag/tag-9{U}.tmp": "never tag",  # a tag may have any name
    "tag/tag-success-file/2026-01-01_SUCCESS": "never success",
    "tag/tag-success-file/tag-x_SUCCESS": "never success",
    "schema/schema-0": "never schema",
    "consumer/consumer-job 7": "never consumer",
    f"snapshot/.snapshot-9.{U}.tmp": "delete temp",
    f"snapshot/snapshot-9{U}.tmp": "delete temp",
    f"snapshot/snapshot-123{W}.tmp": "delete temp",
    f"snapshot/.LATEST.{U}.tmp": "delete temp",
    f"snapshot/LATEST{U}.tmp": "delete temp",
    f"snapshot/.EARLIEST.{U}.tmp": "delete temp",
    f"schema/.schema-2.{U}.tmp": "delete temp",
    f"schema/schema-2{U}.tmp": "delete temp",
    f"changelog/.changelog-3.{U}.tmp": "delete temp",
    f"changelog/.LATEST.{U}.tmp": "delete temp",
    f"tag/.tag-2026-01-01.{U}.tmp": "delete temp",
    f"tag/tag-success-file/.x_SUCCESS.{U}.tmp": "delete temp",
    f"consumer/.consumer-job 7.{U}.tmp": "delete temp",
    # Near misses.
    "snapshot/snapshot-": "report foreign",
    "snapshot/snapshot-07": "report foreign",
    "snapshot/snapshot--1": "report foreign",
    "snapshot/snapshot-1.json": "report foreign",
    "snapshot/snapshot-٣": "report foreign",
    "snapshot/snapshot-9.tmp": "report foreign",  # no UUID: such a name can come back
    "snapshot/LATEST.tmp": "report foreign",
    "snapshot/.snapshot-9.crc": "report foreign",
    f"snapshot/.snapshot-9.{U}.tmp.crc": "report foreign",
    f"snapshot/.snapshot-9.{U.upper()}.tmp": "report foreign",
    f"snapshot/.snapshot-9{U}.tmp": "report foreign",
    f"snapshot/snapshot-9.{U}.tmp": "report foreign",
    f"snapshot/snapshot-{U}.tmp": "report foreign",
    f"snapshot/EARLIEST{U}.tmp": "report foreign",
    f"snapshot/.schema-2.{U}.tmp": "report foreign",
    f"snapshot/.notes.{U}.tmp": "report foreign",
    f"snapshot/deep/.snapshot-9.{U}.tmp": "report foreign",
    f"schema/.snapshot-2.{U}.tmp": "report foreign",
    f"changelog/changelog-3{U}.tmp": "report foreign",
    f"changelog/changelog-{U}-0.orc": "report foreign",
    "tag/x_SUCCESS": "report foreign",
    "tag/tag-": "report foreign",
    "tag/notes": "report foreign",
    f"tag/.tag-.{U}.tmp": "report foreign",
    "tag/tag-success-file/x": "report foreign",
    "tag/tag-success-file/deep/x_SUCCESS": "report foreign",
    "consumer/readme": "report foreign",
    "schema/schema-x": "report foreign",
}

SHARED = {
    f"manifest/manifest-{U}-0": "delete manifest",
    f"manifest/manifest-{U}": "delete manifest",
    f"manifest/manifest-{U}-changelog": "delete manifest",
    f"manifest/manifest-{U}-3-changelog": "delete manifest",
    f"manifest/manifest-list-{U}-12": "delete manifest_list",
    f"manifest/manifest-list-{U}-changelog": "delete manifest_list",
    f"manifest/index-manifest-{U}-0": "delete index_manifest",
    f"manifest/index-manifest-{U}": "delete index_manifest",
    f"index/index-{U}-0": "delete index",
    f"index/btree-global-index-{U}.index": "delete index",
    f"index/bitmap-global-index-{U}.index": "delete index",
    f"index/vector-ivf_flat-global-index-{U}.index": "delete index",
    f"index/full-text-global-index-{U}.index": "delete index",
    f"statistics/stat-{U}-0": "delete statistics",
    "service/service-primary-key-lookup": "never service",
    f"service/.service-primary-key-lookup.{U}.tmp": "delete temp",
    "metadata/v3.metadata.json": "never iceberg",
    f"metadata/{U}-m1.avro": "never iceberg",
    f"metadata/snap-1-{U}.avro": "never iceberg",
    "metadata/version-hint.text": "never iceberg",
    "metadata/retire-pending": "never iceberg",
    f"metadata/.v3.metadata.json.{U}.tmp": "delete temp",
    f"metadata/.version-hint.text.{U}.tmp": "delete temp",
    f"copy-into/history/load-{HASH[:16]}-1767225600000": "never copy_into",
    "temp/job_202601010000_0001/task_0.preCommit": "report hive_temp",
    # Near misses.
    f"manifest/manifest-list-{U}": "report foreign",
    f"manifest/manifest-list-{U}-00": "report foreign",
    f"manifest/manifest-{U}-0.avro": "report foreign",
    f"manifest/manifest-{U[:-1]}-0": "report foreign",
    f"manifest/.manifest-{U}-0.{U}.tmp": "report foreign",
    f"manifest/deep/manifest-{U}-0": "report foreign",
    f"manifest/index-{U}-0": "report foreign",
    f"manifest-{U}-0": "report foreign",
    f"index/index-{U}": "report foreign",
    f"index/-global-index-{U}.index": "report foreign",
    f"index/btree-global-index-{U}": "report foreign",
    f"index/data-{U}-0.parquet": "report foreign",
    f"statistics/stat-{U}": "report foreign",
    "metadata/notes.txt": "report foreign",
    "copy-into/history/load-x-1": "report foreign",
    "temp/task_0.preCommit": "report foreign",
    "temp/job/deep/task_0.preCommit": "report foreign",
    "temp/job/notes": "report foreign",
    "branch": "report foreign",
    "branch/readme": "report foreign",
    "branch/other/snapshot/snapshot-1": "report foreign",
    "branch/branch-/snapshot/snapshot-1": "report foreign",
    "branch/branch-b/readme": "report foreign",
    "branch/branch-b/branch/branch-c/snapshot/snapshot-1": "report foreign",
    # Things that people leave.
    "README": "report foreign",
    "commit_messages/commit_messages-01": "report foreign",
    "splits.bin": "report foreign",
    "data": "report foreign",
    "../t2/manifest/manifest-x": "report foreign",  # nothing of a sibling is ours
    "a//b": "report foreign",
    "snapshot/snapshot-1\n": "report foreign",
    "tag/tag-\0": "report foreign",
    f"dt=\udcff/bucket-0/data-{U}-0.parquet": "report foreign",
    # Markers, nobody's files.
    "": "never marker",
    "snapshot/": "never marker",
    "dt=1/bucket-0/": "never marker",
    "whatever/": "never marker",
}

FORMATS = ("orc", "parquet", "avro", "csv", "json", "lance", "vortex", "mosaic", "row")
OWNER = f"data-{U}-0.parquet"
POSTPONED = f"data--u-user.1-s-7-w-{U}-0.avro"

IN_BUCKET = {
    **{f"data-{U}-0.{format_}": "delete data" for format_ in FORMATS},
    **{f"changelog-{U}-11.{format_}": "delete changelog" for format_ in FORMATS},
    **{f"data-{U}-0.vector.{format_}": "delete data" for format_ in FORMATS},
    **{f"data-{U}-0.{codec}.parquet": "delete data" for codec in ("zstd", "zst", "snappy", "lz4", "gz", "none")},
    **{f"data-{U}-0.json.{codec}": "delete data" for codec in ("gz", "bz2", "deflate", "snappy", "lz4", "zst")},
    f"data-{U}-0.csv.gz": "delete data",
    f"data-{U}-0.blob": "delete data",
    f"data-{U}-0.vector.zst.lance": "delete data",
    f"data-{U}-0.vector.json.gz": "delete data",
    f"data-{U}-9223372036854775807.orc": "delete data",
    # Sidecars.
    f"{OWNER}.index": f"delete extra of {OWNER}",
    f"{OWNER}-1.index": f"delete extra of {OWNER}",
    f"{OWNER}-12.index": f"delete extra of {OWNER}",
    f"{OWNER}.row": f"delete extra of {OWNER}",
    f"{OWNER}.blobref": f"delete extra of {OWNER}",
    f"{OWNER}.1024.value.v1.lookup": f"delete extra of {OWNER}",
    f"{OWNER}.0.position-and-value.v1.lookup": f"delete extra of {OWNER}",
    f"data-{U}-0.row.row": f"delete extra of data-{U}-0.row",
    f"data-{U}-0.json.gz.index": f"delete extra of data-{U}-0.json.gz",
    f"data-{U}-0.zstd.orc-2.index": f"delete extra of data-{U}-0.zstd.orc",
    f"changelog-{U}-0.orc.index": f"delete extra of changelog-{U}-0.orc",
    # The file itself, and a share of it, which is no file.
    f"compacted-changelog-{U}$0-1024.cc-orc": "delete changelog",
    f"compacted-changelog-{U}$0-10-10-5.cc-orc": "report foreign",
    f"compacted-changelog-{U}$1-1024.cc-orc": "report foreign",  # it lies in the bucket that it names
    f"compacted-changelog-{U}$0-1024.orc": "report foreign",
    f"compacted-changelog-{U}$0-1024": "report foreign",
    f"compacted-changelog-{U}-0.cc-orc": "report foreign",
    f"tmp-compacted-changelog-{U}": "delete temp",
    f"tmp-compacted-changelog-{U}-0": "report foreign",
    f"data-{U}-0.managed.blob": "never pack",
    "anything.managed.blob": "never pack",
    f"_bloburl_{HASH}": "report cache",
    f"_bloburl_{HASH[1:]}": "report foreign",
    # What is like a file of a table and is none.
    f"{OWNER}.crc": "report foreign",
    f".{OWNER}.crc": "report foreign",
    f"{OWNER}.gz": "report foreign",
    f"data-{U}-0.orc.zst": "report foreign",
    f"data-{U}-0.lz4.json.gz": "report foreign",
    f"data-{U}-0.parquet.parquet": "report foreign",
    f"data-{U}-0.blob.gz": "report foreign",
    f"data-{U}-0.vector": "report foreign",
    f"data-{U}-0.cc-orc": "report foreign",
    f"data-{U}-0": "report foreign",
    f"data-{U}-00.orc": "report foreign",
    f"data-{U}.orc": "report foreign",
    f"data-{U}-0.ORC": "report foreign",
    f"data-{U.upper()}-0.orc": "report foreign",
    f"data-{U[1:]}-0.orc": "report foreign",
    f"xdata-{U}-0.orc": "report foreign",
    f"{U}-0.orc": "report foreign",
    "data-multi-row-groups.parquet": "report foreign",
    "000000_0.orc": "report foreign",
    "000001_0.orc": "report foreign",
    "_SUCCESS": "report foreign",
    "part-00000.parquet": "report foreign",
    f".data-{U}-0.orc.{U}.tmp": "report foreign",
    f"{OWNER}-0.index": "report foreign",
    f"{OWNER}-01.index": "report foreign",
    f"{OWNER}.index.index": "report foreign",
    f"{OWNER}.index-1.index": "report foreign",
    f"{OWNER}.1024.value.lookup": "report foreign",
    f"{OWNER}.lookup": "report foreign",
    f"data-{U}-0.index": "report foreign",
    f"data-{U}-0-1.index": "report foreign",
    f"data-{U}-0.managed.blob.index": "report foreign",
    "data-multi-row-groups.parquet.row": "report foreign",
    "000000_0.orc.index": "report foreign",
    f"compacted-changelog-{U}$0-1024.cc-orc.index": "report foreign",
    POSTPONED: "report foreign",
    f"index-{U}-0": "report foreign",
    f"index-{U}-0.orc": "report foreign",
    f"btree-global-index-{U}.index": "report foreign",
    f"manifest-{U}-0": "report foreign",
}

DELETABLE = [
    *(key for key, expected in (BRANCH_DOCUMENTS | SHARED).items() if expected.startswith("delete")),
    *(f"branch/branch-b/{key}" for key, expected in BRANCH_DOCUMENTS.items() if expected.startswith("delete")),
    *(f"dt=1/bucket-0/{name}" for name, expected in IN_BUCKET.items() if expected.startswith("delete")),
    f"dt=1/bucket-postpone/{POSTPONED}",
    f"dt=1/bucket-0/index-{U}-9",
    f"dt=1/._SUCCESS.{U}.tmp",
]


@pytest.mark.parametrize(("key", "expected"), (BRANCH_DOCUMENTS | SHARED).items())
def test_names_outside_data_folders(key: str, expected: str) -> None:
    assert judged(classes().classify(key)) == expected


@pytest.mark.parametrize(("key", "expected"), BRANCH_DOCUMENTS.items())
def test_documents_of_a_branch(key: str, expected: str) -> None:
    """A branch keeps the same documents as the table."""
    assert judged(classes().classify(f"branch/branch-a b/{key}")) == expected


@pytest.mark.parametrize(("name", "expected"), IN_BUCKET.items())
def test_names_in_a_bucket(name: str, expected: str) -> None:
    assert judged(classes().classify(f"dt=1/bucket-0/{name}")) == expected
    assert judged(classes(keys=()).classify(f"bucket-0/{name}")) == expected


@pytest.mark.parametrize("key", [key for key in DELETABLE if not key.startswith("branch/")])
def test_a_branch_has_no_files_of_its_own(key: str) -> None:
    """Data, manifests, index files and statistics of all branches lie in the table's own folders."""
    found = classes(index=True).classify(f"branch/branch-b/{key}")
    assert found.policy == ("delete" if key in BRANCH_DOCUMENTS else "report")


@pytest.mark.parametrize(
    ("keys", "folder", "is_bucket"),
    [
        ((), "bucket-0", True),
        ((), "bucket-10", True),
        ((), "bucket-postpone", True),
        ((), "bucket-00", False),
        ((), "bucket-01", False),
        ((), "bucket--2", False),
        ((), "bucket-x", False),
        ((), "bucket-", False),
        ((), "bucket-0 ", False),
        ((), "Bucket-0", False),
        ((), "bucket-0/bucket-0", False),
        ((), "bucket-0/1010/0110/0011/01010101", False),  # only below external roots
        ((), "dt=1/bucket-0", False),
        ((), "x/bucket-0", False),
        ((), "./bucket-0", False),
        ((), "/bucket-0", False),
        (("dt",), "bucket-0", False),
        (("dt",), "dt=19723/bucket-0", True),
        (("dt",), "dt=2024-01-01/bucket-0", True),
        (("dt",), "dt=a%3Ab%2Fc%25/bucket-0", True),
        (("dt",), "dt=a:b/bucket-0", True),  # as earlier Python writers have it
        (("dt",), "dt=__OLD__/bucket-0", True),
        (("dt",), "dt=Zürich am See/bucket-0", True),
        (("dt",), "dt=/bucket-0", False),
        (("dt",), "dt/bucket-0", False),
        (("dt",), "DT=1/bucket-0", False),
        (("dt",), "xdt=1/bucket-0", False),
        (("dt",), "hr=1/bucket-0", False),
        (("dt",), "dt=1/hr=1/bucket-0", False),
        (("dt",), "dt=1", False),
        (("dt",), "dt=1/", False),
        (("dt", "hr"), "dt=1/hr=2/bucket-0", True),
        (("dt", "hr"), "hr=2/dt=1/bucket-0", False),
        (("dt", "hr"), "dt=1/bucket-0", False),
        (("a:b",), "a%3Ab=1/bucket-0", True),
        (("a:b",), "a:b=1/bucket-0", True),
        (("a/b",), "a%2Fb=1/bucket-0", True),
        (("a/b",), "a/b=1/bucket-0", False),
        (("d.",), "dt=1/bucket-0", False),
    ],
)
def test_bucket_directories(keys: tuple[str, ...], folder: str, is_bucket: bool) -> None:
    """A bucket lies exactly below the partition; files anywhere else are unknown."""
    found = classes(keys=keys).classify(f"{folder}/data-{U}-0.orc")
    assert judged(found) == ("delete data" if is_bucket else "report foreign")


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("dt=1/_SUCCESS", "never success"),
        ("dt=1/hr=2/_SUCCESS", "never success"),
        (f"dt=1/._SUCCESS.{U}.tmp", "delete temp"),
        ("dt=1/hr=2/x/_SUCCESS", "report foreign"),
        ("dt=1/hr=2/bucket-0/_SUCCESS", "report foreign"),
        ("_SUCCESS", "report foreign"),
        (f"._SUCCESS.{U}.tmp", "report foreign"),
        ("x=1/_SUCCESS", "report foreign"),
        ("dt=1/notes", "report foreign"),
        (f"dt=1/hr=2/data-{U}-0.orc", "report foreign"),
    ],
)
def test_partition_directories(key: str, expected: str) -> None:
    assert judged(classes(keys=("dt", "hr")).classify(key)) == expected


def test_postponed_files() -> None:
    """Files of rows without a bucket have names of their own, in their own bucket alone."""
    for name in (
        POSTPONED,
        f"data--u-a-s-1-w-b c-s-2-w-{U}-0.orc",
        f"{POSTPONED}.index",
        f"data-{U}-0.orc",
        f"changelog-{U}-0.orc",
    ):
        assert classes().classify(f"dt=1/bucket-postpone/{name}").policy == "delete"
    assert classes().classify(f"dt=1/bucket-postpone/{POSTPONED}.index").owner == POSTPONED
    for name in (
        f"data--u--s-1-w-{U}-0.avro",
        f"data-u-user-s-1-w-{U}-0.avro",
        f"data--u-user-s-x-w-{U}-0.avro",
        f"changelog--u-user-s-1-w-{U}-0.avro",
        f"data--u-x-global-index-y-s-1-w-{U}-0.avro",  # it could not be told from an index file
    ):
        assert judged(classes().classify(f"dt=1/bucket-postpone/{name}")) == "report foreign"


def test_index_files_among_data() -> None:
    """Only where a schema puts them there; global indexes never lie there."""
    key = f"dt=1/bucket-0/index-{U}-9"
    assert judged(classes(index=True).classify(key)) == "delete index"
    assert judged(classes().classify(key)) == "report foreign"
    assert judged(classes(index=True).classify(f"dt=1/bucket-0/btree-global-index-{U}.index")) == "report foreign"
    assert judged(classes(index=True).classify(f"dt=1/bucket-0/index-{U}")) == "report foreign"
    assert judged(classes(index=True).classify(f"dt=1/index-{U}-9")) == "report foreign"


def test_nested_tables() -> None:
    """Nothing of a table below this one is ours, whatever it is called."""
    nested = classes(nested=("x", "dt=1/bucket-0/y/"))
    for key in (f"x/manifest/manifest-{U}-0", "x/", "x/z", f"dt=1/bucket-0/y/data-{U}-0.orc"):
        assert judged(nested.classify(key)) == "never nested"
    assert judged(nested.classify("x")) == "report foreign"
    assert judged(nested.classify("xy/z")) == "report foreign"
    assert judged(nested.classify(f"dt=1/bucket-0/data-{U}-0.orc")) == "delete data"
    for itself in ("", "/"):
        with pytest.raises(ValueError, match="the table itself"):
            classes(nested=(itself,))


def schema(keys: tuple[str, ...] = ("dt",), **options: str) -> TableSchema:
    document = {
        "version": 3,
        "id": 0,
        "fields": [{"id": number, "name": key, "type": "STRING"} for number, key in enumerate((*keys, "v"))],
        "partitionKeys": keys,
        "options": {key.replace("__", "-").replace("_", "."): value for key, value in options.items()},
    }
    return parse_schema(json.dumps(document).encode(), "schema-0")


def test_layout_gathers_every_value() -> None:
    """Options change and branches differ; files written under any of them stay."""
    layout = layout_of(
        (
            schema(data__file_prefix="old-", changelog__file_prefix="c("),
            schema(data__file_prefix="new-", data__file_path__directory="/data//files/"),
            schema((), index__file__in__data__file__dir="TRUE"),
        )
    )
    assert layout.partition_keys == {("dt",), ()}
    found = FileClasses(layout)
    for folder in ("dt=1/bucket-0", "bucket-0", "data/files/dt=1/bucket-0", "data/files/bucket-0"):
        for prefix in ("old-", "new-", "data-"):
            assert judged(found.classify(f"{folder}/{prefix}{U}-0.orc")) == "delete data"
        for prefix in ("c(", "changelog-"):
            assert judged(found.classify(f"{folder}/{prefix}{U}-0.orc")) == "delete changelog"
        assert judged(found.classify(f"{folder}/index-{U}-0")) == "delete index"
        assert judged(found.classify(f"{folder}/other-{U}-0.orc")) == "report foreign"
    assert judged(found.classify("data/files/dt=1/_SUCCESS")) == "never success"
    for folder in ("data/bucket-0", "data/dt=1/bucket-0", "files/dt=1/bucket-0", "dt=1/data/files/bucket-0"):
        assert judged(found.classify(f"{folder}/data-{U}-0.orc")) == "report foreign"


def test_layout_without_schemas() -> None:
    """Without a schema nobody knows where data lies, so none is found."""
    found = FileClasses(layout_of(()))
    for folder in ("", "bucket-0/", "dt=1/bucket-0/"):
        assert judged(found.classify(f"{folder}data-{U}-0.orc")) == "report foreign"


@pytest.mark.parametrize("directory", ["manifest", "snapshot/x", "..", "a/../b", ".", "", "/"])
def test_odd_path_directories(directory: str) -> None:
    """An option that points at metadata or out of the table makes nothing there deletable."""
    found = FileClasses(Layout(path_directories=frozenset((directory,))))
    if directory.strip("/"):
        assert judged(found.classify(f"{directory}/bucket-0/data-{U}-0.orc")) == "report foreign"
    assert judged(found.classify(f"bucket-0/data-{U}-0.orc")) == "delete data"


@pytest.mark.parametrize("prefix", ["index-", "x-global-index-", "a/", "\0"])
def test_odd_prefixes(prefix: str) -> None:
    """A prefix that makes data files look like index files, or worse, makes nothing deletable."""
    found = FileClasses(Layout(data_prefixes=frozenset((prefix,)), index_beside_data=True))
    assert judged(found.classify(f"bucket-0/{prefix}{U}-0.orc")) == "report foreign"
    assert found.classify(f"bucket-0/{prefix}{U}-0.orc.index").policy == "report"


def test_what_stays_says_why() -> None:
    for key in (*BRANCH_DOCUMENTS, *SHARED, *(f"dt=1/bucket-0/{name}" for name in IN_BUCKET)):
        found = classes().classify(key)
        assert bool(found.why) == (found.policy != "delete"), key
        assert not found.why.endswith(".")


@pytest.mark.parametrize("key", DELETABLE)
def test_what_is_deletable_is_allowed(key: str) -> None:
    found = classes(index=True).classify(key)
    assert found.policy == "delete"
    assert may_delete(found.kind, key)


@pytest.mark.parametrize("key", [*BRANCH_DOCUMENTS, *SHARED, *(f"dt=1/bucket-0/{name}" for name in IN_BUCKET)])
def test_temp_files_are_allowed_exactly(key: str) -> None:
    """The last fence lets temp files go in the very places where they are known, and nothing else as one."""
    assert may_delete("temp", key) == (classes().classify(key).kind == "temp")


@pytest.mark.parametrize(
    "path",
    [
        f"s3://bucket/t/snapshot/.snapshot-9.{U}.tmp",
        f"/t/dt=1/bucket-0/tmp-compacted-changelog-{U}",
        f"branch/branch-a/branch/branch-b/snapshot/.snapshot-9.{U}.tmp",
        f"branch/branch-a/service/.service-x.{U}.tmp",
        f"branch/branch-a/bucket-0/tmp-compacted-changelog-{U}",
        f"manifest/bucket-0/tmp-compacted-changelog-{U}",
        f"manifest/dt=1/._SUCCESS.{U}.tmp",
        f"../bucket-0/tmp-compacted-changelog-{U}",
        f"dt=1//bucket-0/tmp-compacted-changelog-{U}",
        f"bucket-x/tmp-compacted-changelog-{U}",
        f"tmp-compacted-changelog-{U}",
        f"tag/.tag-a\0.{U}.tmp",
    ],
)
def test_temp_files_are_allowed_nowhere_else(path: str) -> None:
    assert not may_delete("temp", path)


PIECES = st.sampled_from(
    [
        *(
            "snapshot",
            "changelog",
            "tag",
            "schema",
            "consumer",
            "manifest",
            "index",
            "statistics",
            "metadata",
            "branch",
        ),
        *("branch-b", "dt=1", "hr=2", "bucket-0", "bucket-postpone", "tag-success-file", "temp", "service", "_SUCCESS"),
        *("snapshot-1", "LATEST", "..", ".", "", "\n", "\0", *DELETABLE),
        *(key.rpartition("/")[2] for key in DELETABLE),
    ]
)
KEYS = st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=4)), max_size=6).map("/".join))
LAYOUTS = st.builds(
    Layout,
    data_prefixes=st.frozensets(st.one_of(st.sampled_from(["data-", "index-", ""]), st.text(max_size=5)), max_size=3),
    changelog_prefixes=st.frozensets(st.one_of(st.just("changelog-"), st.text(max_size=5)), max_size=3),
    partition_keys=st.frozensets(
        st.one_of(st.sampled_from([(), ("dt",), ("dt", "hr")]), st.lists(st.text(max_size=3)).map(tuple)), max_size=3
    ),
    path_directories=st.frozensets(
        st.one_of(st.sampled_from(["data", "tag", "s3://x", ".."]), st.text(max_size=5)), max_size=3
    ),
    index_beside_data=st.booleans(),
)


@given(LAYOUTS, KEYS)
@example(Layout(path_directories=frozenset(("s3://x",))), f"s3:/x/bucket-0/data-{U}-0.orc")
@example(Layout(data_prefixes=frozenset()), f"bucket-0/{U}-0.orc")
def test_any_key_of_any_layout(layout: Layout, key: str) -> None:
    """Every key has a class, and the last fence lets go what the class lets go."""
    found = FileClasses(layout).classify(key)
    if found.policy == "delete":
        assert may_delete(found.kind, key)
        assert found.why == ""
    assert (found.owner is not None) == (found.kind == "extra")


@given(LAYOUTS, st.data())
def test_data_where_the_layout_has_it(layout: Layout, data: st.DataObject) -> None:
    """A data file of a layout is found in each of its places, and in no folder above or below."""
    prefix = data.draw(st.sampled_from(["data-", *sorted(layout.data_prefixes)]))
    keys = data.draw(st.sampled_from(sorted(layout.partition_keys | {("dt", "hr")})))
    folder = "".join(f"{key}=1/" for key in keys) + "bucket-3"
    found = FileClasses(layout).classify(f"{folder}/{prefix}{U}-0.orc")
    fits = keys in layout.partition_keys and prefix in layout.data_prefixes
    plain = not (set("/\0") & set(prefix + "".join(keys)) or "" in keys or prefix.startswith("index-"))
    if plain and fits:
        assert judged(found) == "delete data"
    if not plain and found.policy == "delete":
        assert may_delete(found.kind, f"{folder}/{prefix}{U}-0.orc")
    for other in (f"{folder}/deeper/", f"x/{folder}/", ""):
        if not layout.path_directories and ("x",) not in layout.partition_keys:
            assert FileClasses(layout).classify(f"{other}data-{U}-0.orc").policy != "delete"


def shape(key: str) -> str:
    """Reduce a key to its structure: free text, numbers and UUIDs out, every letter that means something in."""
    folder, _, name = key.rpartition("/")
    folder = re.sub(r"^dt=[^/]+", "dt=V", re.sub(r"^branch/branch-[^/]+", "branch/branch-B", folder))
    folder = re.sub(r"bucket-(0|[1-9][0-9]*)$", "bucket-N", folder)
    name = re.sub("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "U", name)
    name = re.sub(r"^\.(tag|consumer|service)-[^/]+\.U", r".\1-X.U", name)
    name = re.sub(r"^\.[^/]+_SUCCESS\.U", ".X_SUCCESS.U", name) if folder.startswith(("tag", "branch")) else name
    name = re.sub(r"^[A-Za-z0-9]+([-_][A-Za-z0-9]+)*-global-index-", "K-global-index-", name)
    name = re.sub(r"-u-[^/]+-s-", "-u-X-s-", name)
    name = re.sub(r"\.N?[0-9]+\.[a-z-]+\.v[0-9]+\.lookup$", ".N.P.vN.lookup", name)
    name = re.sub(r"(?<=[-$v])(0|[1-9][0-9]*)(?=[-.$U]|$)", "N", name)
    return f"{folder}/{re.sub('[.](zstd|zst|snappy|lz4|gz|none|lzo|gzip)[.]', '.CODEC.', name)}"


SHAPES = {shape(key) for key in DELETABLE}


@given(st.sampled_from(DELETABLE), st.data())
def test_one_wrong_character(key: str, data: st.DataObject) -> None:
    """A deletable key with one character changed, added or lost is not deletable, or has the same structure."""
    place = data.draw(st.integers(0, len(key) - 1))
    sign = data.draw(st.sampled_from(["", *string.ascii_letters, *string.digits, *"-_.$/= \n\0%", "é"]))
    mutated = key[:place] + sign + key[place + data.draw(st.integers(0, 1)) :]
    found = classes(index=True).classify(mutated)
    if found.policy == "delete":
        assert may_delete(found.kind, mutated)
        assert shape(mutated) in SHAPES


@pytest.mark.parametrize("table", TABLE_NAMES)
def test_files_of_real_tables(fixtures_dir: Path, table: str) -> None:
    """What roots refer to is known by name, and what people left beside it is not."""
    facts = expected_facts(fixtures_dir, table)
    branches = facts["branches"]
    schemas = [s for name in branches for s in read_branch(fixtures_dir / "tables" / table, name).schemas]
    found = FileClasses(layout_of(schemas))
    for path in facts["referenced"]:
        if not path.startswith("FILE:"):
            assert found.classify(path).policy == "delete", path
    for path in facts["root_metadata"]:
        assert found.classify(path).policy == "never", path
    for kind, paths in facts["unreferenced"].items():
        for path in paths:
            assert found.classify(path).policy == ("report" if kind == "unknown" else "delete"), path
