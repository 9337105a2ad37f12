"""A caller accepts exactly the loss that a plan showed, with every doubt. No success while anything is missing."""

import json
from collections.abc import Callable

import pytest

from lakesweep.errors import AccessDeniedError, StorageError
from lakesweep.runs.session import NOT_EXECUTABLE
from lakesweep.storage.store import HiddenState, delete_all
from tests.support.commit_scene import Acting
from tests.support.faulty_store import Switch
from tests.support.memory_store import MemoryStore
from tests.unit.operations.repair.repair_world import RepairWorld, manifest_of, refusal_of, repair_of, vanish

UNAWARE = {"bucket": "-1", "deletion-vectors.enabled": "true"}


def lossy(*lost: str, **table: object) -> RepairWorld:
    """Return a table with five files, each in a partition of its own, that has lost some."""
    world = RepairWorld(**table)
    world.fill("A", "B", "C", "D", "E")
    for name in lost:
        world.lose(world.table.path(name))
    return world


def test_every_reason_stands_in_one_refusal() -> None:
    """Else somebody accepts the first, and with it the ones that nobody saw."""
    world = lossy("A", "B", "C", versioned=True)
    shown = world.files(execute=False)
    doubts = repair_of(shown).doubts
    assert [len(doubts), "3 of them" in doubts[0], "most of the table" in doubts[1]] == [3, True, True]
    assert "dt=dA, dt=dB, dt=dC" in doubts[2]
    (warned,) = (each for each in shown.warnings if each.startswith(NOT_EXECUTABLE))
    refused = world.files(accept_loss=None)
    assert refused.refusal is not None and refused.refusal.code == "loss_not_accepted"
    for each in (*doubts, "3 data files with 30 rows"):
        assert each in warned and each in refused.refusal.message
    assert str(repair_of(shown).loss_id) not in warned + refused.refusal.message, "whoever sees it has seen the plan"
    assert json.loads(json.dumps(shown.to_json()))["commits"]["doubts"] == list(doubts)


def test_every_reason_of_manifests_stands_in_one_refusal() -> None:
    world = lossy(versioned=True)
    world.table.commit("-A", "+F", partition=("dF",), kind="OVERWRITE")
    vanish(world, *(manifest_of(world, f"snapshot/snapshot-{number}") for number in (2, 3, 4, 6)))
    doubts = repair_of(world.manifests(execute=False)).doubts
    message = world.manifests(accept_loss=None).refusal
    assert message is not None and len(doubts) == 3 and all(each in message.message for each in doubts)


@pytest.mark.parametrize("repair", ["files", "manifests"])
def test_no_loss_is_given_up_that_nobody_accepts(repair: str) -> None:
    world = lossy("B") if repair == "files" else lossy()
    if repair == "manifests":
        vanish(world, manifest_of(world, "snapshot/snapshot-2"))
    run = getattr(world, repair)
    before = world.bodies()
    for given in (None, "", "true", "0" * 12):
        assert refusal_of(run(accept_loss=given)) == "loss_not_accepted"
    assert world.bodies() == before
    accepted = repair_of(run(execute=False)).loss_id
    assert not any(each.startswith(NOT_EXECUTABLE) for each in run(execute=False, accept_loss=accepted).warnings)
    assert run(accept_loss=accepted).status == "done"


@pytest.mark.parametrize("repair", ["files", "manifests"])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_what_vanishes_after_the_plan_is_not_given_up(repair: str, when: str) -> None:
    """Such as by a lost mount."""
    world = lossy("B") if repair == "files" else lossy()
    more = world.table.path("C") if repair == "files" else manifest_of(world, "snapshot/snapshot-3")
    if repair == "manifests":
        vanish(world, manifest_of(world, "snapshot/snapshot-2"))
    run = getattr(world, repair)
    accepted = repair_of(run(execute=False)).loss_id

    def lose() -> None:
        vanish(world, more)
        if when == "meanwhile":
            world.table.commit("+F", partition=("dF",))

    if when == "before":
        lose()
        report = run(accept_loss=accepted)
    else:
        report = run(Acting("table list snapshot/", lose, number=3), accept_loss=accepted)
    assert (report.status, refusal_of(report)) == ("refused", "loss_not_accepted")
    assert report.refusal is not None and "another loss" in report.refusal.message
    assert world.ids()[-1] == (5 if when == "before" else 6)


