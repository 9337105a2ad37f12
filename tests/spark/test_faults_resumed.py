"""A scan that ends at any request and goes on by its id: each time one correct plan. On a stand-in for Spark.

Every request of the driver and of executors is broken in turn. What a broken attempt left must neither be trusted too
much nor be in the way: neither when nothing else happened, nor when writers went on in between.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from lakesweep.errors import StorageError
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table
from lakesweep.spark.scan import scans_of
from tests.support.engines_compared import Answer, ask, differences
from tests.support.orphan_scene import FOLDER, OrphanScene, unique
from tests.support.paged_store import PagedStore
from tests.support.random_scene import OUTSIDE
from tests.support.sampling import is_sampled
from tests.support.spark_stand_in import stand_in_plan
from tests.support.walk import referenced_names

ARGUMENTS = OrphanArguments(owned_external=(OUTSIDE,))


def make_scene() -> OrphanScene:
    """A table in which every stage has something to do."""
    scene = OrphanScene(external=OUTSIDE)
    table = scene.table
    table.commit("+A", "+B", extra={"A": ["index"]}, changelog=["+L"])
    table.tag("t")
    table.branch("b", from_tag="t").commit("+X")
    table.commit("-A", "+C", index={"i": b"\0\0\0\1"})
    for number in range(12):
        scene.orphan(f"o{number}", folder=f"dt=v/bucket-{number}/")
    scene.orphan("row", "-0.parquet.row")
    scene.put(f"{table.path('B')}-3.index")
    scene.put(f"{FOLDER}index-{unique('beside data')}-9")
    scene.drop(table.path("L"))
    assert scene.external is not None
    scene.external.put(f"dt=v/bucket-0/{table.path('B').rpartition('/')[2]}", b"named like a live file")
    scene.age()
    return scene


class Broken:
    """Plans of a scene whose stores fail at one request."""

    def __init__(self, scene: OrphanScene, patch: pytest.MonkeyPatch) -> None:
        self.scene = scene
        self._patch = patch
        self.calls = 0

    def table(self, at: int = 0) -> Table:
        self.calls = 0

        def before(name: str) -> None:
            self.calls += 1
            if self.calls == at:
                raise StorageError(f"{name}: broken on purpose", code="broken")

        scene = self.scene
        made = scene.maintainer(PagedStore(scene.store, before, 5), PagedStore(scene.control, before, 5)).table
        return replace(made, sleep=lambda _: None)

    def scan(self, scan_id: str, at: int = 0) -> Answer:
        table = self.table(at)
        return ask(
            lambda: stand_in_plan(self._patch, table, ARGUMENTS, scan_id), require_area(self.scene.maintainer().table)
        )

    def local(self) -> Answer:
        table = self.table()
        return ask(lambda: plan_remove_orphan_files(table, ARGUMENTS), require_area(table))


def nothing(scene: OrphanScene) -> None:
    """Nothing happens."""


def commits(scene: OrphanScene) -> None:
    """A commit names a file that looked like an orphan, and its snapshot is the newest."""
    scene.table.commit("+A", "+D", extra={"D": ["index"]})


def commits_an_orphan(scene: OrphanScene) -> None:
    """A commit that took days: it names files that were written long ago."""
    name = next(key for key in sorted(scene.listed()) if key.startswith("dt=v/bucket-3/"))
    scene.table.commit(f"+{name.rpartition('/')[2]}")
    assert name.rpartition("/")[2] in referenced_names(scene.store)


def expires(scene: OrphanScene) -> None:
    """Snapshot 1 goes, and the files that it alone needed."""
    table = scene.table
    before = table.referenced("snapshot/snapshot-1") | table.referenced("tag/tag-t")
    table.remove("snapshot/snapshot-1")
    table.remove("tag/tag-t")
    left = set().union(*(table.referenced(root) for root in table.roots()))
    scene.drop(*sorted(path for path in before - left if path in scene.listed()))


def changes_the_schema(scene: OrphanScene) -> None:
    """Classes of objects are others now: index files lie beside data files."""
    scene.table.alter(options={"index-file-in-data-file-dir": "true"})


@pytest.mark.parametrize("meanwhile", [nothing, commits, commits_an_orphan, expires, changes_the_schema])
def test_a_scan_that_ends_at_any_request_goes_on(
    meanwhile: Callable[[OrphanScene], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = Broken(make_scene(), monkeypatch)
    whole = broken.scan("whole")
    assert whole.plan is not None, whole.error
    assert differences(broken.local(), whole) == {}
    broken.scan("counted")
    requests = broken.calls
    assert requests > 60
    step = 1 if meanwhile is nothing and not is_sampled() else 3
    for at in range(1, requests + 1, step):
        if meanwhile is not nothing:
            broken = Broken(make_scene(), monkeypatch)
        scene = broken.scene
        ended = broken.scan(f"s{at}", at)
        assert ended.facts.get("code", "broken") == "broken", at
        before = scene.listed()
        meanwhile(scene)
        scene.now_ms += 1000
        answer = broken.scan(f"s{at}")

        assert answer.plan is not None, (at, answer.error)
        needed = referenced_names(scene.store)
        assert not {path for path in answer.paths if path.rpartition("/")[2] in needed}, at
        if meanwhile is nothing and ended.plan is None:
            facts = {name: found for name, found in answer.facts.items() if name != "policy"}
            assert facts == {name: found for name, found in whole.facts.items() if name != "policy"}, at
        elif meanwhile is changes_the_schema:
            assert answer.paths == broken.local().paths > whole.paths, at
        else:
            assert answer.paths <= whole.paths | (scene.listed() - before) | broken.local().paths, at


def test_what_nobody_accepted_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of attempts that died lie beside those that count, under names of their own."""
    broken = Broken(make_scene(), monkeypatch)
    whole = broken.scan("s")
    area = scans_of(require_area(broken.table()))
    parts = [name for name in area.names("s/") if name.endswith(".parquet")]
    assert parts
    for name in parts:
        area.put(name.replace("-", "-0000"), b"left by an attempt that died")
    area.put("s/live-00000000.parquet", b"")
    again = broken.scan("s")
    assert differences(again, whole) == {}
