"""What somebody who means ill, or bad luck, would try on a scan by many workers: it ends, and with the right plan."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from lakesweep.format.codec import to_json
from lakesweep.format.manifest import ManifestEntry
from lakesweep.model.scans import OrphanArguments
from lakesweep.operations.orphans.fan_out import names as names_module
from lakesweep.operations.orphans.fan_out.cache import read_index
from lakesweep.operations.orphans.fan_out.names import names_of_table
from lakesweep.operations.orphans.fan_out.tasks import ListTask, children_of, task_of
from lakesweep.operations.orphans.listing import Shard
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table
from lakesweep.storage.store import Page, delete_all
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.engines_compared import Answer, ask, differences
from tests.support.fan_out import FanOut, small_limits
from tests.support.memory_store import MemoryStore
from tests.support.orphan_scene import OrphanScene

ARGUMENTS = OrphanArguments()


def stage(**more: Any) -> tuple[OrphanScene, Table]:
    scene = OrphanScene(**more)
    return scene, replace(scene.maintainer().table, sleep=lambda _: None)


def scan_of(scene: OrphanScene, table: Table, scan_id: str = "scan-1", seed: int = 0) -> FanOut:
    def jump(by_ms: int) -> None:
        scene.now_ms += by_ms

    return FanOut(table, ARGUMENTS, Random(seed), jump=jump, scan_id=scan_id)


def local_answer(table: Table) -> Answer:
    return ask(lambda: plan_remove_orphan_files(table, ARGUMENTS), require_area(table))


def answer_of(scan: FanOut) -> Answer:
    def planned() -> Any:
        ended = scan.run()
        assert ended.plan is not None, ended.refusal
        return ended.plan

    return ask(planned, require_area(scan.table))


def until_gathered(scan: FanOut) -> None:
    """Go on until the last turn has gathered and match tasks wait."""
    while not any('"kind": "match"' in message.body for message in scan.waiting):
        assert scan.step()


def forget_scans(control: MemoryStore) -> None:
    """As the rule of the bucket does after a week. Segments stay for forty days."""
    control.delete(delete_all([entry.key for entry in control.list("scans/")]))


def test_what_a_task_cannot_read_at_all_ends_the_scan(monkeypatch: pytest.MonkeyPatch) -> None:
    """A manifest in a codec that is unknown here: the refusal is of a kind that only means a closer case of another."""
    small_limits(monkeypatch)
    scene, table = stage()
    for number in range(12):
        scene.table.commit(f"+A{number}")
    scene.age()
    name = f"manifest/{scene.table.model(scene.table.root(1)).delta[0].name}"
    body = scene.store.read(name).data
    scene.store.put(name, with_codec(body))
    local = local_answer(table)
    assert local.facts["code"] == "unsupported_codec"

    scan = scan_of(scene, table)
    ended = scan.run()

    assert ended.status == "refused"
    assert ended.refusal is not None
    assert ended.refusal["code"] == "unsupported_codec"
    assert not scan.dead


def with_codec(body: bytes) -> bytes:
    """Return a file of Avro of the same length in a codec that nobody knows."""
    for codec in (b"zstandard", b"deflate", b"snappy", b"null"):
        key = b"\x14avro.codec" + bytes([2 * len(codec)])
        if key + codec in body:
            return body.replace(key + codec, key + b"x" * len(codec))
    raise AssertionError(body[:200])


@pytest.mark.parametrize("is_gone", [True, False])
@pytest.mark.parametrize("later", [True, False])
def test_a_lost_document_ends_the_scan(is_gone: bool, later: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The document that the match goes by, or that with manifests that appeared later. Whoever waits hears of it."""
    small_limits(monkeypatch)
    scene, table = stage()
    for number in range(3):
        scene.table.commit(f"+A{number}")
    scene.orphan("a")
    scene.age()
    scan = scan_of(scene, table)
    if later:
        scan.step()
        for number in range(12):
            scene.table.commit(f"+B{number}")
        while not any("-more-" in message.body for message in scan.waiting):
            assert scan.step()
    else:
        until_gathered(scan)
    (key,) = (each.key for each in scene.control.list("scans/") if ("/more-" if later else "/match-") in each.key)
    if is_gone:
        scene.control.delete(delete_all([key]))
    else:
        scene.control.put(key, b"\0")

    ended = scan.run()

    assert ended.status == "failed"


