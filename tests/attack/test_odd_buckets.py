"""Buckets of tables with a primary key that are odd, or contradict themselves.

Each is refused in one sentence with a code, and nothing that was there changes; or readers see the right rows.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from lakesweep.errors import FormatError, StorageError
from tests.support.binary_row import encode_row
from tests.support.odd_tables import OddFile, OddTable

PLAIN = {"id": "BIGINT NOT NULL", "v": "STRING"}
TEXT = {"id": "STRING NOT NULL", "v": "STRING"}
NO_TEXT = encode_row(["BYTES"], (b"\xff\xfe",))
Act = Callable[[OddTable], object]


@pytest.fixture
def table(tmp_path: Path) -> OddTable:
    """Three rows on level 5."""
    made = OddTable(tmp_path, PLAIN, ["id"])
    made.file([(1, "a"), (2, "b"), (5, "e")], 5)
    return made


def marked(table: OddTable, positions: dict[str, list[int]], **record: Any) -> Path:
    return table.vectors(positions, table.live[0], **record)


def is_as_before(table: OddTable, before: dict[str, bytes]) -> bool:
    """Tell whether no snapshot came, and no file changed or went. Files that nothing names may be there."""
    now = table.named()
    return before.items() <= now.items() and not any("snapshot-" in path for path in now.keys() - before.keys())


def twice(table: OddTable, **file: Any) -> None:
    new = table.file([(2, "c")])
    table.live.append(OddFile(new.path, {**new.entry, "_FILE": {**new.entry["_FILE"], **file}}))


def of_two(table: OddTable) -> None:
    marked(table, {table.live[0].name: [0]})
    marked(table, {table.live[0].name: [1]})


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


REFUSED: dict[str, tuple[Act, str, str]] = {
    "overlapping files of a level": (
        lambda t: (t.file([(6, "a"), (9, "d")], 3), t.file([(8, "c")], 3)),
        "overlapping_files", r"level 3 .*data-0002\.parquet and bucket-0/data-0003\.parquet",
    ),
    "unsorted rows": (
        lambda t: t.file([(3, "c"), (1, "d")]),
        "unsorted_file", r"data-0002\.parquet: expected rows that ascend",
    ),
    "a key that its entry does not state": (
        lambda t: t.file([(3, "c"), (9, "d")], record={"_MAX_KEY": encode_row(["BIGINT"], (8,))}),
        "unsorted_file", r"data-0002\.parquet: expected keys between _MIN_KEY",
    ),
    "another sequence number": (
        lambda t: t.file([(3, "c"), (9, "d")], record={"_MIN_SEQUENCE_NUMBER": 1, "_MAX_SEQUENCE_NUMBER": 1}),
        "unsorted_file", "expected sequence numbers from 1 to 1",
    ),
    "no key at all": (
        lambda t: t.file([(2, "c")], record={"_MIN_KEY": b""}),
        "corrupt_keys", r"data-0002\.parquet, _MIN_KEY: expected a row of 1 fields, found 0 bytes",
    ),
    "a null key": (
        lambda t: t.file([(None, "c"), (3, "d")]),
        "unsorted_file", "expected a value of the key column id in each row",
    ),
    "an enormous key": (
        lambda t: t.file([(2, "c")], record={"_MIN_KEY": encode_row(["STRING"], ("x" * (20 << 20),))}),
        "unreadable_root", "expected a block of at most",
    ),
    "two entries of a file": (twice, "corrupt_keys", r"data-0002\.parquet: .* found it on level 0 twice"),
    "a file on two levels": (
        lambda t: twice(t, _LEVEL=3),
        "corrupt_keys", "found it on level 0 and on level 3",
    ),
    "a level below 0": (lambda t: t.file([(2, "c")], -1), "unreadable_root", "found 0, -1"),
    "several numbers of buckets": (
        lambda t: t.file([(2, "c")], entry={"_TOTAL_BUCKETS": 2}),
        "bucket_counts", r"found bucket-0/data-0001\.parquet with 1 and bucket-0/data-0002\.parquet with 2",
    ),
    "rows that wait for a bucket": (
        lambda t: t.file([(2, "c")], bucket=-2, entry={"_TOTAL_BUCKETS": -2}),
        "postpone_bucket", r"bucket-postpone/data-0002\.parquet, whose rows wait",
    ),
    "a file of another format": (
        lambda t: t.file([(2, "c")], name="data-x.orc"),
        "unsupported_file_format", r"found bucket-0/data-x\.orc",
    ),
    "a file without a format": (
        lambda t: t.file([(2, "c")], name="data-x"),
        "unsupported_file_format", "found bucket-0/data-x,",
    ),
    "an unknown schema": (
        lambda t: t.file([(2, "c")], record={"_SCHEMA_ID": 99}),
        "unreadable_schema", r"data-0002\.parquet: expected one of the schemas 0, found schema 99",
    ),
    "a part of the columns": (
        lambda t: t.file([(2, "c")], record={"_WRITE_COLS": ["id"]}),
        "data_evolution", r"data-0002\.parquet: expected all columns of a row in one data file, found id alone",
    ),
    "a name with a folder": (
        lambda t: t.file([(2, "c")], record={"_FILE_NAME": "../x.parquet"}),
        "unreadable_root", r"expected a plain file name in _FILE_NAME, found '../x\.parquet'",
    ),
    "an external file": (
        lambda t: t.file([(2, "c")], record={"_EXTERNAL_PATH": "file:///elsewhere/x.parquet"}),
        "undeclared_external_root", r"/elsewhere/x\.parquet lies outside",
    ),
    "a missing file": (lambda t: t.file([(2, "c")]).path.unlink(), "missing_data_file", r"data-0002\.parquet"),
    "a missing deeper file": (
        lambda t: (t.live[0].path.unlink(), t.file([(2, "c")])),
        "missing_data_file", r"data-0001\.parquet",
    ),
    "a missing index file": (
        lambda t: (marked(t, {t.live[0].name: [0]}).unlink(), t.file([(2, "c")])),
        "missing_index_file", "index/index-0",
    ),
    "two vectors of a file": (
        lambda t: (of_two(t), t.file([(2, "c")])),
        "corrupt_vectors", r"one deletion vector .* index/index-0 at byte 1 and one in index/index-1 at byte 1",
    ),
    "a vector that deletes a row too many": (
        lambda t: (marked(t, {t.live[0].name: [77]}), t.file([(2, "c")])),
        "corrupt_vectors", r"deleted rows below 3 of bucket-0/data-0001\.parquet, found row 77",
    ),
}  # fmt: skip


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(table: OddTable, what: str, full: bool) -> None:
    act, code, said = REFUSED[what]
    act(table)
    if what == "another sequence number":
        table.file([(3, "f"), (9, "g")])  # a file alone keeps its rows as they are
    table.commit()
    before = table.named()
    report = table.compact(full=full)
    assert report.refusal is not None
    assert (report.status, report.refusal.code, report.refusal.exit_code) == ("refused", code, 3)
    assert report.refusal.message.startswith(f"table {table.folder}")
    assert report.refusal.message.count(str(table.folder)) == 1
    assert re.search(said, report.refusal.message), report.refusal.message
    assert is_as_before(table, before)


def test_text_that_is_none(tmp_path: Path) -> None:
    table = OddTable(tmp_path, TEXT, ["id"])
    table.file([("a", "q")], record={"_MIN_KEY": NO_TEXT, "_MAX_KEY": NO_TEXT})
    table.file([("b", "r")])
    table.commit()
    refusal = table.compact().refusal
    assert refusal is not None and refusal.code == "corrupt_keys"


DAMAGED: dict[str, Act] = {
    "no sequence numbers": lambda t: t.file([(2, "c")], columns={"_SEQUENCE_NUMBER": None}),
    "a sequence number is null": lambda t: t.file(
        [(2, "c"), (3, "d")], columns={"_SEQUENCE_NUMBER": pa.array([4, None], pa.int64())}
    ),
    "sequence numbers are fractions": lambda t: t.file([(2, "c")], columns={"_SEQUENCE_NUMBER": pa.array([4.5])}),
    "no kinds": lambda t: t.file([(2, "c")], columns={"_VALUE_KIND": None}),
    "kind 7": lambda t: t.file([(2, "c", 9, 7)]),
    "kind 300": lambda t: t.file([(2, "c", 9, 0)], columns={"_VALUE_KIND": pa.array([300], pa.int32())}),
    "a kind is null": lambda t: t.file([(2, "c"), (3, "d")], columns={"_VALUE_KIND": pa.array([0, None], pa.int8())}),
    "no value column": lambda t: t.file([(2, "c")], columns={"v": None}),
    "bytes that are no text": lambda t: t.file([(2, "c")], columns={"v": pa.array([b"\xff\xfe"])}),
    "more rows than stated": lambda t: t.file([(2, "c"), (3, "d")], record={"_ROW_COUNT": 1}),
    "the bytes of another format": lambda t: t.file([(2, "c")], body=b"ORC" * 100),
}


@pytest.mark.parametrize("what", DAMAGED)
def test_damaged_files(table: OddTable, what: str) -> None:
    """The error names the table and the file."""
    DAMAGED[what](table)
    table.commit()
    before = table.named()
    with pytest.raises(FormatError, match=r"bucket-0/data-0002\.parquet: expected ") as caught:
        table.compact()
    assert str(caught.value).startswith(f"table {table.folder}, bucket-0/")
    assert (caught.value.code, caught.value.exit_code) == ("damaged", 1)
    assert is_as_before(table, before)


@pytest.mark.parametrize("is_index", [False, True])
@pytest.mark.parametrize("full", [False, True])
def test_files_that_are_cut(table: OddTable, is_index: bool, full: bool) -> None:
    path = marked(table, {table.live[0].name: [0]})
    new = table.file([(2, "c"), (7, "d")])
    table.commit()
    size = (path if is_index else new.path).stat().st_size
    for left in range(0, size, 7 if is_index else 101):
        cut(path if is_index else new.path, size)
        body = (path if is_index else new.path).read_bytes()
        cut(path if is_index else new.path, left)
        before = table.named()
        with pytest.raises((FormatError, StorageError), match=path.name if is_index else new.name):
            table.compact(full=full)
        assert is_as_before(table, before)
        (path if is_index else new.path).write_bytes(body)


@pytest.mark.parametrize("is_deep", [False, True])
def test_flipped_bits(table: OddTable, is_deep: bool) -> None:
    """Whatever byte of a data file is another one: nothing is committed, or the rows are those of the file.

    Files have no checksums, so another value may be as good as the true one; but no row comes twice, and none goes.
    """
    table.file([(2, "c"), (5, "d")])
    table.commit()
    path = table.live[0 if is_deep else 1].path
    body = path.read_bytes()
    named = table.named()
    for place in range(0, len(body), 23):
        changed = bytearray(body)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            report = table.compact()
        except (FormatError, StorageError) as error:
            assert str(table.folder) in str(error)
        else:
            assert report.status in ("done", "refused"), place
            if report.status == "done":
                assert len(table.rows(sees_level_0=False)) in (3, 4), place
        path.write_bytes(body)
        for extra in table.named().keys() - named.keys():
            (table.folder / extra).unlink()
        (table.folder / "snapshot" / "LATEST").write_bytes(b"1")


RIGHT: dict[str, Act] = {
    "a key twice in a file": lambda t: t.file([(2, "c", 10, 0), (2, "d", 11, 0), (3, "e", 12, 0)]),
    "a key twice in a file, the older row last": lambda t: t.file([(2, "c", 11, 0), (2, "d", 10, 0)]),
    "a key twice in a file alone": lambda t: t.file([(7, "c", 10, 0), (7, "d", 11, 0)]),
    "a level far beyond": lambda t: (t.file([(8, "z")], 1000), t.file([(8, "c")])),
    "fewer levels than there are": lambda t: t.file([(2, "c")]),
    "a vector of a file that is gone": lambda t: (
        marked(t, {t.live[0].name: [0], "gone.parquet": [3]}),
        t.file([(2, "c")]),
    ),
    "a vector of level 0": lambda t: t.vectors({(new := t.file([(2, "c"), (6, "d")])).name: [1]}, new),
    "two index files of a bucket": lambda t: (
        marked(t, {t.live[0].name: [0]}),
        marked(t, {t.file([(8, "h"), (9, "i")], 5).name: [1]}),
        t.file([(2, "c")]),
    ),
    "every row is deleted": lambda t: t.file([(1, None, 20, 3), (2, None, 21, 1), (5, None, 22, 3)]),
    "files without rows": lambda t: (
        t.file([], record={"_MIN_KEY": encode_row(["BIGINT"], (1,)), "_MAX_KEY": encode_row(["BIGINT"], (1,))}),
        t.file([(5, "c")]),
    ),
    "an entry that says nothing of deletes": lambda t: t.file([(1, None, 20, 3)], record={"_DELETE_ROW_COUNT": None}),
    "an entry that denies deletes": lambda t: t.file(
        [(1, None, 20, 3), (2, "c", 21, 0)], record={"_DELETE_ROW_COUNT": 0}
    ),
    "an entry that is added and deleted": lambda t: (
        t.file([(2, "c")]),
        t.live.append(OddFile(t.live[1].path, {**t.live[1].entry, "_KIND": 1})),
        t.file([(5, "d")]),
    ),
    "the smallest and the largest sequence number": lambda t: (
        t.file([(2, "c", 2**63 - 1, 0)]),
        t.file([(2, "d", -(2**63), 0)]),
    ),
    "a file without columns _KEY_": lambda t: t.file([(2, "c")], is_thin=True),
}


@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize("what", RIGHT)
def test_what_is_right(table: OddTable, what: str, full: bool) -> None:
    if what == "fewer levels than there are":
        table.options["num-levels"] = "2"
        table.schema(PLAIN)
    RIGHT[what](table)
    table.commit()
    rows, before = table.rows(), table.named()
    assert table.compact(full=full).status == "done"
    assert table.rows(sees_level_0=False) == rows
    now = table.named()
    assert {path for path in before if before[path] != now.get(path)} == {"snapshot/LATEST"}
    assert table.compact(full=full).status == "nothing_to_do"
