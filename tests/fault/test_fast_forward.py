"""Fast-forward among deaths, other writers and expiry: main reads at every request, and nobody loses anything."""

from collections.abc import Callable

import pytest

from tests.support.acting import Acting
from tests.support.every import EVERY
from tests.support.fast_forwards import (
    HOUR_MS,
    IN_PLACE,
    LATEST,
    SCENES,
    Commit,
    ForwardWorld,
    after_planning,
    calls,
    documents,
    writes,
)
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import Maintainer
from tests.support.reader import read_all
from tests.support.table_builder import TableBuilder


@pytest.mark.parametrize("scene", SCENES)
def test_it_ends_as_the_engine_does(scene: str) -> None:
    world = ForwardWorld(scene)
    report = world.forward()
    assert report.status == "done", report
    assert world.now() == world.expected()
    assert int(world.store.read(LATEST).data) == max(
        int(path.rpartition("-")[2]) for path in world.expected() if path.startswith("snapshot/snapshot-")
    )
    world.onlooker.look()
    assert world.forward().status == "nothing_to_do"


@pytest.mark.parametrize("scene", SCENES)
def test_a_run_that_dies_anywhere_is_finished_by_the_next(scene: str) -> None:
    for at in writes(scene)[::EVERY]:
        world = ForwardWorld(scene)
        with pytest.raises(ProcessDeathError):
            world.forward(Switch(at, "death"))
        world.onlooker.look()
        world.now_ms += HOUR_MS
        report = world.forward()
        assert report.status in ("done", "nothing_to_do"), (at, report)
        assert world.now() == world.expected(), at


RACED = (
    *("diverged", "tagged", "altered", "altered_once", "expired_base", "far_ahead_altered", "behind", "holes"),
    *("rebuilt_shorter", "rebuilt_altered"),
)
"""Scenes of which each has something that the others do not."""


def before_the_first(made: list[str]) -> range:
    """Return the numbers of the requests between the first look at the snapshots and the first one that is written."""
    lease = next(number for number in after_planning(made) if made[number - 1].endswith("lease.json"))
    looked = made.index("table list snapshot/", lease) + 1
    return range(looked + 1, next(n for n in range(looked, len(made)) if "put snapshot/snapshot-" in made[n]) + 2)


@pytest.mark.parametrize("scene", RACED)
def test_a_commit_at_any_request_is_kept_with_what_it_stands_on(scene: str) -> None:
    """Either the move is done below it, or the history that it was made on is there again."""
    made = calls(scene)
    for at in after_planning(made)[::EVERY]:
        world = ForwardWorld(scene)
        commit = Commit(world.store)
        report = world.forward(Acting(at, commit))
        now = documents(world.store)
        about = (at, made[at - 1], report.status, report.refusal)
        assert now.get(commit.path) == commit.body, about
        is_too_late = scene in IN_PLACE and at == before_the_first(made)[-1]
        assert is_too_late or now.get(commit.on[0]) == commit.on[1], about
        is_seen = at <= len(made) - made[::-1].index("table list snapshot/")
        is_said = any(f"{commit.path.rpartition('-')[2]} was committed meanwhile" in each for each in report.warnings)
        assert report.status == "stale" or is_said == is_seen, about
        assert now.get(commit.schema[0]) == commit.schema[1], about
        read_all(world.store)
        newest = max(int(path.rpartition("-")[2]) for path in now if path.startswith("snapshot/snapshot-"))
        assert commit.path == f"snapshot/snapshot-{newest}", about


def test_a_snapshot_that_came_in_below_goes_again_with_its_schema() -> None:
    """A commit on main's own newest snapshot does not stand on what was written below that."""
    made = calls("far_ahead_altered")
    for at in before_the_first(made):
        world = ForwardWorld("far_ahead_altered")
        commit = Commit(world.store)
        assert world.forward(Acting(at, commit)).status == "stale"
        now = documents(world.store)
        assert "snapshot/snapshot-7" not in now
        used = dict([commit.schema])
        assert now == {**world.before, commit.path: commit.body, LATEST: now[LATEST], **used}


