"""Damage and odd values that a compaction meets: one clear sentence and nothing lost, or the same rows."""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.operations.writing import rewriting
from tests.support.deleting import DECLARED, DeletingTable
from tests.support.row_damage import DAMAGES, scene
from tests.support.row_world import RowWorld, compacted
from tests.support.rows_read import read_rows

UNSEEN = ("a longer index file", "another container")
"""Around vectors that are whole; a compaction copies none of them, so it is as good a cure as any."""


def refused(world: RowWorld) -> tuple[str, str]:
    """Compact where that must fail; return the code and the sentence."""
    try:
        report = world.merge()
    except MaintenanceError as error:
        assert error.exit_code != 0
        return error.code, str(error)
    assert report.status == "refused" and report.refusal is not None, report
    return report.refusal.code, report.refusal.message


@pytest.mark.parametrize("name", [name for name in DAMAGES if name not in UNSEEN])
def test_damage(name: str) -> None:
    """No file is given up, and none is left out: the run ends, and says which file it is."""
    damage, code = DAMAGES[name]
    world = scene()
    path = damage(world)
    before = world.bodies()
    found, sentence = refused(world)
    assert (found, path in sentence) == (code, True), sentence
    new = world.bodies()
    assert before.items() <= new.items()
    assert all(key.startswith("dt=") and "/data-" in key for key in new.keys() - before.keys()), "young orphans"


@pytest.mark.parametrize("name", UNSEEN)
def test_damage_around_vectors(name: str) -> None:
    world = scene()
    DAMAGES[name][0](world)
    assert world.merge().status == "done"
    assert world.rows() == [2, 3, 4, 5, 6, 8, 9, 10, 21, 22]


def run(table: DeletingTable, **arguments: Any) -> RunReport:
    given = {"catalog": DECLARED, "full": True, **arguments}
    return compact(table.table(), CompactArguments(**given), execute=True)


def keeps(table: DeletingTable, count: int, **arguments: Any) -> None:
    """See that a compaction leaves so many files, and keeps every row for both readers."""
    ours, theirs = table.rows(), table.rows_of_pypaimon()
    report = run(table, **arguments)
    assert report.status == "done", report.refusal
    assert len(table.data_files()) == count
    assert sorted(map(str, table.rows())) == sorted(map(str, ours))
    assert sorted(map(str, table.rows_of_pypaimon())) == sorted(map(str, theirs))


def test_every_row_is_deleted() -> None:
    """The partition is empty afterwards, and the commit needs no data file."""
    world = RowWorld()
    world.append(1, 2, 3)
    world.append(4, 5, 6)
    world.append(7, dt="e")
    world.merge()
    report = world.delete("id < 7")
    assert report.status == "done"
    assert world.rows() == [7]
    world.append(11, 12)
    world.append(13)
    world.foreign(deletes=())
    world.deleted("id IN (11, 12)")
    assert world.merge().status in ("done", "nothing_to_do")
    assert world.rows() == [7, 13]


def test_files_without_rows() -> None:
    """They leave the table."""
    world = RowWorld()
    world.append()
    world.append(1, 2)
    world.append(dt="e")
    world.append(dt="e")
    report = world.merge()
    assert report.status == "done", report
    assert (world.rows(), len(world.live())) == ([1, 2], 1)
    assert compacted(report).written_rows == 2


def test_a_target_that_is_smaller_than_a_row_group(tmp_path: Path) -> None:
    """Files get their size by row groups, so each group becomes a file; no endless loop, no row lost."""
    table = DeletingTable(tmp_path, {"target-file-size": "1 kb", "file.block-size": "1 mb"}, partition_keys=())
    for number in range(3):
        table.add("a", range(number * 200, number * 200 + 200))
    ids = table.ids()
    report = run(table)
    assert report.status == "nothing_to_do", "each file is larger than the target"
    table.delete("id IN (1, 201, 401)")
    assert run(table).status == "done"
    assert table.ids() == [each for each in ids if each not in (1, 201, 401)]
    assert run(table).status == "nothing_to_do"


def test_a_target_of_nothing(tmp_path: Path) -> None:
    """No file of each row."""
    table = DeletingTable(tmp_path, partition_keys=())
    table.add("a", range(10))
    table.delete("id = 1")
    report = run(table, options={"target-file-size": "0"})
    assert report.status == "done", report
    assert table.ids() == [0, *range(2, 10)]
    assert len(table.data_files()) == 1


