"""Manifests, manifest lists and index manifests, as writers of several releases make them."""

import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.manifest import (
    EntryNames,
    IndexEntry,
    ManifestEntry,
    ManifestMeta,
    live_entries,
    read_index_manifest,
    read_manifest,
    read_manifest_list,
    read_names,
)
from tests.support.sampling import is_sampled

from .samples import (
    EMPTY_ROW,
    FUTURE_MANIFEST,
    MANIFEST_LIST,
    NEW_MANIFEST,
    NEW_MANIFEST_LIST,
    OLD_MANIFEST,
    Schema,
    avro_file,
    container,
    index_record,
    index_schema,
    list_record,
    manifest_record,
    nullable,
)

LATER: dict[str, Any] = {
    "_DELETE_ROW_COUNT": 3,
    "_EMBEDDED_FILE_INDEX": b"index",
    "_FILE_SOURCE": 1,
    "_VALUE_STATS_COLS": ["a", "b"],
    "_EXTERNAL_PATH": "s3a://bucket/x/data-1-0.parquet",
    "_FIRST_ROW_ID": 7,
    "_WRITE_COLS": None,
}
FUTURE = {"_FROM_THE_FUTURE": {"a": {"k": None, "l": 2.5}, "b": b"abc"}}

Reader = Callable[..., Any]


def entry(name: str = "data-1-0.parquet", *, is_add: bool = True, **changes: Any) -> ManifestEntry:
    plain = ManifestEntry(is_add, EMPTY_ROW, 0, 0, name, 1234, (), None, None, None, 10)
    return plain._replace(**changes)


# Manifests


@pytest.mark.parametrize("schema", [OLD_MANIFEST, NEW_MANIFEST, FUTURE_MANIFEST], ids=["0.8", "1.3", "future"])
@pytest.mark.parametrize("codec", ["null", "deflate", "zstandard"])
def test_every_release(schema: Schema, codec: str) -> None:
    """Old fields read alike whatever else is there."""
    records = [
        manifest_record(
            "data-1-0.parquet", _PARTITION=b"p", _BUCKET=3, _LEVEL=5, _EXTRA_FILES=["data-1-0.parquet.index"]
        ),
        manifest_record("data-1-1.orc", kind=1, _BUCKET=-2),
    ]
    body = avro_file(schema, records, codec)
    assert list(read_manifest(body, "m", expected_size=len(body))) == [
        entry(partition=b"p", bucket=3, level=5, extra_files=("data-1-0.parquet.index",)),
        entry("data-1-1.orc", is_add=False, bucket=-2),
    ]


@pytest.mark.parametrize("schema", [NEW_MANIFEST, FUTURE_MANIFEST], ids=["1.3", "future"])
def test_later_fields(schema: Schema) -> None:
    (found,) = read_manifest(avro_file(schema, [manifest_record(**LATER, **FUTURE)]), "m")
    assert found == entry(embedded_index=b"index", external_path="s3a://bucket/x/data-1-0.parquet", file_source=1)


@pytest.mark.parametrize("schema", [OLD_MANIFEST, NEW_MANIFEST, FUTURE_MANIFEST], ids=["0.8", "1.3", "future"])
def test_names_are_those_of_the_entries(schema: Schema) -> None:
    """Reading only names finds the names of all entries, those that a pattern matches among them."""
    records = [
        manifest_record(f"data-{number}-0.parquet", kind=number % 2, _FILE_SIZE=number << number % 50)
        | {"_BUCKET": number % 5 - 2}
        for number in range(1000)
    ]
    records += [
        manifest_record(**LATER, **FUTURE),
        manifest_record(_EXTRA_FILES=["a", "b"]),
        manifest_record("a$0-1-2-3.cc-orc"),
    ]
    body = avro_file(schema, records, "zstandard", sync_interval=2000)
    expected = [
        EntryNames(each.is_add, each.file_name, each.extra_files, each.external_path)
        for each in read_manifest(body, "m")
    ]
    assert len(expected) == len(records)
    assert list(read_names(body, "m")) == expected


def test_an_entry_is_what_identifies_it() -> None:
    """All that Java compares, and nothing else: sizes and counts may differ."""
    one = entry()
    assert one.identity == one._replace(is_add=False, file_size=1, row_count=1, file_source=1).identity
    for change in (
        {"partition": b"x"},
        {"bucket": 1},
        {"level": 1},
        {"file_name": "b"},
        {"extra_files": ("x",)},
        {"embedded_index": b""},
        {"external_path": "/a/b"},
    ):
        assert one._replace(**change).identity != one.identity  # type: ignore[arg-type]


