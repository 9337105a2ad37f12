"""Tags are deleted and renamed while anything else happens, and while any request fails.

At each storage call in turn a run breaks, or somebody else acts: after that every root reads completely. What a broken
run leaves is finished by the next one, to the same end. A tag that is renamed has one of its two names at any moment.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from lakesweep.storage.store import DeleteRequest
from tests.support.acting import Acting
from tests.support.content_store import ContentStore
from tests.support.every import EVERY
from tests.support.faulty_store import MODES, ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import assert_all_readable, read_root
from tests.support.world import World


class TaggedWorld(World):
    """A table with tags of snapshots that are gone; one tag is of a snapshot that is there."""

    def __init__(self, kind: type[MemoryStore] = MemoryStore) -> None:
        super().__init__(store=kind, partition_keys=("dt",), options={"tag.create-success-file": "true"})
        table = self.table
        table.commit("+A", "+B", partition=("d1",), statistics="s1", index={"i1": {"B": (1,)}})
        table.tag("t1", snapshot=1)
        table.commit("-A", "+C", partition=("d1",), extra={"C": ("x.index",)})
        table.tag("t2", snapshot=2)
        table.tag("same", snapshot=2)
        table.branch("b", from_tag="t1")
        table.on_branch("b").commit("+E", partition=("d3",))
        table.commit("-C", "+D", partition=("d2",), index={"i2": {"B": (1, 2)}}, statistics="s3")
        table.tag("t3", snapshot=3)
        table.merge_manifests()
        table.commit("-B", "+F", partition=("d1",), index={"i4": {}})
        table.commit("-D", "+G", partition=("d2",))
        table.tag("there", snapshot=6)
        table.commit("+H", partition=("d2",))
        assert self.maintainer().expire(retain_max=2, retain_min=2).status == "done"
        for snapshot_id in range(1, 6):
            path = f"snapshot/snapshot-{snapshot_id}"
            self.store.put(path, b"")
            table.remove(path)  # the builder forgets it
        for name in ("t1", "t2", "t3", "same", "there"):
            self.store.put(f"tag/tag-success-file/{name}_SUCCESS", b"{}")
        self.wait()

    def body(self, key: str) -> bytes | None:
        with suppress(MaintenanceError):
            return self.store.read(key).data
        return None


Operation = Callable[[Maintainer], RunReport]


def delete_some(maintainer: Maintainer) -> RunReport:
    return maintainer.run("delete-tag", tag=["t2", "same", "t3", "there"])


def delete_document(maintainer: Maintainer) -> RunReport:
    return maintainer.run("delete-tag", tag="there")


def rename(maintainer: Maintainer) -> RunReport:
    return maintainer.run("rename-tag", tag="t2", target_tag="u2")


def expire(maintainer: Maintainer) -> RunReport:
    return maintainer.run("expire-tags", pattern="t*", keep_last="1")


OPERATIONS: dict[str, Operation] = {
    "delete": delete_some,
    "delete a document": delete_document,
    "rename": rename,
    "expire": expire,
}


def check(world: TaggedWorld, operation: str) -> None:
    assert_all_readable(world.table)
    if operation == "rename":
        assert world.body("tag/tag-t2") or world.body("tag/tag-u2")


def calls_of(run: Operation) -> tuple[list[str], set[str]]:
    world, switch = TaggedWorld(), Switch()
    assert run(world.maintainer(switch)).status == "done"
    assert_all_readable(world.table)
    return switch.calls, world.keys()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_any_call_may_break(operation: str, mode: str) -> None:
    run = OPERATIONS[operation]
    calls, end = calls_of(run)
    for number in range(1, len(calls) + 1):
        world, where = TaggedWorld(), f"{mode} {number} {calls[number - 1]}"
        with suppress(ProcessDeathError, MaintenanceError):
            run(world.maintainer(Switch(number, mode)))
        check(world, operation)
        world.wait()
        report = run(world.maintainer())
        if operation == "rename":
            assert report.status in ("done", "refused"), where
            assert report.status == "done" or report.refusal, where
        else:
            assert report.status in ("done", "nothing_to_do"), where
        check(world, operation)
        assert world.keys() == end, where


@pytest.mark.parametrize("operation", ["delete", "rename", "expire"])
def test_two_runs_may_die_one_after_the_other(operation: str) -> None:
    """The second one while it finishes what the first one began."""
    run = OPERATIONS[operation]
    calls, end = calls_of(run)
    first = [number for number, call in enumerate(calls, 1) if " delete" in call or "put tag" in call]
    for at in first:
        for second in range(1, 40):
            world = TaggedWorld()
            with suppress(ProcessDeathError):
                run(world.maintainer(Switch(at, "death_after")))
            world.wait()
            switch = Switch(second, "death_after")
            with suppress(ProcessDeathError):
                run(world.maintainer(switch))
            check(world, operation)
            world.wait()
            run(world.maintainer())
            check(world, operation)
            assert world.keys() == end, (at, second)
            if len(switch.calls) < second:
                break


@dataclass
class Act:
    """Something that somebody else does all at once."""

    world: TaggedWorld

    def commit(self) -> None:
        self.world.table.commit("+N", partition=("d1",))

    def tag_the_newest(self) -> None:
        self.world.table.tag("new")

    def copy_the_tag(self) -> None:
        """As an engine makes a tag from a tag: from what it has just read."""
        if self.world.body("tag/tag-t2"):
            self.world.table.tag("copy", snapshot=2)

    def create_from_the_tag(self) -> None:
        """As this project makes one."""
        report = self.world.maintainer().run("create-tag", tag="ours", from_tag="t2")
        if report.status == "done":
            assert read_root(self.world.store, "tag/tag-ours").paths
            self.world.table.tag("ours", snapshot=2)
        else:
            assert self.world.body("tag/tag-ours") is None

    def branch_from_the_tag(self) -> None:
        if self.world.body("tag/tag-t2"):
            self.world.table.branch("late", from_tag="t2")

    def delete_the_tag(self) -> None:
        self._remove("tag/tag-t2")

    def replace_the_tag(self) -> None:
        if self.world.body("tag/tag-t2"):
            self.world.table.tag("t2")

    def take_the_new_name(self) -> None:
        if self.world.body("tag/tag-u2") is None:
            self.world.table.tag("u2")

    def roll_back(self) -> None:
        if self.world.body("snapshot/snapshot-7"):
            self.world.table.rollback(6)

    def roll_back_to_the_tag(self) -> None:
        """All later tags go; the builder counts what is not there any more as removed."""
        if self.world.body("tag/tag-t2"):
            for name in ("there", "t3"):
                if not self.world.body(f"tag/tag-{name}"):
                    self.world.store.put(f"tag/tag-{name}", b"")
            self.world.table.rollback("t2")

    def expire_snapshots(self) -> None:
        """As this project does it: the lease is held, or it is free."""
        with suppress(MaintenanceError):
            self.world.maintainer().expire()

    def expire_tags(self) -> None:
        with suppress(MaintenanceError):
            self.world.maintainer().run("expire-tags", pattern="*", keep_last="1")

    def rename_another(self) -> None:
        with suppress(MaintenanceError):
            self.world.maintainer().run("rename-tag", tag="t1", target_tag="a1")

    def _remove(self, path: str) -> None:
        self.world.store.delete([DeleteRequest(path)])


ACTS = [name for name in vars(Act) if not name.startswith("_") and name != "world"]


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("operation", ["delete", "rename", "expire"])
def test_somebody_acts_at_any_call(operation: str, act: str) -> None:
    run = OPERATIONS[operation]
    calls, _ = calls_of(run)
    for number in range(1 + ACTS.index(act) % EVERY, len(calls) + 1, EVERY):
        world = TaggedWorld()
        acting = Acting(number, getattr(Act(world), act))
        where = f"{act} before {number}: {calls[number - 1]}"
        held = world.body("tag/tag-t2")
        try:
            report = run(world.maintainer(acting))
            assert report.status in ("done", "stale", "refused", "nothing_to_do"), (where, report)
        except MaintenanceError as error:
            assert error.code not in ("internal",), where
        assert acting.has_acted, where
        assert_all_readable(world.table)
        if operation == "rename" and act not in ("delete_the_tag", "replace_the_tag", "expire_tags"):
            assert held in (world.body("tag/tag-t2"), world.body("tag/tag-u2")), where
        world.wait()
        with suppress(MaintenanceError):
            run(world.maintainer())
        assert_all_readable(world.table)
        world.wait()
        with suppress(MaintenanceError):
            world.maintainer().expire()
        assert_all_readable(world.table)


@pytest.mark.parametrize("dies", [False, True], ids=["one run", "finished by another"])
def test_a_tag_that_comes_back_with_the_same_bytes_is_a_new_one(*, dies: bool) -> None:
    """Somebody writes the document again that was just deleted, before the look that comes before the first file."""
    probe, switch = TaggedWorld(ContentStore), Switch()
    delete_some(probe.maintainer(switch))
    first_delete = next(n for n, call in enumerate(switch.calls, 1) if call.startswith("table delete"))
    look = next(
        n for n, call in enumerate(switch.calls, 1) if n > first_delete and call == "table list tag/"
    )  # the second deletion is the first of files
    world = TaggedWorld(ContentStore)  # as on S3, where the bytes decide
    body = world.store.read("tag/tag-t2").data

    def come_back() -> None:
        world.store.put("tag/tag-t2", body, if_absent=True)

    if dies:
        with suppress(ProcessDeathError):
            delete_some(world.maintainer(Switch(look, "death")))
        come_back()
        world.wait()
        world.maintainer().run("delete-tag", tag="nothing")
    else:
        delete_some(world.maintainer(Acting(look, come_back)))
        assert world.body("tag/tag-t2") == body
    assert_all_readable(world.table)