def test_a_commit_under_a_schema_that_is_about_to_change_is_kept_with_it() -> None:
    """Both have altered the table, each in its own way; whoever commits meanwhile began before."""
    made = calls("altered_alike")
    changed = made.index("table put schema/schema-1") + 1
    for at in (changed - 1, changed):
        world = ForwardWorld("altered_alike")
        commit = Commit(world.store)
        assert world.forward(Acting(at, commit)).status == "stale"
        now = documents(world.store)
        assert now[commit.path] == commit.body
        assert now["schema/schema-1"] == world.before["schema/schema-1"] == commit.schema[1]


def test_a_schema_that_a_commit_needs_is_there_all_the_time() -> None:
    """Somebody commits under main's newest schema, on top of what has come: it does not even go for a while."""
    made = calls("altered")
    first = made.index("table put snapshot/snapshot-6") + 2
    world = ForwardWorld("altered")

    class Watching(Acting):
        def _run(self, name: str, call: Callable[[], object]) -> object:
            found = super()._run(name, call)
            if len(self.calls) >= first:
                assert world.table.exists("schema/schema-2"), name
            return found

    commit = Commit(world.store)
    report = world.forward(Watching(first, commit))
    assert (report.status, commit.path, commit.schema[0]) == ("done", "snapshot/snapshot-7", "schema/schema-2")
    assert "snapshot 7 was committed meanwhile" in " ".join(report.warnings)
    assert world.table.exists(commit.path)


@pytest.mark.parametrize("scene", IN_PLACE)
def test_a_commit_before_the_newest_snapshot_is_replaced(scene: str) -> None:
    """It is looked for once more right before, so one that comes a request earlier is seen."""
    for at in before_the_first(calls(scene))[:-1]:
        world = ForwardWorld(scene)
        commit = Commit(world.store)
        assert world.forward(Acting(at, commit)).status == "stale", at
        now = documents(world.store)
        assert now[commit.path] == commit.body
        assert now[commit.on[0]] == commit.on[1]


@pytest.mark.parametrize("scene", SCENES)
@pytest.mark.parametrize("first", ["main", "b"])
def test_expiry_of_either_side_keeps_what_the_other_has(scene: str, first: str) -> None:
    """All but the newest snapshot goes, tags too, of the one and then of the other."""
    world = ForwardWorld(scene)
    assert world.forward().status == "done"
    for branch in (first, "b" if first == "main" else "main"):
        maintainer = Maintainer(world.store, branch, control=world.control)
        report = maintainer.expire()
        assert report.status in ("done", "nothing_to_do"), report
        read_all(world.store)
        folder = "" if branch == "main" else "branch/branch-b/"
        tags = [entry.key.removeprefix(f"{folder}tag/tag-") for entry in world.store.list(f"{folder}tag/")]
        if tags:
            report = maintainer.run("delete-tag", tag=tags)
            assert report.status == "done", report
        read_all(world.store)


def test_an_engine_that_expires_the_branch_meanwhile() -> None:
    """It asks the branch alone, and takes what main is about to have: what was done is taken back."""
    made = calls("far_ahead")
    last = max(number for number, name in enumerate(made, 1) if "table put snapshot/snapshot-" in name)
    for at in range(after_planning(made)[0], last + 1, EVERY):
        world = ForwardWorld("far_ahead")

        def expire(table: TableBuilder = world.table) -> None:
            table.remove("B6")
            for i in (5, 6):
                table.remove(table.on_branch("b").root(i))

        assert world.forward(Acting(at, expire)).status == "stale", made[at - 1]
        read_all(world.store)
        now = documents(world.store)
        assert {path: now.get(path) for path in world.before if path.startswith(("snapshot/", "tag/"))} == {
            path: body for path, body in world.before.items() if path.startswith(("snapshot/", "tag/"))
        }