def test_a_part_of_the_accepted_loss_is_accepted_in_a_later_attempt() -> None:
    world = lossy("B", "C")
    report = world.files(Acting("table list snapshot/", lambda: world.table.commit("-B", kind="OVERWRITE"), number=3))
    assert report.status == "done" and [each.partition for each in repair_of(report).files] == ["dt=dC"]
    assert world.live() == {"A", "D", "E"}


def test_the_id_names_the_loss_and_its_doubts() -> None:
    """A commit of somebody else does not change it. A file more does, and a partition of which no file is left."""
    world = RepairWorld()
    world.table.commit("+A", "+B", "+C", "+D", "+E", partition=("x",))
    world.lose(world.table.path("A"))
    first = repair_of(world.files(execute=False)).loss_id
    world.table.commit("+F", "+G", "+H", "+I", partition=("y",))
    assert repair_of(world.files(execute=False)).loss_id == first
    world.table.commit("-B", "-C", "-D", "-E", kind="OVERWRITE")
    doubtful = repair_of(world.files(execute=False)).loss_id
    assert doubtful not in (None, first)
    world.lose(world.table.path("F"))
    assert repair_of(world.files(execute=False)).loss_id not in (None, first, doubtful)


@pytest.mark.parametrize("repair", ["files", "manifests"])
def test_who_executes_may_see_other_versions_than_who_plans(repair: str) -> None:
    """A function has other rights than a person."""
    world = lossy("B", versioned=True) if repair == "files" else lossy(versioned=True)
    if repair == "manifests":
        vanish(world, manifest_of(world, "snapshot/snapshot-2"))
    run, denied = getattr(world, repair), AccessDeniedError("list versions: denied")
    accepted = repair_of(run(execute=False)).loss_id
    assert repair_of(run(Versions(denied), execute=False)).loss_id == accepted
    assert run(Versions(denied), accept_loss=accepted).status == "done"


def test_a_partition_of_which_all_files_are_lost_is_doubtful() -> None:
    """A wrong path or a lost mount looks the same, also if it is less than half of the table."""
    world = RepairWorld()
    world.table.commit("+A", "+B", partition=("x",))
    world.table.commit("+C", "+D", "+E", "+F", partition=("y",))
    world.lose(world.table.path("A"))
    assert repair_of(world.files(execute=False)).doubts == ()
    world.lose(world.table.path("B"))
    (doubt,) = repair_of(world.files(execute=False)).doubts
    assert "all files of dt=x are lost" in doubt and "lost mount" in doubt
    world.table.commit("+G", partition=("x",))
    assert repair_of(world.files(execute=False)).doubts == ()


def test_an_external_root_of_which_all_files_are_lost_is_doubtful() -> None:
    roots = {f"memory://outside/{name}": MemoryStore(f"memory://outside/{name}") for name in "xy"}
    world = RepairWorld(externals=roots, partition_keys=[])
    places = {
        f"{name}.1": f"memory://outside/{'x' if name in 'AB' else 'y'}/bucket-0/{name}.parquet" for name in "ABCDEFG"
    }
    world.table.commit(*(f"+{name}" for name in places), external=places)
    roots["memory://outside/x"].put("other", b"")
    world.lose(world.table.path("A.1"))
    assert repair_of(world.files(execute=False)).doubts == ()
    world.lose(world.table.path("B.1"))
    (doubt,) = repair_of(world.files(execute=False)).doubts
    assert "no file below memory://outside/x is there" in doubt and "lost mount" in doubt


def test_the_versions_of_external_files_count_too() -> None:
    outside = MemoryStore("memory://outside/x", versioned=True)
    world = RepairWorld(externals={outside.location: outside}, partition_keys=[])
    places = {name: f"memory://outside/x/bucket-0/{name}.parquet" for name in ("A.1", "B.1", "C.1")}
    world.table.commit(*(f"+{name}" for name in places), external=places)
    world.lose(world.table.path("A.1"))
    assert [each.is_restorable for each in repair_of(world.files(execute=False)).files] == [True]


class Versions(Switch):
    """Answers what nobody can tell from: the bucket has versions of a file, or does not let anybody look."""

    def __init__(self, answer: StorageError | None) -> None:
        super().__init__()
        self._answer = answer

    def _run(self, name: str, call: Callable[[], object]) -> object:
        if not name.startswith("table hidden "):
            return super()._run(name, call)
        if self._answer is not None:
            raise self._answer
        return [HiddenState("other")] * int(name.rpartition(" ")[2])


