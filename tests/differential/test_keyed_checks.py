"""The checks of tables with primary keys, put to the test: each thing that may be wrong is made wrong, and noticed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.differential.engine import RETAIN_EVERYTHING, Engine
from tests.differential.metadata_edit import Record, change_entries, newest_snapshot
from tests.support.keyed_checks import check, problems
from tests.support.keyed_files import KeyedSnapshot

pytestmark = pytest.mark.differential

OPTIONS = {
    **RETAIN_EVERYTHING, "bucket": "1", "write-only": "true", "deletion-vectors.enabled": "true",
    "compaction.size-ratio": "0",
}  # fmt: skip
COLUMNS = [["k", "INT"], ["v", "STRING"]]


@pytest.fixture(scope="module")
def whole(engine: Engine) -> Path:
    """A table with files on levels 0, 4 and 5, and vectors."""
    engine("typed_create", table="keyed.whole", columns=COLUMNS, primary_keys=["k"], options=OPTIONS)

    def put(first: int, last: int, kinds: int = 0) -> None:
        rows = [[key, f"v{key:03}"] for key in range(first, last)]
        engine("typed_put", table="keyed.whole", rows=rows, kinds=[kinds] * len(rows))

    put(0, 900)
    engine("compact", table="keyed.whole")
    put(3, 6)
    put(7, 8, kinds=3)
    engine("compact", table="keyed.whole", minor=True)
    put(20, 22)
    location = engine.location("keyed.whole")
    assert [file.level for file in check(location).files] == [0, 4, 5]
    return location


def of_entries(change: Callable[[Record], object]) -> Callable[[Path], object]:
    """Change the `_FILE` of each entry."""
    return lambda location: change_entries(location, lambda entry: change(entry["_FILE"]), None)


def moved(levels: Mapping[int, int]) -> Callable[[Path], object]:
    return of_entries(lambda file: file.update(_LEVEL=levels.get(file["_LEVEL"], file["_LEVEL"])))


def more(name: str, by: int = 1) -> Callable[[Path], object]:
    return of_entries(lambda file: file.update({name: file[name] + by}))


def other_end(stats: str) -> Callable[[Path], object]:
    return of_entries(lambda file: file[stats].update(_MIN_VALUES=file[stats]["_MAX_VALUES"]))


def of_document(**change: Any) -> Callable[[Path], object]:
    def changed(location: Path) -> None:
        path = newest_snapshot(location)
        path.write_text(json.dumps({**json.loads(path.read_text()), **change}))

    return changed


def of_rows(change: Callable[[pa.Table], pa.Table], level: int) -> Callable[[Path], object]:
    """Write the files of a level with other rows."""

    def changed(location: Path) -> None:
        for file in KeyedSnapshot(location).files:
            if file.level == level:
                stored = pyarrow.parquet.ParquetFile(file.path).read()
                pyarrow.parquet.write_table(change(stored), file.path)

    return changed


def of_index(change: Callable[[Record], object]) -> Callable[[Path], object]:
    """Change the records of the index manifest."""

    def changed(location: Path) -> None:
        path = location / "manifest" / json.loads(newest_snapshot(location).read_text())["indexManifest"]
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            records: list[Any] = list(reader)
        for record in records:
            change(record)
        with path.open("wb") as file:
            fastavro.writer(file, reader.writer_schema, records, codec=reader.codec)

    return changed


def _deleting(stored: pa.Table) -> pa.Table:
    at = stored.column_names.index("_VALUE_KIND")
    return stored.set_column(at, stored.schema.field(at), pa.array([3] * stored.num_rows, pa.int8()))


def _other_key(stored: pa.Table) -> pa.Table:
    at = stored.column_names.index("_KEY_k")
    return stored.set_column(at, stored.schema.field(at), pa.array(range(100, 100 + stored.num_rows), pa.int32()))


def _no_file(record: Record) -> None:
    record["_DELETIONS_VECTORS_RANGES"][0]["f0"] = "data-gone.parquet"


def _second_bucket(location: Path) -> None:
    """Let a copy of the deepest file lie in another bucket, too."""
    (file,) = (each for each in KeyedSnapshot(location).files if each.level == 0)
    (deep,) = (each for each in KeyedSnapshot(location).files if each.level == 5)
    shutil.copytree(location / "bucket-0", location / "bucket-1")
    shutil.copy(deep.path, location / "bucket-1" / file.name)
    change_entries(location, lambda entry: entry.update(_BUCKET=int(entry["_FILE"]["_LEVEL"] == 0)), None)


HARMS: Mapping[str, tuple[Callable[[Path], object], str]] = {
    "no vectors": (of_document(indexManifest=None), "I1: key (3,) has 2 visible rows, on the levels [4, 5]"),
    "a deleting row": (of_rows(_deleting, 4), "I1: key (3,) has a visible row that deletes"),
    "one level": (moved({4: 5}), "overlap on level 5"),
    "swapped levels": (moved({4: 5, 5: 4}), "I3: key (3,) has 900 on level 5 below 3 on level 4"),
    "old rows on level 0": (moved({5: 0}), "I3: key (3,) has 900 on level 4 below 3 on level 0"),
    "the order": (of_rows(lambda stored: stored.take(list(range(stored.num_rows))[::-1]), 5), "keys out of order"),
    "a key twice": (of_rows(lambda stored: stored.take([0, 0, 1]), 4), "keys out of order, or twice"),
    "no rows": (of_rows(lambda stored: stored.slice(0, 0), 0), "no rows"),
    "the bytes": (more("_FILE_SIZE"), "_FILE_SIZE"),
    "the rows": (more("_ROW_COUNT"), "_ROW_COUNT"),
    "the first sequence number": (more("_MIN_SEQUENCE_NUMBER"), "_MIN_SEQUENCE_NUMBER"),
    "the last sequence number": (more("_MAX_SEQUENCE_NUMBER", -1), "_MAX_SEQUENCE_NUMBER"),
    "the deletes": (more("_DELETE_ROW_COUNT"), "_DELETE_ROW_COUNT is 1, expected 0"),
    "the smallest key": (of_entries(lambda file: file.update(_MIN_KEY=file["_MAX_KEY"])), "_MIN_KEY"),
    "the largest key": (of_entries(lambda file: file.update(_MAX_KEY=file["_MIN_KEY"])), "_MAX_KEY"),
    "statistics of keys": (other_end("_KEY_STATS"), "_KEY_STATS k: "),
    "statistics of values": (other_end("_VALUE_STATS"), "_VALUE_STATS v: starts at v899"),
    "nulls": (of_entries(lambda file: file["_VALUE_STATS"].update(_NULL_COUNTS=[1, 0])), "_VALUE_STATS k: 1 nulls"),
    "a vector of no file": (of_index(_no_file), "a vector of data-gone.parquet, which is not live"),
    "a row that is not there": (of_rows(lambda stored: stored.slice(0, 5), 5), "marks row 7 of 5"),
    "all rows": (of_document(totalRecordCount=7), "totalRecordCount is 7, expected 905"),
    "the rows of the commit": (of_document(deltaRecordCount=7), "deltaRecordCount is 7, expected 2"),
    "two buckets": (_second_bucket, "key (0,): in buckets [0, 1]"),
}


@pytest.mark.parametrize("harm", HARMS)
def test_harm_is_noticed(whole: Path, tmp_path: Path, harm: str) -> None:
    act, words = HARMS[harm]
    location = tmp_path / "table"
    shutil.copytree(whole, location)
    act(location)
    found = problems(KeyedSnapshot(location))
    assert any(words in each for each in found), found


def test_two_keys_of_a_row(whole: Path, tmp_path: Path) -> None:
    """A row says its key twice; nobody can tell which one is right."""
    location = tmp_path / "table"
    shutil.copytree(whole, location)
    of_rows(_other_key, 4)(location)
    with pytest.raises(AssertionError, match="two keys of a row"):
        KeyedSnapshot(location)


def test_an_index_file_that_is_gone(whole: Path, tmp_path: Path) -> None:
    location = tmp_path / "table"
    shutil.copytree(whole, location)
    for path in (location / "index").iterdir():
        path.unlink()
    with pytest.raises(FileNotFoundError):
        KeyedSnapshot(location).vectors  # noqa: B018
