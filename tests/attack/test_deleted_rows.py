"""Other writers at the worst moments of `delete-rows`, and of its undo."""

import io
from collections.abc import Callable

import fastavro
import pytest

from lakesweep.errors import RefusedError
from lakesweep.format.vectors.index_file import write_index_files
from lakesweep.format.vectors.vector import collect, encode, vector_of
from lakesweep.operations.rows.groups import Group
from lakesweep.operations.rows.writing import write_group
from lakesweep.storage.store import DeleteRequest
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_schema
from tests.support.faulty_store import Switch
from tests.support.live_records import document_of
from tests.support.metadata_schemas import INDEX_MANIFEST
from tests.support.row_world import RowWorld, as_latest


class Once(Switch):
    """Lets somebody act before the first request whose name has some words."""

    def __init__(self, words: str, act: Callable[[], object]) -> None:
        super().__init__()
        self._words, self._act, self.is_over = words, act, False

    def _run(self, name: str, call: Callable[[], object]) -> object:
        if not self.is_over and self._words in name:
            self.is_over = True
            self._act()
        return super()._run(name, call)


@pytest.mark.parametrize("place", range(3))
def test_a_data_file_is_compacted_and_expires_during_the_search(place: int) -> None:
    """The search is begun again, and files that it had not come to are searched."""
    world = RowWorld()
    names = [world.append(1, 2, 3), world.append(11, 2, 13), world.append(2, 22)]
    name = sorted(names)[place]

    def act() -> None:
        world.compact(name)
        world.store.delete([DeleteRequest(world.files[name].path)])

    switch = Once(name, act)
    report = world.delete("id = 2", switch)
    assert switch.is_over and report.status == "done", report
    assert world.rows() == [1, 3, 11, 13, 22]


def test_files_that_a_rollback_brings_back_are_searched() -> None:
    """They are older than the search, so they are no rows that came since."""
    world = RowWorld()
    name = world.append(2, 3)
    world.append(2, 5)
    world.overwrite(name)
    world.append(7)

    def act() -> None:
        for number in (4, 3):
            world.table.remove(f"snapshot/snapshot-{number}")
        world.store.put("snapshot/LATEST", b"2")

    switch = Once("put index/", act)
    report = world.delete("id = 2", switch)
    assert switch.is_over and report.status == "done", report
    assert world.rows() == [3, 5]


def test_files_that_a_rollback_as_latest_brings_back_are_searched() -> None:
    """Somebody commits an older version on top: what is left is as if that had come before, or after."""
    world = RowWorld()
    name = world.append(2, 3)
    world.append(2, 5)
    world.overwrite(name)
    switch = Once("put index/", lambda: as_latest(world, 2))
    report = world.delete("id = 2", switch)
    assert switch.is_over and report.status == "done", report
    assert world.rows() == [3, 5]


def test_rows_that_others_deleted_again_stay_deleted_though_vectors_only_grew() -> None:
    """A version with more deleted rows, but not those of the run, was committed again in between."""
    world = RowWorld()
    world.append(1, 2, 3, 4, 5, 6, 7)
    world.deleted("id IN (5, 6, 7)")
    as_latest(world, 1)
    run = world.deleted("id IN (1, 2)")
    as_latest(world, 2)
    world.deleted("id IN (1, 2)")
    check_stays(world, run)


@pytest.mark.parametrize("is_tagged", [False, True])
def test_a_version_with_the_same_rows_deleted_by_others_was_committed_again(is_tagged: bool) -> None:
    """It is the other deletion that hides them."""
    world = RowWorld()
    world.append(1, 2, 3, 4)
    world.deleted("id IN (1, 2)")
    if is_tagged:
        world.run("create-tag", tag="t", snapshot=2, status="done")
    as_latest(world, 1)
    run = world.deleted("id IN (1, 2)")
    as_latest(world, 2)
    if is_tagged:
        world.table.remove("snapshot/snapshot-1")
        world.table.remove("snapshot/snapshot-2")
    check_stays(world, run)


def test_vectors_of_both_widths_in_one_partition() -> None:
    """A writer gave a data file a vector of another width than the table's first one."""
    world = RowWorld()
    names = [world.append(1, 2, 3), world.append(11, 12, 13), world.append(21, 22, 23)]
    world.deleted("id = 1")
    index = document_of(world.store, world.ids()[-1])["indexManifest"]
    (row,) = world.records(index)
    (file,) = write_index_files([(names[1], vector_of([0], 64))], None)
    places = [dict(zip(("f0", "f1", "f2", "_CARDINALITY"), each, strict=True)) for each in file.ranges]
    name, size = "index-of-another-writer", len(file.body)
    row = {**row, "_FILE_NAME": name, "_FILE_SIZE": size, "_DELETIONS_VECTORS_RANGES": places}
    world.store.put(f"index/{name}", file.body)
    target = io.BytesIO()
    fastavro.writer(target, fastavro.parse_schema(INDEX_MANIFEST), [*world.records(index), row])
    world.store.put("manifest/index-manifest-of-another-writer", target.getvalue())
    world.foreign(indexManifest="index-manifest-of-another-writer")
    run = world.deleted("id IN (2, 12, 22)")
    world.deleted("id IN (3, 13)")
    assert (world.rows(), world.vectors()) == ([21, 23], {names[2]: [1]})
    report = world.undo(run)
    assert (report.status, world.rows()) == ("partial", [21, 22, 23]), report


def test_a_position_that_a_narrow_vector_cannot_have() -> None:
    world = RowWorld()
    world.append(1)
    schema = read_schema(world.store, discover(world.store).branches["main"])
    position = encode(collect([1 << 31], 64), 64)
    with pytest.raises(RefusedError, match="in a vector of 32 bits, found 2147483648; nothing is committed"):
        write_group(world.store, schema, Group(bytes(12), 0, 32, (), frozenset(), {"f": position}))


def check_stays(world: RowWorld, run: str) -> None:
    before = world.rows()
    planned = world.undo(run, execute=False)
    report = world.undo(run)
    assert (report.status, world.rows()) == ("refused", before), report
    assert report.refusal is not None and report.refusal == planned.refusal
    assert "nobody can tell whether somebody else deleted them again" in report.refusal.message