@pytest.mark.parametrize("answer", [None, AccessDeniedError("list versions: denied")], ids=["other", "403"])
@pytest.mark.parametrize("repair", ["files", "manifests"])
def test_a_file_that_the_bucket_may_still_have_is_doubtful(repair: str, answer: StorageError | None) -> None:
    """Somebody deleted it twice, for example."""
    world = lossy("B") if repair == "files" else lossy()
    if repair == "manifests":
        vanish(world, manifest_of(world, "snapshot/snapshot-2"))
    report = repair_of(getattr(world, repair)(Versions(answer), execute=False))
    assert not any(each.is_restorable for each in (*report.files, *report.manifests))
    assert any("may still have 1 of them" in each for each in report.doubts)


# Not everything is mended.


def index_world() -> tuple[RepairWorld, str]:
    world = RepairWorld(options=UNAWARE)
    world.table.commit("+A", "+B", partition=("d",), index={"I": {"A": [1]}})
    world.fill("C")
    return world, world.lose(world.table.path("I"))


@pytest.mark.parametrize("execute", [False, True])
@pytest.mark.parametrize("repair", ["files", "manifests"])
def test_a_missing_index_file_is_no_success(repair: str, execute: bool) -> None:
    world, path = index_world()
    report = getattr(world, repair)(execute=execute)
    assert (report.status, report.told_status, report.to_json()["status"]) == ("nothing_to_do", "damaged", "damaged")
    assert any(path in each and "restore it, or roll back" in each for each in report.warnings)
    world.lose(world.table.path("B")) if repair == "files" else vanish(world, manifest_of(world, "snapshot/snapshot-2"))
    report = getattr(world, repair)(execute=execute)
    assert (report.status, report.told_status) == ("done" if execute else "planned", "damaged")
    assert repair_of(report).index_files == (path,)


def test_a_missing_side_file_is_no_success() -> None:
    world = RepairWorld()
    world.table.commit("+A", "+B", partition=("d",), extra={"A": ["index"]})
    world.lose(world.table.path("A", "index"))
    assert {world.files().told_status, world.manifests().told_status} == {"damaged"}


def test_a_missing_data_file_is_no_success_of_the_repair_of_manifests() -> None:
    world = lossy("B")
    for execute in (False, True):
        report = world.manifests(execute=execute)
        assert (report.status, report.told_status) == ("nothing_to_do", "damaged")
        assert repair_of(report).left_files == (world.table.path("B"),)
        assert any("remove-unexisting-files" in each for each in report.warnings)
    world.table.commit("-A", "+F", partition=("dF",), kind="OVERWRITE")
    vanish(world, manifest_of(world, "snapshot/snapshot-6"), world.table.path("A"))
    report = world.manifests()
    assert (report.status, report.told_status) == ("done", "damaged")
    assert repair_of(report).left_files == (world.table.path("A"), world.table.path("B"))
    assert (world.files().told_status, world.live()) == ("done", {"C", "D", "E"})


def test_a_manifest_that_is_elsewhere_is_not_lost() -> None:
    world = lossy()
    path = manifest_of(world, "snapshot/snapshot-2")
    world.store.put(f"old/{path}", world.store.read(path).data)
    vanish(world, path)
    assert refusal_of(world.manifests()) == "misplaced_files"
    assert world.ids()[-1] == 5


def test_what_only_older_roots_have_lost_is_no_matter_of_a_repair() -> None:
    """A new snapshot would not help them."""
    world = lossy()
    world.table.tag("t", snapshot=1)
    world.table.commit("-A", kind="OVERWRITE")
    world.lose(world.table.path("A"))
    assert {world.files().told_status, world.manifests().told_status} == {"nothing_to_do"}
    world.table.branch("b", from_tag="t")
    world.branch = "b"
    assert [each.partition for each in repair_of(world.files(execute=False)).files] == ["dt=dA"]


def test_a_root_that_is_gone_after_the_listing_gives_up_nothing() -> None:
    outside = MemoryStore("memory://outside/x")
    world = RepairWorld(externals={outside.location: outside}, partition_keys=[])
    places = {name: f"memory://outside/x/bucket-0/{name}.parquet" for name in ("A.1", "B.1", "C.1")}
    world.table.commit(*(f"+{name}" for name in places), external=places)
    world.lose(world.table.path("A.1"))
    accepted = repair_of(world.files(execute=False)).loss_id

    def unmount() -> None:
        outside.delete(delete_all([each.key for each in outside.list("")]))

    report = world.files(Acting("table list snapshot/", unmount, number=3), accept_loss=accepted)
    assert (report.status, refusal_of(report)) == ("refused", "existence_unknown")
    assert world.ids() == [1]
