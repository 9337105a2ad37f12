"""Entries of new data files, as fastavro and the readers of manifests see them."""

import io
import json
from typing import Any

import fastavro

from lakesweep.format.entry_writer import EMPTY_ROW, NewDataFile, new_entry
from lakesweep.format.row_entries import ValueStats
from tests.support.binary_row import encode_row

STATS = ValueStats(encode_row(("INT",), (1,)), encode_row(("INT",), (9,)), (None,))
LOW, HIGH = encode_row(("INT",), (1,)), encode_row(("INT",), (9,))
APPENDED = NewDataFile(
    name="data-1-0.parquet", size_bytes=7, rows=3, stats=STATS, stats_cols=("a",), schema_id=4, min_sequence=5,
    max_sequence=8, creation_time_ms=99, source=1,
)  # fmt: skip


def written(file: NewDataFile) -> Any:
    """Return what fastavro reads of a file's entry, which says its level too."""
    text, raw = new_entry(file, b"partition", 3, 4)
    assert raw.entry.level == file.level
    return fastavro.schemaless_reader(io.BytesIO(raw.record), fastavro.parse_schema(json.loads(text)), None)


def test_a_file_without_a_key() -> None:
    file = written(APPENDED)["_FILE"]
    assert (file["_LEVEL"], file["_DELETE_ROW_COUNT"]) == (0, 0)
    assert (file["_MIN_KEY"], file["_MAX_KEY"]) == (EMPTY_ROW, EMPTY_ROW) == (bytes(12), bytes(12))
    assert file["_KEY_STATS"] == {"_MIN_VALUES": EMPTY_ROW, "_MAX_VALUES": EMPTY_ROW, "_NULL_COUNTS": []}


def test_a_file_with_a_key() -> None:
    """The key, its statistics, the level and the rows that delete others differ from a file without one."""
    keyed = NewDataFile(
        name="data-1-0.parquet", size_bytes=7, rows=3, stats=STATS, stats_cols=("a",), schema_id=4, min_sequence=5,
        max_sequence=8, creation_time_ms=99, source=1, level=5, min_key=LOW, max_key=HIGH,
        key_stats=ValueStats(LOW, HIGH, (0,)), delete_rows=2,
    )  # fmt: skip
    found, plain = written(keyed), written(APPENDED)
    assert found == plain | {
        "_FILE": plain["_FILE"]
        | {
            "_LEVEL": 5,
            "_MIN_KEY": LOW,
            "_MAX_KEY": HIGH,
            "_KEY_STATS": {"_MIN_VALUES": LOW, "_MAX_VALUES": HIGH, "_NULL_COUNTS": [0]},
            "_DELETE_ROW_COUNT": 2,
        }
    }
