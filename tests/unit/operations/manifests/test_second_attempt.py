"""Other writers commit while manifests are compacted: what was written is used again, or nothing of it is."""

from collections.abc import Callable
from typing import Any

import pytest

from lakesweep.model.safety import ORPHAN_AGE_MS
from tests.support.commit_scene import Acting
from tests.support.live_records import live_records
from tests.support.raw_manifests import Made, RawManifests, deleted, entry
from tests.unit.operations.manifests.manifest_world import ManifestWorld


class Raced:
    """A table of four manifests with a deleted file, and a writer that comes when everything is prepared."""

    def __init__(self) -> None:
        self.world = ManifestWorld()
        self.raw = RawManifests(self.world.store)
        parts = [Made([entry(name)]) for name in "abc"]
        self.names = self.raw.snapshot(*parts, delta=[Made([entry("d"), deleted(entry("a"))])])
        self.lease = "control put " + self.world.maintainer().table.area.prefix + "lease.json"  # type: ignore[union-attr]

    def run(self, act: Callable[[], object], at: str = "", number: int = 1, **arguments: Any) -> Acting:
        """Compact, let another act at a request, and make sure that the live files are those of the other."""
        switch = Acting(at or self.lease, act, number=number)
        self.report = self.world.compact(switch, **arguments)
        assert self.report.status == "done", self.report.refusal
        (made,) = self.world.figures(self.report).made
        assert made.snapshot_id == self.world.newest
        self.attempts = made.attempts
        self.is_reused = self.world.figures(self.report).reused_attempt
        assert live_records(self.world.store, self.world.newest) == live_records(
            self.world.store, self.world.newest - 1
        )
        return switch

    def merged(self, switch: Acting) -> int:
        """Return how many manifests were written."""
        return sum("put manifest/manifest-" in call and "manifest-list-" not in call for call in switch.calls)

    def read(self, switch: Acting, name: str) -> int:
        return switch.calls.count(f"table read manifest/{name}")


def test_an_append_on_top_stands_behind_what_was_merged() -> None:
    raced = Raced()
    new: list[str] = []
    switch = raced.run(lambda: new.extend(raced.raw.append(Made([entry("e")]))))
    assert (raced.attempts, raced.is_reused) == (2, True)
    assert [raced.read(switch, name) for name in raced.names] == [1, 1, 1, 2], "the last one has a DELETE"
    assert raced.read(switch, new[0]) == 1
    assert raced.merged(switch) == 1
    merged, newer = [each["_FILE_NAME"] for each in raced.world.listed()]
    assert newer == new[0] and merged not in raced.names
    assert raced.world.figures(raced.report).before.manifests == 5
    assert raced.world.compact().status == "done", "the new one is merged by the next call"
    assert len(raced.world.listed()) == 1


@pytest.mark.parametrize("kind", ["APPEND", "OVERWRITE", "COMPACT"])
def test_a_newer_delete_of_a_merged_file_counts(kind: str) -> None:
    raced = Raced()
    raced.run(lambda: raced.raw.append(Made([deleted(entry("b")), entry("f")]), kind=kind))
    assert (raced.attempts, raced.is_reused) == (2, True)
    assert [each["_NUM_DELETED_FILES"] for each in raced.world.listed()] == [0, 1]
    raced.world.compact()
    (line,) = raced.world.listed()
    assert (line["_NUM_ADDED_FILES"], line["_NUM_DELETED_FILES"]) == (3, 0)


def test_a_deleted_file_that_is_added_again_is_seen() -> None:
    """For Paimon it is deleted while the DELETE is there. What was merged has no DELETE, so it is not used again."""
    raced = Raced()
    switch = Acting(raced.lease, lambda: raced.raw.append(Made([entry("e")]), Made([entry("a", _ROW_COUNT=5)])))
    report = raced.world.compact(switch)
    assert report.refusal is not None and "data-a.parquet is added twice, and deleted" in report.refusal.message
    assert raced.world.ids() == [1, 2]


def test_a_compaction_of_another_is_followed_anew() -> None:
    raced = Raced()

    def other() -> None:
        raced.world.control = raced.world.new_control()
        assert raced.world.compact().status == "done"
        raced.raw.append(Made([entry("e")]))

    raced.run(other)
    assert (raced.attempts, raced.is_reused) == (2, False)
    assert len(raced.world.listed()) == 1


def test_another_that_did_all_leaves_nothing_to_do() -> None:
    raced = Raced()

    def other() -> None:
        raced.world.control = raced.world.new_control()
        assert raced.world.compact().status == "done"

    report = raced.world.compact(Acting(raced.lease, other))
    assert report.status == "nothing_to_do"
    assert raced.world.ids() == [1, 2]


def test_what_a_sent_snapshot_named_is_not_used_again() -> None:
    """A rollback may have deleted it, for all that anybody knows."""
    raced = Raced()
    switch = raced.run(lambda: raced.raw.append(Made([entry("e")])), "table put snapshot/snapshot-2")
    assert (raced.attempts, raced.is_reused) == (2, False)
    assert raced.merged(switch) == 2


def test_nothing_of_another_history_is_used_again() -> None:
    """The base is rolled back, and another snapshot has its id. Its lists may even name the same manifests."""
    raced = Raced()
    raced.raw.append(Made([entry("e")]))

    def other() -> None:
        raced.world.table.remove("snapshot/snapshot-2")
        raced.raw.append(Made([entry("f")]))

    raced.run(other)
    assert (raced.attempts, raced.is_reused) == (2, False)


def test_manifests_that_may_soon_count_as_orphans_are_not_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    raced = Raced()

    def other() -> None:
        monkeypatch.setattr("lakesweep.operations.manifests.execution.ORPHAN_AGE_MS", -10)
        raced.raw.append(Made([entry("e")]))

    raced.run(other)
    assert (raced.attempts, raced.is_reused) == (2, False)


def test_their_age_counts_from_the_first_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attempt that is young itself is not published with manifests of an old one."""
    raced = Raced()
    ages: list[int] = []

    def elapsed(watch: object) -> int:
        ages.append(len(ages))
        # The age of the first attempt: when it is published, when it is used again, and when that is published.
        return [0, 0, ORPHAN_AGE_MS][len(ages) - 1] if len(ages) <= 3 else 0

    monkeypatch.setattr("lakesweep.storage.clock.Stopwatch.elapsed_ms", elapsed)
    raced.run(lambda: raced.raw.append(Made([entry("e")])))
    assert raced.attempts == 3


def test_a_writer_that_never_pauses_does_not_starve_it() -> None:
    """One merge, however often the writer is first."""
    raced = Raced()
    left = list("efghi")

    class Busy(Acting):
        def _run(self, name: str, call: Callable[[], object]) -> object:
            if name == raced.lease and left:
                raced.raw.append(Made([entry(left.pop())]))
            return super()._run(name, call)

    switch = Busy("nothing", lambda: None)
    report = raced.world.compact(switch, options={"commit.max-retries": "30"})
    assert report.status == "done"
    (made,) = raced.world.figures(report).made
    assert made.attempts > 2 and not left
    assert raced.merged(switch) == 1
    assert live_records(raced.world.store, raced.world.newest) == live_records(
        raced.world.store, raced.world.newest - 1
    )