def test_texts_of_many_megabytes(tmp_path: Path) -> None:
    """Equal ones, which a dictionary has once, and different ones."""
    columns = pa.schema([("id", pa.int64()), ("text", pa.string())])
    table = DeletingTable(tmp_path, {"target-file-size": "8 mb"}, partition_keys=(), columns=columns)
    for number in range(3):
        table.append({"id": 10 * number + each, "text": chr(97 + each) * (3 << 20)} for each in range(3))
    table.append({"id": 100 + each, "text": "x" * (3 << 20)} for each in range(3))
    before = {row["id"]: hash(row["text"]) for row in table.rows()}
    report = run(table)
    assert report.status == "done", report
    assert {row["id"]: hash(row["text"]) for row in table.rows()} == before
    assert {row["id"]: hash(row["text"]) for row in table.rows_of_pypaimon()} == before


def test_texts_larger_than_the_memory_of_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small in the file, since a dictionary has them once and they are packed, and refused before they are unpacked."""
    monkeypatch.setattr(rewriting, "MOST_COLUMN_BYTES", 2 << 20)
    columns = pa.schema([("id", pa.int64()), ("text", pa.string())])
    table = DeletingTable(tmp_path, partition_keys=(), columns=columns)
    for number in range(2):
        table.append({"id": 10 * number + each, "text": "x" * (3 << 20)} for each in range(3))
    before = table.keys()
    report = run(table)
    assert report.status == "refused" and report.refusal is not None, report
    assert report.refusal.code == "unsupported"
    expected = r"row group 0: expected at most 2097152 bytes of the column text, found \d{7}, which are too many"
    assert re.search(expected, report.refusal.message), report.refusal.message
    assert table.keys() == before


@pytest.mark.parametrize("format_", ["orc", "avro"])
def test_files_of_another_format_become_parquet(tmp_path: Path, format_: str) -> None:
    columns = pa.schema(
        [("id", pa.int64()), ("price", pa.decimal128(20, 4)), ("at", pa.timestamp("us")), ("text", pa.string())]
    )
    table = DeletingTable(tmp_path, {"file.format": format_}, partition_keys=(), columns=columns)

    def rows(first: int) -> Iterator[dict[str, Any]]:
        for each in range(first, first + 20):
            at = datetime(1900 + each, 1, 2, 3, 4, 5, 678901)
            text = None if each % 3 == 0 else f"ä{each}"
            yield {"id": each, "price": Decimal(each) / 8, "at": at, "text": text}

    for number in range(2):
        table.append(rows(20 * number))
    table.delete("id IN (3, 25)")
    _with_options(table, {"file.format": "parquet"})
    table.append(rows(40))
    keeps(table, 1)
    assert all(name.endswith(".parquet") for name in table.data_files())


def of_96_bits(*times: datetime | None) -> RowWorld:
    """Two files with these times in a column `at`, as older engines write them."""
    world = RowWorld()
    document = json.loads(world.store.read("schema/schema-0").data)
    document["fields"].append({"id": document["highestFieldId"] + 1, "name": "at", "type": "TIMESTAMP(6)"})
    document |= {"id": 1, "highestFieldId": document["highestFieldId"] + 1}
    world.store.put("schema/schema-1", json.dumps(document).encode())
    for ids in ([1, 2], [3, 4]):
        columns = {"v": ["x"] * 2, "id": ids, "dt": ["d"] * 2, "at": pa.array(times, pa.timestamp("us"))}
        target = pa.BufferOutputStream()
        parquet.write_table(pa.table(columns), target, use_deprecated_int96_timestamps=True)
        body = target.getvalue().to_pybytes()
        name = world.append(*ids)
        world.overwrite(name)
        other = name.replace("-0.parquet", "-1.parquet")
        file = replace(world.files[name], name=other, size=len(body), schema_id=1)
        world.store.put(file.path, body)
        world.files[other] = file
        world.foreign(adds=[file], schemaId=1)
    return world


def test_time_stamps_of_96_bits() -> None:
    """The new file has what Paimon writes today."""
    world = of_96_bits(datetime(2000, 2, 29, 1, 2, 3, 678901), None)
    before = read_rows(world.store)
    assert world.merge().status == "done"
    assert read_rows(world.store) == before
    (name,) = world.know()
    schema = parquet.read_schema(pa.BufferReader(world.store.read(world.files[name].path).data))
    assert schema.field("at").type == pa.timestamp("us")


@pytest.mark.parametrize("year", [1650, 1700, 2300])
def test_time_stamps_of_96_bits_that_nanoseconds_do_not_reach(year: int) -> None:
    """Nobody writes another time in place of them."""
    world = of_96_bits(datetime(year, 2, 28, 1, 2, 3, 678901), None)
    before = world.bodies()
    code, sentence = refused(world)
    assert code == ("damaged" if year == 1650 else "out_of_range")
    assert "dt=d/bucket-0/data-" in sentence
    assert world.bodies() == before


def _with_options(table: DeletingTable, options: dict[str, str], change: Callable[[Any], None] | None = None) -> None:
    """Write the next schema, with other options."""
    folder = table.folder / "db.db" / "t" / "schema"
    newest = max(int(path.name.rpartition("-")[2]) for path in folder.glob("schema-*"))
    document = json.loads((folder / f"schema-{newest}").read_text())
    document["options"] |= options
    document["id"] = newest + 1
    if change is not None:
        change(document)
    (folder / f"schema-{newest + 1}").write_text(json.dumps(document))


def test_vectors_that_are_switched_off_leave_with_their_files(tmp_path: Path) -> None:
    """Readers see the rows again, so the new file has them. Later, no vector names a file that is gone."""
    table = DeletingTable(tmp_path, partition_keys=())
    for number in range(3):
        table.add("a", range(number * 10, number * 10 + 10))
    table.delete("id IN (3, 14)")
    _with_options(table, {"deletion-vectors.enabled": "false"})
    before = table.ids()
    assert before == list(range(30))
    assert run(table).status == "done"
    assert table.ids() == before
    _with_options(table, {"deletion-vectors.enabled": "true"})
    assert (table.index_files(), table.ids()) == ((), before)


def test_a_cast_that_does_not_fit_wraps_as_readers_see_it(tmp_path: Path) -> None:
    """BIGINT became INT. A compaction keeps what readers have seen since, as Paimon does."""
    columns = pa.schema([("id", pa.int64()), ("n", pa.int64())])
    table = DeletingTable(tmp_path, partition_keys=(), columns=columns)
    for number in range(2):
        table.append({"id": 2 * number + each, "n": (1 << 32) + each} for each in range(2))

    def narrow(document: Any) -> None:
        (field,) = (each for each in document["fields"] if each["name"] == "n")
        field["type"] = "INT"

    _with_options(table, {}, narrow)
    before = sorted(map(str, table.rows()))
    report = run(table)
    assert report.status == "done", report
    assert sorted(map(str, table.rows())) == before


def test_null_in_a_column_that_may_not_be_null(tmp_path: Path) -> None:
    """Added or changed later. Readers show null, and a new file cannot have it."""
    table = DeletingTable(tmp_path, partition_keys=())
    for number in range(2):
        table.add("a", range(number * 10, number * 10 + 10))

    def strict(document: Any) -> None:
        (field,) = (each for each in document["fields"] if each["name"] == "price")
        field["type"] = "DOUBLE NOT NULL"

    _with_options(table, {}, strict)
    before = table.keys()
    report = run(table)
    assert report.status == "refused" and report.refusal is not None
    assert report.refusal.code == "null_value"
    assert "price" in report.refusal.message and "db.db/t" in report.refusal.message, report.refusal.message
    assert table.keys() == before


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    """Java writes them into texts as they are. They stay, unless a shorter type cuts them."""
    columns = pa.schema([("id", pa.int64()), ("text", pa.string())])
    table = DeletingTable(tmp_path, {"metadata.stats-mode": "none"}, partition_keys=(), columns=columns)
    bodies = [b"ok", b"\xff\xfe", b"\xe4\xb8" * 9]
    data = pa.array(bodies, pa.binary())
    for _ in range(2):
        builder = table.catalog.get_table("db.t").new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        texts = pa.Array.from_buffers(pa.string(), len(data), data.buffers())
        write.write_arrow(pa.table([pa.array(range(3), pa.int64()), texts], schema=columns))
        commit.commit(write.prepare_commit())
    _with_options(table, {"metadata.stats-mode": "truncate(16)"})
    assert run(table).status == "done"
    (name,) = table.data_files()
    body = table.store.read(f"bucket-0/{name}").data
    found = parquet.read_table(pa.BufferReader(body)).column("text").cast(pa.binary())
    assert found.to_pylist() == bodies * 2

    def shorten(document: Any) -> None:
        (field,) = (each for each in document["fields"] if each["name"] == "text")
        field["type"] = "VARCHAR(3)"

    _with_options(table, {}, shorten)
    table.append([{"id": 4, "text": "abc"}])
    with pytest.raises(MaintenanceError, match=f"{name}: expected text in the column text, found bytes that are not"):
        run(table)