def test_live_entries() -> None:
    upgraded = entry("a", level=5)
    manifests = [
        [entry("a"), entry("b"), entry("c")],
        [entry("a", is_add=False), upgraded, entry("b", is_add=False), entry("z", is_add=False)],
    ]
    assert live_entries(manifests) == [entry("c"), upgraded]
    assert live_entries(reversed(manifests)) == [upgraded, entry("c")]
    assert live_entries(iter(map(iter, manifests))) == [entry("c"), upgraded]
    assert live_entries([]) == []


def test_adding_again_after_a_delete_stays_deleted() -> None:
    assert live_entries([[entry("a")], [entry("a", is_add=False)], [entry("a")]]) == []


names = st.sampled_from("abcd")


@given(st.lists(st.lists(st.tuples(names, st.booleans(), st.integers(0, 1)), max_size=6), max_size=6), st.randoms())
def test_live_entries_do_not_depend_on_order(shape: list[list[tuple[str, bool, int]]], random: Any) -> None:
    manifests = [[entry(name, is_add=is_add, level=level) for name, is_add, level in manifest] for manifest in shape]
    live = sorted(live_entries(manifests), key=repr)
    random.shuffle(manifests)
    for manifest in manifests:
        random.shuffle(manifest)
    assert sorted(live_entries(manifests), key=repr) == live


@pytest.mark.parametrize(
    "name", ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\0b", "a\nb", "x" * 1025, "é" * 600, "\u0085"]
)
def test_names_that_lead_elsewhere(name: str) -> None:
    for record in (manifest_record(name), manifest_record(_EXTRA_FILES=["ok", name])):
        for read in (read_manifest, read_names):
            with pytest.raises(FormatError, match=r"^m: expected a plain file name in _"):
                list(read(avro_file(NEW_MANIFEST, [record]), "m"))


@pytest.mark.parametrize(
    "name", ["data-1-0.parquet", ".hidden", "a b", "é" * 500, "compacted-changelog-a$0-1-2-3.cc-orc"]
)
def test_odd_names_are_kept(name: str) -> None:
    (found,) = read_manifest(avro_file(NEW_MANIFEST, [manifest_record(name)]), "m")
    assert found.file_name == name


@pytest.mark.parametrize(
    "path",
    ["", "data-1", "../x/y", "s3://bucket", "s3://b/a/../../c/x", "/", "/a/", "file:///", "s3://b/x\n", "/a/./b"],
)
def test_external_paths_that_lead_elsewhere(path: str) -> None:
    for read in (read_manifest, read_names):
        with pytest.raises(FormatError, match=r"^m: expected the absolute path or URI of a file in _EXTERNAL_PATH"):
            list(read(avro_file(NEW_MANIFEST, [manifest_record(_EXTERNAL_PATH=path)]), "m"))


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": 2},
        {"kind": -1},
        {"_BUCKET": -3},
        {"_LEVEL": -1},
        {"_FILE_SIZE": -1},
        {"_ROW_COUNT": -1},
    ],
    ids=repr,
)
def test_impossible_entries(changes: dict[str, Any]) -> None:
    """Among many usual entries, too, which a pattern matches."""
    body = avro_file(NEW_MANIFEST, [*([manifest_record()] * 500), manifest_record(**changes)], sync_interval=2000)
    for read in (read_manifest, read_names):
        with pytest.raises(FormatError, match=r"^m: expected "):
            list(read(body, "m"))


def test_a_null_file_or_root() -> None:
    record = manifest_record() | {"_FILE": None}
    for records in ([record], [None]):
        with pytest.raises(FormatError, match=r"^m: "):
            list(read_manifest(avro_file(OLD_MANIFEST, records), "m"))


# Manifest lists


def test_manifest_lists() -> None:
    records = [list_record("manifest-1-1"), list_record("manifest-1-0", _SCHEMA_ID=4)]
    old = read_manifest_list(avro_file(MANIFEST_LIST, records), "l")
    assert old == (
        ManifestMeta("manifest-1-1", 2000, 2, 1, 0, b"min", b"max", ()),
        ManifestMeta("manifest-1-0", 2000, 2, 1, 4, b"min", b"max", ()),
    )
    assert read_manifest_list(avro_file(NEW_MANIFEST_LIST, records), "l") == old
    assert read_manifest_list(avro_file(nullable(MANIFEST_LIST), records), "l") == old


