"""Ledgers that lost rows or were edited: `undo` restores all or refuses, and takes nothing that is not replaced."""

import json
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import pytest

from lakesweep.api.stored import list_runs
from lakesweep.control.chain import HEAD, hash_of_part, is_object_row
from lakesweep.control.ndjson import pack, unpack
from lakesweep.operations.undo.undo import undo
from lakesweep.storage.store import Store, UndeleteRequest, UndeleteResult, delete_all
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.e2e.undo_lake import PREFIX, Lake
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots, read_all
from tests.support.s3_server import fresh_bucket, moto_client, seed_moto, versioned_bucket
from tests.support.table_builder import TableBuilder
from tests.support.world import HOUR_MS, World

Row = dict[str, Any]
Edit = Callable[[Row], list[Row]]
CHANGELOGS = {"changelog-producer": "input", "changelog.time-retained": "100000 d"}
CHANGELOGS |= {"changelog.num-retained.min": "10", "changelog.num-retained.max": "20"}


class ExpiredWorld(World):
    """A small table in a versioned store, and a run that expired it."""

    def __init__(self, *, changelogs: bool = False, commits: int = 3) -> None:
        super().__init__(versioned=True)
        self.table = fill(self.store, changelogs=changelogs, commits=commits)
        self.now_ms += HOUR_MS
        self.before = self.bodies()
        self.lied_about = str(self.expire().run_id)
        self.after = self.bodies()
        self.now_ms += 1000

    def parts(self) -> list[str]:
        return ledger_parts(self.control, self.lied_about)

    def undone(self, *, execute: bool = True) -> tuple[str, str | None, str]:
        """Return status, code and words."""
        report = self.undo(self.lied_about, execute=execute)
        said = " ".join((report.refusal.message if report.refusal else "", *report.warnings))
        return report.status, report.refusal.code if report.refusal else None, said

    def assert_nothing_lost(self, where: object = "") -> None:
        """Everything that was there is there, but for changelogs whose snapshots are back, and hints."""
        now = self.bodies()
        for path in self.after.keys() - now.keys():
            if path.startswith("changelog/changelog-"):
                assert path.replace("changelog", "snapshot") in now, (where, path)
            else:
                assert path.startswith("changelog/") and path.rpartition("/")[2] in ("EARLIEST", "LATEST"), (
                    where,
                    path,
                )

    def assert_refused(self, code: str = "unknown_result") -> None:
        before = self.bodies()
        for execute in (False, True, True):
            status, found, said = self.undone(execute=execute)
            assert (status, found) == ("refused", code), said
            assert code != "unknown_result" or "lakesweep audit verify" in said
        assert self.bodies() == before


def fill(store: Store, *, changelogs: bool, commits: int) -> TableBuilder:
    options = CHANGELOGS if changelogs else {}
    table = TableBuilder(store, options=options, primary_keys=("k",))  # type: ignore[arg-type]
    for number in range(commits):
        gone = [f"-A{number - 1}"] if number else []
        table.commit(f"+A{number}", *gone, changelog=[f"+L{number}"] if changelogs else [])
    table.hint("EARLIEST", 1)
    table.hint("LATEST", commits)
    return table


def ledger_parts(control: Store, run_id: str) -> list[str]:
    return [entry.key for entry in control.list("") if "/ledger/" in entry.key and f"/{run_id}/" in entry.key]


def forge(world: ExpiredWorld, edit: Edit, *, anew: bool) -> None:
    """Edit the rows of a ledger; with `anew` the chain and the report say what somebody wants them to."""
    previous = ""
    deleted = 0
    for name in world.parts():
        head, *rows = unpack(world.control.read(name).data, name)
        begins = head[HEAD]
        assert isinstance(begins, dict)
        if anew and previous:
            begins["previous"] = previous
        edited = [new for row in rows for new in (edit(dict(row)) if is_object_row(row) else [row])]
        deleted += sum(row.get("result") == "deleted" for row in edited)
        data = pack([head, *edited])
        previous = hash_of_part(data)
        world.control.put(name, data)
    if anew:
        (name,) = [e.key for e in world.control.list("") if e.key.endswith(f"reports/{world.lied_about}.json")]
        report = json.loads(world.control.read(name).data)
        report["ledger"]["head"] = previous
        report["report"]["outcome"]["deleted"] = deleted
        world.control.put(name, json.dumps(report).encode())


def of_kinds(*kinds: str) -> Callable[[Row], bool]:
    return lambda row: row["kind"] in kinds


def drop(chosen: Callable[[Row], bool]) -> Edit:
    return lambda row: [] if chosen(row) else [row]


