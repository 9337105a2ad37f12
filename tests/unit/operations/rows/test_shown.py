"""Which roots still show rows that a deletion takes out, in a table in memory."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pypaimon import CatalogFactory, Schema

from lakesweep.errors import StorageError
from lakesweep.format.vectors.vector import vector_of
from lakesweep.operations.reading.plan import plan_read
from lakesweep.operations.rows.search import Found, Match
from lakesweep.operations.rows.shown import roots_that_show
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.session import Table
from lakesweep.runs.view import begin
from lakesweep.storage.local.store import LocalStore
from tests.support.faulty_store import Switch
from tests.support.maintenance import Maintainer
from tests.support.rows_read import read_rows
from tests.support.table_builder import TICK_MS
from tests.support.world import HOUR_MS, START_MS, World

ROW_7 = "v = 'v00007'"
"""Position 7 of each file."""


def found_of(table: Table, where: str, positions: Mapping[str, tuple[int, ...] | None]) -> Found:
    """Return a search of the newest snapshot that has found these rows: path of a file -> positions, `None` for all."""
    plan = plan_read(table, Version(), where=where)
    files = {file.path: file for split in plan.splits for file in split.files}
    matches = [
        Match(files[path], 1 if rows is None else len(rows), None if rows is None else bytes(vector_of(rows, 32).blob))
        for path, rows in positions.items()
    ]
    return Found(plan, tuple(matches))


class RowsWorld(World):
    """A table with deletion vectors whose files have ten rows each: `v00000` to `v00009`."""

    def __init__(self, **table: Any) -> None:
        options = {"deletion-vectors.enabled": "true", **table.pop("options", {})}
        super().__init__(**{"real_rows": True, "options": options, **table})

    def shown(self, *symbols: str, where: str = ROW_7, positions: tuple[int, ...] | None = (7,)) -> list[str]:
        """Return who shows these rows of some files, `?` for who may show some, and until when."""
        table = self.maintainer().table
        found = found_of(table, where, {self.table.path(symbol): positions for symbol in symbols})
        self.found = roots_that_show(begin(table, "delete-rows"), found)
        return [each.roots + ("" if each.is_certain else " ?") for each in self.found]

    def has_row_7(self, version: Version) -> bool:
        return bool(read_rows(self.store, version, where=ROW_7))


def test_roots_that_list_the_file() -> None:
    world = RowsWorld()
    world.table.commit("+A")
    world.table.tag("one")
    world.table.commit("+B", index={"I": {"A": [1]}})
    world.table.tag("both")
    world.table.branch("b", from_tag="one")
    assert world.shown("A") == [
        "snapshots 1 to 2",
        "tag both",
        "tag one",
        "snapshot 1 of branch b",
        "tag one of branch b",
    ]


def test_a_file_that_came_later_is_not_shown_by_older_roots() -> None:
    world = RowsWorld(partition_keys=["dt"])
    world.table.commit("+A", partition=("1",))
    world.table.commit("+B", partition=("2",))
    assert world.shown("B", where=f"dt = '2' AND {ROW_7}") == ["snapshot 2"]
    assert world.shown("A", where=f"dt = '1' AND {ROW_7}") == ["snapshots 1 to 2"]


@pytest.mark.parametrize(
    ("deleted", "shows"),
    [([7], False), ([1, 7], False), ([1, 2], True), ([1], True), ([0, 1, 2, 3, 4, 5, 6, 7, 8], False)],
)
def test_a_vector_of_another_branch_that_deletes_the_rows(deleted: list[int], shows: bool) -> None:
    """Only the vector's own rows tell whether it deletes the matched ones."""
    world = RowsWorld()
    world.table.commit("+A")
    world.table.tag("t")
    branch = world.table.branch("b", from_tag="t")
    branch.commit("+B", index={"I": {"A": deleted}})
    branch.remove("branch/branch-b/snapshot/snapshot-1")
    branch.remove("branch/branch-b/tag/tag-t")
    found = world.shown("A")
    assert ("snapshot 2 of branch b" in found) is shows
    assert ("snapshot 2 of branch b ?" in found) is not shows, "file B may have such rows"
    assert world.shown("A", positions=(3, 7))[0] == "snapshot 1"


