"""Tags are deleted, renamed and expired while others do what `test_races_of_every_kind` lets them do.

One step at a time, begun before any request. Tags of snapshots that are gone lose their files here, so whatever begins
with such a tag (another tag, a branch, a rollback to it) has to find it whole, or to fail.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from lakesweep.errors import MaintenanceError, ObjectNotFoundError
from lakesweep.model.safety import LEASE_MS
from lakesweep.storage.store import DeleteRequest
from tests.support import others as races
from tests.support.every import EVERY
from tests.support.faulty_store import Interleaved
from tests.support.maintenance import Maintainer
from tests.support.others import Act, BusyWorld
from tests.support.reader import all_roots, assert_all_readable

OPERATIONS: dict[str, dict[str, Any]] = {
    "delete-tag": {"tag": ["old", "mid", "near"]},
    "rename-tag": {"tag": "mid", "target_tag": "else"},
    "expire-tags": {"pattern": "[mno][ile][da]*", "keep_last": "1"},
}


class TagWorld(BusyWorld):
    """Snapshots 1 to 3 are gone: two tags hold what is left of them, a third one is of a snapshot that is there."""

    def __init__(self, setting: str) -> None:
        super().__init__(setting)
        self.table.tag("mid", snapshot=3)
        self.table.tag("near", snapshot=4)
        if self.branch != "main":
            self.table.tag("old", snapshot=2)
        self.expire(2)
        for gone in set(self.main.roots()) - set(all_roots(self.store)):
            self.store.put(gone, b"")
            self.main.remove(gone)
        self.now_ms += LEASE_MS


def copied_in_steps(stage: BusyWorld) -> Iterator[None]:
    """Read, a while later write: of a tag that is there when it is written, as engines look."""
    with suppress(ObjectNotFoundError):
        body = stage.store.read(f"{stage.prefix}tag/tag-mid").data
        yield
        stage.store.read(f"{stage.prefix}tag/tag-mid")
        stage.table.tag("young", snapshot=3)
        stage.store.put(f"{stage.prefix}tag/tag-young", body)
        stage.stays(f"{stage.prefix}tag/tag-young")
    yield


def created_here(stage: BusyWorld) -> Iterator[None]:
    """As this project makes a tag of a tag: it stands and is whole, or it is not there."""
    path = f"{stage.prefix}tag/tag-ours"
    maintainer = Maintainer(stage.store, stage.branch, control=stage.control, sleep=stage.sleep)
    with suppress(MaintenanceError):
        report = maintainer.run("create-tag", tag="ours", from_tag="mid")
        if report.status == "done":
            stage.stays(path)
        else:
            assert path not in all_roots(stage.store)
    yield


def rolled_back_to_a_tag(stage: BusyWorld) -> Iterator[None]:
    """The engine's order: LATEST, all later snapshots, the tags of later ones, then the snapshot of the tag."""
    path = f"{stage.prefix}tag/tag-mid"
    with suppress(ObjectNotFoundError):
        stage.store.read(path)
        stage.newest = 0
        stage.table.hint("LATEST", 3)
        yield
        for number in reversed(stage.ids()):
            stage.store.delete([DeleteRequest(stage.root(number))])
            yield
        stage.store.delete([DeleteRequest(f"{stage.prefix}tag/tag-near")])
        yield
        document = json.loads(stage.store.read(path).data)
        for field in ("changelogManifestList", "changelogManifestListSize"):
            document.pop(field, None)  # it went with the snapshot, which every reader knows to bear
        stage.store.put(stage.root(3), json.dumps(document).encode())
        stage.table.hint("EARLIEST", 3)
    yield


def renamed_elsewhere(stage: BusyWorld) -> Iterator[None]:
    path = f"{stage.prefix}tag/tag-mid"
    with suppress(ObjectNotFoundError):
        body = stage.store.read(path).data
        stage.store.put(f"{stage.prefix}tag/tag-moved", body)
        yield
        stage.store.delete([DeleteRequest(path)])
    yield


def replaced(stage: BusyWorld) -> Iterator[None]:
    """By another snapshot, then by a third one: whether it goes by its name is a matter of when the plan was made."""
    for snapshot_id in (stage.ids()[0], stage.ids()[-1]):
        stage.table.tag("mid", snapshot=snapshot_id)
        yield


ACTS: list[Act] = [
    *(act for act in races.ACTS if "consumer" not in act.__name__ and act is not races.tag_replaced),
    replaced,
    copied_in_steps,
    created_here,
    rolled_back_to_a_tag,
    renamed_elsewhere,
]


def play(operation: str, setting: str, act: Act | None, at: int, pace: int) -> tuple[TagWorld, int]:
    stage, calls = TagWorld(setting), 0

    def before(call: int) -> None:
        nonlocal calls
        calls = call
        if call == at and act is not None:
            stage.steps = _safe(act(stage))
        if call >= at and act is not None and (call - at) % max(pace, 1) == 0:
            for _ in stage.steps:
                if pace:
                    break

    with suppress(MaintenanceError):
        stage.maintainer(Interleaved(before)).run(operation, **OPERATIONS[operation])
    for _ in stage.steps:
        pass
    return stage, calls


def _safe(steps: Iterator[None]) -> Iterator[None]:
    """Go on until what the act is about is not there any more."""
    with suppress(ObjectNotFoundError, KeyError):
        yield from steps


@pytest.mark.parametrize("setting", races.SETTINGS)
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
def test_whatever_others_do_every_root_reads(act: Act, operation: str, setting: str) -> None:
    _, requests = play(operation, setting, None, 0, 0)
    stride = EVERY * (1 if setting == "plain" else 5)
    for at in range(1 + ACTS.index(act) % stride, requests + 1, stride):
        pace = (0, 1, 3)[at // stride % 3]
        where = f"{act.__name__} before request {at} of {requests}, pace {pace}"
        try:
            stage, _ = play(operation, setting, act, at, pace)
            assert_all_readable(stage.main)
            for promise in stage.promises:
                promise()
            stage.wait()
            with suppress(MaintenanceError):
                stage.maintainer().run(operation, **OPERATIONS[operation])
            assert_all_readable(stage.main)
        except (AssertionError, MaintenanceError) as error:
            raise AssertionError(f"{where}: {error}") from error