def test_later_fields_of_manifest_lists() -> None:
    record = list_record(_MIN_BUCKET=0, _MAX_BUCKET=3, _MIN_LEVEL=1, _MAX_LEVEL=2, _MIN_ROW_ID=5, _TOTAL_BUCKETS=4)
    record["_EXTRA_FILES"] = ["manifest-1-0.avro.sidecar"]
    (found,) = read_manifest_list(avro_file(NEW_MANIFEST_LIST, [record]), "l")
    assert found.extra_files == ("manifest-1-0.avro.sidecar",)
    assert found[8:] == (0, 3, 1, 2, 5, None, 4)


def test_an_empty_list() -> None:
    assert read_manifest_list(avro_file(MANIFEST_LIST, []), "l") == ()


@pytest.mark.parametrize(
    "changes",
    [{"_FILE_SIZE": -1}, {"_NUM_ADDED_FILES": -1}, {"_NUM_DELETED_FILES": -1}, {"_FILE_NAME": "../m"}],
    ids=repr,
)
def test_impossible_manifests(changes: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match=r"^l: expected "):
        read_manifest_list(avro_file(MANIFEST_LIST, [list_record(**changes)]), "l")


# Index manifests


def test_index_manifests() -> None:
    """Vectors are nullable records in Java's files and plain ones in pypaimon's."""
    old = read_index_manifest(avro_file(index_schema(), [index_record()]), "i")
    assert old == (
        IndexEntry(EMPTY_ROW, 0, "DELETION_VECTORS", "index-1-0", 33, 1, None, (("data-1-0.parquet", 1, 22, None),)),
    )
    assert read_index_manifest(avro_file(index_schema(lambda schema: schema), [index_record()]), "i") == old
    assert read_index_manifest(avro_file(nullable(index_schema()), [index_record()]), "i") == old
    vectors = [{"f0": "d", "f1": 1, "f2": 22, "_CARDINALITY": 5}, {"f0": "e", "f1": 31, "f2": 24, "_CARDINALITY": None}]
    record = index_record(_DELETIONS_VECTORS_RANGES=vectors, _EXTERNAL_PATH="FILE:/tmp/x/index-1-0")
    (found,) = read_index_manifest(avro_file(index_schema(_CARDINALITY=nullable("long")), [record]), "i")
    assert found.vectors == (("d", 1, 22, 5), ("e", 31, 24, None))
    assert found.external_path == "FILE:/tmp/x/index-1-0"


@pytest.mark.parametrize("ranges", [None, []])
def test_an_index_without_vectors(ranges: object) -> None:
    record = index_record(_INDEX_TYPE="HASH", _DELETIONS_VECTORS_RANGES=ranges)
    (found,) = read_index_manifest(avro_file(index_schema(), [record]), "i")
    assert (found.index_type, found.vectors) == ("HASH", ())


@pytest.mark.parametrize(
    "changes",
    [
        {"_KIND": 1},
        {"_FILE_SIZE": -1},
        {"_ROW_COUNT": -1},
        {"_FILE_NAME": "a/b"},
        {"_EXTERNAL_PATH": "relative/x"},
        {"_DELETIONS_VECTORS_RANGES": [None]},
        {"_DELETIONS_VECTORS_RANGES": [{"f0": "../d", "f1": 1, "f2": 2}]},
        {"_DELETIONS_VECTORS_RANGES": [{"f0": "d", "f1": -1, "f2": 2}]},
        {"_DELETIONS_VECTORS_RANGES": [{"f0": "d", "f1": 1, "f2": -2}]},
    ],
    ids=repr,
)
def test_impossible_index_entries(changes: dict[str, Any]) -> None:
    with pytest.raises(FormatError, match=r"^i: "):
        read_index_manifest(avro_file(index_schema(), [index_record(**changes)]), "i")


# All three

FILES: list[tuple[Reader, Schema, list[Any]]] = [
    (lambda *a, **k: tuple(read_manifest(*a, **k)), NEW_MANIFEST, [manifest_record(f"data-{n}") for n in range(3)]),
    (lambda *a, **k: tuple(read_manifest(*a, **k)), OLD_MANIFEST, [manifest_record(f"data-{n}") for n in range(3)]),
    (read_manifest_list, NEW_MANIFEST_LIST, [list_record(f"manifest-{n}") for n in range(3)]),
    (read_index_manifest, index_schema(), [index_record(f"index-{n}") for n in range(3)]),
]
each_file = pytest.mark.parametrize(("read", "schema", "records"), FILES, ids=["manifest", "old", "list", "index"])