@pytest.mark.parametrize("changelogs", [False, True])
def test_an_honest_ledger_is_believed(changelogs: bool) -> None:
    world = ExpiredWorld(changelogs=changelogs)
    assert world.undone()[0] == "done"
    now = world.bodies()
    assert now.keys() == world.before.keys()
    assert world.undone()[0] == "nothing_to_do"


@pytest.mark.parametrize("changelogs", [False, True])
@pytest.mark.parametrize("lost", [0, 1, None])
def test_a_lost_part_is_no_undo(lost: int | None, changelogs: bool) -> None:
    """A lifecycle rule took a part, or all of them."""
    world = ExpiredWorld(changelogs=changelogs)
    parts = world.parts()
    assert len(parts) == 2
    world.control.delete(delete_all(parts if lost is None else [parts[lost]]))
    world.assert_refused()
    (row,) = [row for row in list_runs(world.maintainer().table, 9)["runs"] if row["run_id"] == world.lied_about]
    assert (row["undoable"], row["undoable_reason"]) == (False, "unknown_result")


@pytest.mark.parametrize("anew", [False, True])
def test_changelogs_stay_without_their_snapshots(anew: bool) -> None:
    """The rows of the snapshots are gone: the changelogs that stand for them are the only roots of these ids."""
    world = ExpiredWorld(changelogs=True, commits=6)
    forge(world, drop(of_kinds("snapshot")), anew=anew)
    world.assert_refused()
    assert len([path for path in world.bodies() if path.startswith("changelog/changelog-")]) == 5


def test_a_ledger_that_is_lost_after_an_undo() -> None:
    """What is there tells the truth: nothing is left to restore."""
    world = ExpiredWorld()
    assert world.undone()[0] == "done"
    world.control.delete(delete_all([world.parts()[0]]))
    assert world.undone()[0] == "nothing_to_do"
    world.store.delete(delete_all(["snapshot/snapshot-1"]))
    world.assert_refused()


class _Meddling(WrappingStore):
    """Somebody takes a snapshot away as soon as it is back."""

    def __init__(self, store: Store, path: str) -> None:
        super().__init__(store)
        self._path = path

    def undelete(self, requests: Sequence[UndeleteRequest], *, only_check: bool = False) -> Sequence[UndeleteResult]:
        found = self._store.undelete(requests, only_check=only_check)
        if not only_check and any(request.key == self._path for request in requests):
            self._store.delete(delete_all([self._path]))
        return found


def test_a_snapshot_that_goes_again_keeps_its_changelog() -> None:
    """The table is asked right before each changelog goes."""
    world = ExpiredWorld(changelogs=True)
    store = _Meddling(world.store, "snapshot/snapshot-1")
    report = undo(Maintainer(store, control=world.control).table, world.lied_about, execute=True)
    assert report.status == "partial"
    assert report.refusal is not None
    assert "snapshot/snapshot-1 is gone" in report.refusal.message
    world.assert_nothing_lost()
    assert "changelog/changelog-1" in world.bodies()


@pytest.mark.parametrize("anew", [False, True])
def test_a_renamed_tag_keeps_its_new_name(anew: bool) -> None:
    """Without the old name the new one is the only root of its snapshot."""
    world = ExpiredWorld()
    TableBuilder(world.store)
    world.store.put("tag/tag-old", world.store.read("snapshot/snapshot-3").data)
    report = world.maintainer().run("rename-tag", tag="old", target_tag="new")
    assert report.status == "done"
    world.lied_about = str(report.run_id)
    forge(world, drop(of_kinds("tag")), anew=anew)
    world.assert_refused()
    assert "tag/tag-new" in world.bodies()


@pytest.mark.parametrize("anew", [False, True])
def test_orphans_of_which_no_row_tells(anew: bool) -> None:
    """A scan deletes no document, so only the ledger says what is absent."""
    world = ExpiredWorld()
    names = [f"bucket-0/data-0123abcd-0000-0000-0000-00000000000{n}-0.parquet" for n in range(3)]
    for name in names:
        world.store.put(name, b"orphan")
    world.now_ms += 20 * 86_400_000
    report = world.maintainer().run("remove-orphan-files")
    assert report.status == "done", report
    world.lied_about = str(report.run_id)
    forge(world, drop(lambda row: row["key"] == names[1]), anew=anew)
    world.assert_refused()


def test_a_row_of_another_object_brings_nothing_back() -> None:
    """Only what the plan deletes may come back, also where the chain was written anew."""
    world = ExpiredWorld()
    world.store.put("other/object", b"x")
    (result,) = world.store.delete(delete_all(["other/object"]))
    forged = {"key": "other/object", "version_id": result.version_id}
    forge(world, lambda row: [row, {**row, **forged}], anew=True)
    assert world.undone()[0] == "done"
    assert world.bodies().keys() == world.before.keys()