def test_the_same_vector_leaves_the_rows() -> None:
    """The matched rows are those that the newest snapshot's vectors have left, however many those delete."""
    world = RowsWorld()
    world.table.commit("+A", index={"I": {"A": [0, 1, 2, 3]}})
    world.table.commit("+B")
    assert world.shown("A") == ["snapshots 1 to 2"]


def test_all_rows_of_a_file() -> None:
    """A file that leaves as a whole has no positions."""
    world = RowsWorld()
    world.table.commit("+A")
    world.table.commit(index={"I": {"A": [0, 1]}})
    assert world.shown("A", where="true", positions=None) == ["snapshots 1 to 2"]


def test_rows_that_were_deleted_before() -> None:
    """They are no rows of the newest snapshot any more, and older roots may show them."""
    world = RowsWorld()
    world.table.commit("+A", "+B")
    world.table.tag("t")
    world.table.commit(index={"I": {"A": [7]}})
    world.table.commit(index={"J": {"A": [7], "B": [7]}})
    assert world.shown() == ["snapshots 1 to 2 ?", "tag t ?"]
    assert world.has_row_7(Version(snapshot_id=2)) and not world.has_row_7(Version(snapshot_id=3))


def test_copies_from_before_a_compaction() -> None:
    world = RowsWorld(partition_keys=["dt"])
    world.table.commit("+A", partition=("1",))
    world.table.commit("+B", partition=("2",))
    world.table.commit("-A", "+C", kind="COMPACT", partition=("1",))
    assert world.shown("C", where=f"dt = '1' AND {ROW_7}") == ["snapshots 1 to 2 ?", "snapshot 3"]
    assert world.shown("B", where=f"dt = '2' AND {ROW_7}") == ["snapshots 2 to 3"]
    world.table.merge_manifests()
    assert world.shown("C", where=f"dt = '1' AND {ROW_7}") == ["snapshots 1 to 2 ?", "snapshots 3 to 4"]
    assert world.shown("B", where=f"dt = '2' AND {ROW_7}") == ["snapshots 2 to 4"]


def test_files_that_were_searched_and_have_no_such_rows() -> None:
    """Also where other manifests name them for older roots than for the newest snapshot."""
    world = RowsWorld()
    world.table.commit("+A")
    world.table.commit("+B")
    world.table.merge_manifests()
    assert world.shown() == []


def test_a_changelog_that_outlives_its_snapshot() -> None:
    world = RowsWorld()
    world.table.commit("+A")
    world.table.commit("+B")
    world.table.changelog_document(1)
    world.table.remove(world.table.root(1))
    assert world.shown("A") == ["snapshot 2", "changelog 1"]
    assert world.shown("B") == ["snapshot 2"]


def test_what_cannot_be_read_may_show_them() -> None:
    world = RowsWorld(partition_keys=["dt"])
    world.table.commit("+A", partition=("1",))
    world.table.commit("+B", partition=("2",))
    world.table.tag("t", snapshot=1)
    world.table.commit("-A", kind="OVERWRITE")
    where = f"dt = '2' AND {ROW_7}"
    assert world.shown("B", where=where) == ["snapshots 2 to 3"]
    world.table.corrupt(world.table.root(1))
    assert world.shown("B", where=where) == ["snapshot 1 ?", "snapshots 2 to 3"]
    assert world.found[0].until is None
    world.table.remove(f"manifest/{world.table.document(world.table.root('t'))['deltaManifestList']}")
    assert world.shown("B", where=where) == ["snapshot 1 ?", "snapshots 2 to 3", "tag t ?"]


def test_a_request_that_fails_is_no_answer() -> None:
    """Whichever request it is."""
    world = RowsWorld()
    world.table.commit("+A")
    world.table.tag("t", ttl=timedelta(days=1))
    world.table.branch("b", from_tag="t").commit("+B", index={"I": {"A": [1, 7]}})
    world.table.commit("-A", "+C", kind="COMPACT")
    found = found_of(world.maintainer().table, ROW_7, {world.table.path("C"): (7,)})

    def look(switch: Switch) -> int:
        view = begin(world.maintainer(switch).table, "delete-rows")
        before = len(switch.calls)
        assert [each.is_certain for each in roots_that_show(view, found)] == [False, True, False, False, False]
        return before

    whole = Switch()
    for call in range(look(whole) + 1, len(whole.calls) + 1):
        with pytest.raises(StorageError, match="broken on purpose"):
            look(Switch(call))


