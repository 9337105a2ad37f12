"""Index manifests of some records of another one."""

import io
from pathlib import Path

import fastavro
import pytest

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.avro.container import read_container
from lakesweep.format.index_manifest_writer import index_record as made_record
from lakesweep.format.index_manifest_writer import read_raw_index_manifest, write_index_manifest
from lakesweep.format.manifest import read_index_manifest
from tests.support import metadata_schemas

from .samples import Schema, avro_file, container, index_record, index_schema, nullable, record

GLOBAL = {
    "_ROW_RANGE_START": 0,
    "_ROW_RANGE_END": 99,
    "_INDEX_FIELD_ID": 3,
    "_EXTRA_FIELD_IDS": [1, 2],
    "_INDEX_META": b"meta",
    "_SOURCE_META": None,
}
FUTURE: Schema = {
    **index_schema(_CARDINALITY=nullable("long")),
    "fields": [
        *index_schema(_CARDINALITY=nullable("long"))["fields"],
        {"name": "_NEW", "type": record("n", a="double")},
    ],
}


@pytest.mark.parametrize(
    ("schema", "values"),
    [
        (metadata_schemas.INDEX_MANIFEST, {"_GLOBAL_INDEX": GLOBAL, "_INDEX_TYPE": "btree"}),
        (FUTURE, {"_NEW": {"a": 2.5}}),
        (nullable(index_schema(lambda items: items)), {}),
    ],
    ids=["1.4", "future", "0.9"],
)
@pytest.mark.parametrize("kept", [(0, 1, 2), (2, 0), (1,), ()])
def test_what_remains(schema: Schema, values: dict[str, object], kept: tuple[int, ...]) -> None:
    """fastavro reads every field of the records that remain, known or not; none may remain."""
    records = [index_record("i-0"), index_record("i-1", _DELETIONS_VECTORS_RANGES=None), index_record("i-2", _BUCKET=4)]
    body = avro_file(schema, [each | values for each in records])
    index = read_raw_index_manifest(body, "i", expected_size=len(body))
    assert [entry for _, entry in index.rows] == list(read_index_manifest(body, "i"))
    written = write_index_manifest(index, [index.rows[n][0] for n in kept], codec="deflate")
    before = list(fastavro.reader(io.BytesIO(body)))
    assert list(fastavro.reader(io.BytesIO(written))) == [before[n] for n in kept]
    assert read_index_manifest(written, "i", expected_size=len(written)) == tuple(index.rows[n][1] for n in kept)
    assert read_container(written, "i").schema_text == index.schema_text


def test_records_of_others_are_refused() -> None:
    index = read_raw_index_manifest(avro_file(FUTURE, []), "i")
    with pytest.raises(ValueError, match=r"^i: expected records of this index manifest, found 1 others$"):
        write_index_manifest(index, [b"x"], codec="null")


def test_damage_lies_and_other_containers() -> None:
    body = avro_file(index_schema(), [index_record()])
    with pytest.raises(FormatError, match=rf"^i: expected 5 bytes, as recorded in the metadata, found {len(body)}$"):
        read_raw_index_manifest(body, "i", expected_size=5)
    for damaged in (b"", body[:-1], container(index_schema(), [(1, b"\x02\x00")])):
        with pytest.raises(FormatError, match=r"^i: expected "):
            read_raw_index_manifest(damaged, "i")
    with pytest.raises(FormatError, match=r"^i: expected only additions"):
        read_raw_index_manifest(avro_file(index_schema(), [index_record(_KIND=1)]), "i")
    with pytest.raises(UnsupportedFormatError, match=r", found Parquet$") as caught:
        read_raw_index_manifest(b"PAR1" + bytes(50), "i")
    assert caught.value.code == "manifest_format"


def test_index_manifests_of_real_engines(fixtures_dir: Path) -> None:
    """Global indexes and vectors are copied byte by byte."""
    kinds = set()
    for path in (fixtures_dir / "tables").glob("*/manifest/index-manifest-*"):
        if (body := path.read_bytes()).startswith(b"Obj"):
            index = read_raw_index_manifest(body, path.name)
            kinds |= {entry.index_type for _, entry in index.rows}
            written = write_index_manifest(index, [raw for raw, _ in index.rows], codec="zstandard")
            blocks = [b"".join(data for _, data in read_container(each, "i").blocks()) for each in (body, written)]
            assert blocks[0] == blocks[1]
    assert len(kinds) > 1


@pytest.mark.parametrize(
    "schema",
    [metadata_schemas.INDEX_MANIFEST, nullable(index_schema(lambda items: items)), index_schema()],
    ids=["1.4", "0.9", "without cardinality"],
)
def test_a_record_of_fewer_vectors(schema: Schema) -> None:
    """In the form of the others, whatever writer made them."""
    vectors = [{"f0": f"data-{n}", "f1": 1 + n, "f2": 22} for n in range(3)]
    body = avro_file(schema, [index_record("i-0", _DELETIONS_VECTORS_RANGES=vectors), index_record("i-1")])
    index = read_raw_index_manifest(body, "i")
    (_, entry), (other, _) = index.rows
    entry = entry._replace(file_name="i-2", file_size=99, row_count=2, vectors=entry.vectors[1:])
    made = made_record(index, entry)
    written = write_index_manifest(index, [made, other], codec="null", made=[made])
    assert read_index_manifest(written, "i") == (entry, index.rows[1][1])
    before, after = ([dict(each) for each in fastavro.reader(io.BytesIO(data))] for data in (body, written))  # type: ignore[arg-type]
    changed = {"_FILE_NAME": "i-2", "_FILE_SIZE": 99, "_ROW_COUNT": 2}
    ranges = before[0]["_DELETIONS_VECTORS_RANGES"][1:]
    assert after == [{**before[0], **changed, "_DELETIONS_VECTORS_RANGES": ranges}, before[1]]


def test_no_record_is_made_for_a_form_with_an_unknown_field() -> None:
    index = read_raw_index_manifest(avro_file(FUTURE, [index_record("i-0") | {"_NEW": {"a": 1.0}}]), "i")
    with pytest.raises(UnsupportedFormatError, match="_NEW") as caught:
        made_record(index, index.rows[0][1])
    assert caught.value.code == "unknown_manifest_field"