EDITS: dict[str, Edit] = {
    "as it is": lambda row: [row],
    "dropped": lambda _: [],
    "kept": lambda row: [{**row, "result": "kept_by_recheck", "why": "x"}] if "result" in row else [row],
    "gone before": lambda row: [{**row, "result": "already_gone", "version_id": None}] if "result" in row else [row],
    "unanswered": lambda row: [] if "result" in row else [row],
    "other marker": lambda row: [{**row, "version_id": "7"}] if "result" in row else [row],
    "no marker": lambda row: [{**row, "version_id": None}] if "result" in row else [row],
    "another's": lambda row: [{**row, "plan_id": "20260101T000000Z-00000000"}],
    "other object": lambda row: [{**row, "key": "snapshot/snapshot-3"}],
    "more": lambda row: [row, {**row, "key": "snapshot/snapshot-3"}, {**row, "key": "changelog/changelog-1"}],
}


COMBINED = ("as it is", "dropped", "kept", "gone before", "no marker")


def check_undo(world: ExpiredWorld, where: object) -> bool:
    """Undo twice: all is back, or it is refused and nothing has changed. Return whether all is back."""
    for _ in range(2):
        try:
            status, code, said = world.undone()
        except Exception as error:
            raise AssertionError(where) from error
        now = world.bodies()
        if status == "refused":
            assert code is not None, where
            assert now == world.after, where
            return False
        assert status in ("done", "nothing_to_do"), (where, said)
        assert world.before.keys() <= now.keys(), (where, world.before.keys() - now.keys())
        world.assert_nothing_lost(where)
    return True


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("changelogs", [False, True])
def test_every_edit_of_every_kind_of_rows(changelogs: bool, anew: bool) -> None:
    """Rows of documents, lists and files, each edited in every way, in every combination."""
    world = ExpiredWorld(changelogs=changelogs)
    groups = (("snapshot", "hint"), ("manifest", "manifest_list"), ("data", "changelog"))
    back = 0
    for names in product(COMBINED, repeat=len(groups)):
        chosen = {kind: EDITS[name] for kinds, name in zip(groups, names, strict=True) for kind in kinds}
        each = world.copy()
        forge(each, lambda row, chosen=chosen: chosen[row["kind"]](row), anew=anew)  # type: ignore[misc]
        back += check_undo(each, names)
    assert back >= 1


@pytest.mark.parametrize("anew", [False, True])
@pytest.mark.parametrize("changelogs", [False, True])
def test_every_edit_of_every_row(changelogs: bool, anew: bool) -> None:
    """One object at a time."""
    world = ExpiredWorld(changelogs=changelogs)
    for path in sorted(world.before.keys() - world.after.keys()):
        for name, edit in EDITS.items():
            each = world.copy()
            forge(each, lambda row, path=path, edit=edit: edit(row) if row["key"] == path else [row], anew=anew)  # type: ignore[misc]
            check_undo(each, (path, name))


@pytest.mark.parametrize("words", [["part", 0], ["part", 1], ["rows", "snapshot"]])
def test_on_s3(words: list[Any]) -> None:
    """The command line on a versioned bucket, with a ledger that lost a part or rows."""
    bucket, control = versioned_bucket(), fresh_bucket()
    memory = MemoryStore()
    fill(memory, changelogs=True, commits=6)
    for entry in memory.list(""):
        seed_moto(bucket, [f"{PREFIX}/{entry.key}"], memory.read(entry.key).data)
    lake, client = Lake(bucket, control), moto_client()
    answer = lake.call("expire-snapshots", "--retain-max", "2", "--retain-min", "2", "--execute", "--json")
    run_id = str(answer.document["run_id"])
    found = client.list_objects_v2(Bucket=control)["Contents"]
    parts = sorted(each["Key"] for each in found if "/ledger/" in each["Key"] and f"/{run_id}/" in each["Key"])
    if words[0] == "part":
        client.delete_object(Bucket=control, Key=parts[words[1]])
    for part in parts if words[0] == "rows" else ():
        rows = unpack(client.get_object(Bucket=control, Key=part)["Body"].read(), part)
        client.put_object(Bucket=control, Key=part, Body=pack([r for r in rows if r.get("kind") != words[1]]))
    after = lake.bodies()
    for execute in ((), ("--execute",), ("--execute",)):
        answer = lake.call("undo", run_id, *execute)
        assert answer.exit_code == 3
        assert "lakesweep audit verify" in answer.messages
        assert lake.bodies() == after
    assert len(read_all(lake.store)) == len(all_roots(lake.store))