def test_each_file_is_read_once() -> None:
    """Also manifests whose statistics are asked for in the end, and no data file."""
    world = RowsWorld()
    world.table.commit("+A", index={"I": {"A": [1]}})
    world.table.tag("t")
    world.table.branch("b", from_tag="t").commit("+B", index={"J": {"A": [1, 7]}})
    world.table.commit("-A", "+C", kind="COMPACT")
    found = found_of(world.maintainer().table, ROW_7, {world.table.path("C"): (7,)})
    switch = Switch()
    roots_that_show(begin(world.maintainer(switch).table, "delete-rows"), found)
    reads = Counter(call.removeprefix("table read ") for call in switch.calls if call.startswith("table read "))
    assert {key: count for key, count in reads.items() if key.startswith(("manifest/", "index/")) and count > 1} == {}
    assert not [key for key in reads if "/data-" in key]


def test_until_when() -> None:
    """Of snapshots that follow each other, the last one counts."""
    world = RowsWorld(options={"snapshot.num-retained.min": "1", "snapshot.time-retained": "1 d"}, start_ms=START_MS)
    for _ in range(3):
        world.table.commit("+A" if not world.ids() else f"+B{world.ids()[-1]}")
    world.table.tag("t", ttl=timedelta(days=30))
    world.table.tag("for-ever")
    world.shown("A")
    snapshots, for_ever, month = world.found
    assert (snapshots.count, snapshots.roots) == (3, "snapshots 1 to 3")
    assert snapshots.until is not None and snapshots.until.startswith("until one more snapshot is committed")
    assert for_ever.until == "until the tag is deleted: it has no time to live" and for_ever.until_ms is None
    assert month.until_ms == START_MS + 2 * TICK_MS + (30 * 24 + 26) * HOUR_MS
    assert snapshots.to_json()["is_certain"] is True


def test_statistics_rule_files_out(tmp_path: Path) -> None:
    """They are those of files that the newest snapshot has no more."""
    schema = pa.schema([("n", pa.int32()), ("s", pa.string())])
    catalog = CatalogFactory.create({"warehouse": str(tmp_path)})
    catalog.create_database("db", ignore_if_exists=True)
    made = Schema.from_pyarrow_schema(schema, options={"bucket": "-1", "metadata.stats-mode": "full"})
    catalog.create_table("db.t", made, ignore_if_exists=False)
    for numbers, texts in (([1, 2], ["a", "b"]), ([7, 9], ["c", "d"]), ([5], ["e"])):
        builder = catalog.get_table("db.t").new_batch_write_builder()
        if numbers == [5]:
            builder.overwrite({})
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(pa.table({"n": pa.array(numbers, pa.int32()), "s": texts}, schema))
        commit.commit(write.prepare_commit())
    opened = Maintainer(LocalStore(str(tmp_path / "db.db" / "t"))).table
    for where, expected in (
        ("n = 8", ["snapshot 2 ?"]),
        ("n < 3", ["snapshots 1 to 2 ?"]),
        ("n > 9", []),
        ("n IS NULL", []),
        ("s LIKE 'd%'", ["snapshot 2 ?"]),
    ):
        found = roots_that_show(begin(opened, "delete-rows"), found_of(opened, where, {}))
        assert [each.roots + ("" if each.is_certain else " ?") for each in found] == expected, where


def test_the_schemas_of_another_branch() -> None:
    """A schema of a branch may have the id of another one here. Then the columns cannot be compared."""
    world = RowsWorld(partition_keys=["dt"])
    world.table.commit("+A", partition=("1",))
    world.table.tag("t")
    branch = world.table.branch("b", from_tag="t")
    world.table.alter(types={"mine": "INT"})
    world.table.commit("-A", "+B", partition=("2",))
    branch.alter(types={"theirs": "STRING"})
    branch.commit("+C", partition=("2",))
    assert world.shown(where="dt = '2' AND mine = 5") == ["snapshot 2 of branch b ?"]
    assert world.shown(where="mine = 5") == ["snapshot 2 of branch b ?"], "A had no such column, so it was null there"