@each_file
def test_a_later_version_is_refused(read: Reader, schema: Schema, records: list[Any]) -> None:
    for version in (0, 3, 100):
        body = avro_file(schema, [records[0], records[1] | {"_VERSION": version}])
        with pytest.raises(UnsupportedFormatError, match=f"found version {version}$") as raised:
            read(body, "p")
        assert raised.value.code == "unsupported_version"


@each_file
@pytest.mark.parametrize("codec", ["null", "zstandard"])
def test_every_cut_is_noticed(read: Reader, schema: Schema, records: list[Any], codec: str) -> None:
    """With its recorded size, always. Without it, all but the cut that leaves a container without blocks."""
    body = avro_file(schema, records, codec)
    whole = read(body, "p", expected_size=len(body))
    assert len(whole) == len(records)
    empty = 0
    for end in range(len(body)):
        with pytest.raises(FormatError, match=rf"^p: expected {len(body)} bytes"):
            read(body[:end], "p", expected_size=len(body))
        try:
            assert read(body[:end], "p") == ()
            empty += 1
        except FormatError:
            pass
    assert empty == 1


@each_file
def test_every_flip_is_noticed_or_decodes(read: Reader, schema: Schema, records: list[Any]) -> None:
    for first, codec in enumerate(("null", "deflate", "zstandard")):
        body = avro_file(schema, records[:1], codec)
        for position in range(first, len(body), 3) if is_sampled() else range(len(body)):
            for bit in {0, position % 7 + 1}:
                changed = bytearray(body)
                changed[position] ^= 1 << bit
                try:
                    read(bytes(changed), "p")
                except (FormatError, UnsupportedFormatError) as error:
                    assert str(error).startswith("p: ")
                    assert len(str(error)) < 600


@each_file
def test_fields_that_must_be_there(read: Reader, schema: Schema, records: list[Any]) -> None:
    root = schema if isinstance(schema, dict) else schema[1]
    for missing in ("_VERSION", "_FILE_NAME" if root["fields"][1]["name"] != "_KIND" else "_KIND"):
        fields = [field for field in root["fields"] if field["name"] != missing]
        with pytest.raises(FormatError, match=rf"^p: expected the field {missing}, found nothing$"):
            read(container({**root, "fields": fields}, []), "p")


@each_file
def test_other_containers(read: Reader, schema: Schema, records: list[Any]) -> None:
    with pytest.raises(UnsupportedFormatError, match="found Parquet") as raised:
        read(b"PAR1....PAR1", "p")
    assert raised.value.code == "unsupported_container"
    for body in (b"", b"{}", b"Obj", b"\0" * 100, b"OR"):
        with pytest.raises(FormatError, match=r"^p: expected an Avro or ORC file, found"):
            read(body, "p")


@each_file
def test_a_wrong_size_is_damage(read: Reader, schema: Schema, records: list[Any]) -> None:
    body = avro_file(schema, records)
    for size in (0, len(body) - 1, len(body) + 1):
        with pytest.raises(FormatError, match=rf"^p: expected {size} bytes, as recorded in the metadata, found"):
            read(body, "p", expected_size=size)


def test_entries_come_block_by_block() -> None:
    """A manifest of any size is read in the memory of a few blocks."""

    def records() -> Iterator[Any]:
        for number in range(5000):
            yield manifest_record(f"data-{number}-0.parquet")

    body = avro_file(NEW_MANIFEST, records())
    started = time.process_time()
    tracemalloc.start()
    assert sum(1 for _ in read_manifest(body, "m")) == 5000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert time.process_time() - started < 20


LONG_NAME = "data\n\0" + "x" * 5000


@pytest.mark.parametrize(
    ("read", "schema", "record"),
    [
        (read_manifest, NEW_MANIFEST, manifest_record(LONG_NAME, **LATER, _LEVEL=-1)),
        (read_manifest, NEW_MANIFEST, manifest_record(LONG_NAME, **LATER, kind=2)),
        (read_manifest_list, MANIFEST_LIST, list_record(LONG_NAME, _FILE_SIZE=-1)),
        (read_index_manifest, index_schema(), index_record(LONG_NAME, _ROW_COUNT=-1)),
        (
            read_index_manifest,
            index_schema(),
            index_record(_DELETIONS_VECTORS_RANGES=[{"f0": "x" * 1000, "f1": -1, "f2": 0}]),
        ),
    ],
)
def test_a_damaged_name_does_not_spoil_the_message(read: Reader, schema: Schema, record: dict[str, Any]) -> None:
    """It may hold line breaks, or be as long as the file."""
    with pytest.raises(FormatError) as raised:
        list(read(avro_file(schema, [record]), "manifest/m"))
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 300