def test_ids_of_tasks_stay_short() -> None:
    """They say where a task comes from. Where keys cannot be guessed, each task leaves the rest to one more."""
    task, ids = ListTask("list-0", Shard(0), 1), {"list-0"}
    for _ in range(1000):
        task = list(children_of(task.id, [Shard(0)] * 3))[-1]
        assert task_of(to_json(task), "task") == task
        ids.add(task.id)
    assert len(ids) == 1001


def test_names_of_a_scan_of_the_same_id_are_not_taken_for_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scan's documents are gone after a week, its segments later. Those may be of a version that knew fewer names."""
    small_limits(monkeypatch)
    scene, table = stage()
    scene.table.commit("+A")
    orphan = scene.orphan("a")
    scene.age()

    def fewer(entries: Iterator[ManifestEntry]) -> Iterator[tuple[str, int, int]]:
        for _ in entries:
            pass
        yield from ()

    with monkeypatch.context() as patch:
        patch.setattr(names_module, "named_entries", fewer)
        scan_of(scene, table, "nightly").run()
    forget_scans(scene.control)
    area = names_of_table(require_area(table))
    scene.control.delete(delete_all([area.prefix + "index.json.gz"]))  # which is of that version, too

    local = local_answer(table)
    answer = answer_of(scan_of(scene, table, "nightly"))

    assert answer.paths == {orphan}
    assert differences(local, answer) == {}


def test_a_manifest_that_a_root_names_again_is_held_against_what_lies_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment has it, no root named it when the scan began, and it is gone when a root names it again."""
    small_limits(monkeypatch, DECODE_ENTRIES=1000, DECODE_MANIFESTS=1000)
    scene, table = stage()
    for number in range(5):
        scene.table.commit(f"+A{number}")
    scene.orphan("a")
    scene.age()
    scan_of(scene, table, "first").run()
    (segment,) = read_index(names_of_table(require_area(table)))[0]
    root = scene.table.root(5)
    document = scene.store.read(root).data
    (manifest,) = (each.name for each in scene.table.model(root).delta)
    scene.drop(root)

    scan = scan_of(scene, table, "second")
    scan.step()
    scene.store.put(root, document)
    scene.drop(f"manifest/{manifest}")
    local = local_answer(table)
    answer = answer_of(scan)

    assert manifest in segment.manifests
    assert differences(local, answer) == {}
    assert answer.paths == set()


class Marked(WrappingStore):
    """Holds more markers of folders than a task lists, before the first object and behind it: pages without any."""

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Iterator[Page]:
        for page in self._store.list_range(prefix, after, until):
            yield from [()] * 5
            yield page
            yield from [()] * 5


def test_pages_in_which_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A range does not come back as what is left of it."""
    small_limits(monkeypatch)
    scene, table = stage()
    for number in range(4):
        scene.table.commit(f"+A{number}")
    orphan = scene.orphan("a")
    scene.age()
    scan = scan_of(scene, table)
    scan.wrap = lambda store, name: store if name == "control" else Marked(store)

    assert answer_of(scan).paths == {orphan}


def test_of_segments_of_like_names_the_damaged_one_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else each later scan would fail at it, as long as it lies there."""
    small_limits(monkeypatch, DECODE_ENTRIES=1, DECODE_MANIFESTS=1, MANY_SMALL=1000)
    scene, table = stage()
    for number in range(24):
        scene.table.commit(f"+A{number}", *([f"+B{number}"] * (number % 2)))
    orphan = scene.orphan("a")
    scene.age()
    scan_of(scene, table, "first").run()
    area = names_of_table(require_area(table))
    rows = {segment.name: segment.rows for segment in read_index(area)[0]}
    damaged = next(one for one in rows for other in rows if one.startswith(other) and rows[one] > rows[other])
    data = area.read(damaged).data
    area.put(damaged, data[:-1] + bytes([data[-1] ^ 1]))

    assert scan_of(scene, table, "second").run().status == "failed"
    assert answer_of(scan_of(scene, table, "third")).paths == {orphan}
