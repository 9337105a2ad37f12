"""Each request of a branch that moves has a condition: what somebody wrote right before it stays as it is."""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise

import pytest

from lakesweep.control.plans import load_plan
from lakesweep.execute.branch_rewrites.compensation import settle_latest
from lakesweep.execute.branch_rewrites.progress import LOOSE_KINDS, Documents
from lakesweep.model.plan import Action, Delete, Put
from lakesweep.storage.store import DeleteRequest, DeleteResult
from lakesweep.table.discover import discover
from tests.support.acting import Acting
from tests.support.content_store import ContentStore
from tests.support.fast_forwards import IN_PLACE, Commit, ForwardWorld, documents
from tests.support.fast_forwards import calls as forward_calls
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.memory_store import MemoryStore
from tests.support.moving import MOVES, MovingWorld, check_moment, undisturbed


def requests_of(operation: str) -> list[tuple[int, Action]]:
    """Return the requests that carry a plan out, by their numbers among all calls, with what each of them does."""
    calls, _ = undisturbed(operation, ContentStore)
    world = MovingWorld(operation, ContentStore)
    actions = load_plan(world.maintainer().table.area, world.plan_id).actions
    numbers = [n for n, call in enumerate(calls, 1) if call.startswith(("table put", "table delete"))]
    assert len(numbers) >= len(actions)
    return list(zip(numbers, actions, strict=False))


def each_kind(operation: str) -> list[tuple[int, Action]]:
    """Return the first request of each kind that has a condition."""
    found: dict[tuple[object, ...], tuple[int, Action]] = {}
    for number, action in requests_of(operation):
        if action.kind not in LOOSE_KINDS:
            found.setdefault((type(action), action.phase, action.kind), (number, action))
    return list(found.values())


def written_by_others(action: Action) -> bytes:
    """Return a document that stands where an action's does, and says something else."""
    document = json.loads(action.body or "")
    other = {"comment": "another one"} if action.kind == "schema" else {"commitUser": "other"}
    return json.dumps(document | other).encode()


@pytest.mark.parametrize("operation", MOVES)
def test_what_somebody_wrote_right_before_a_request_stays(operation: str) -> None:
    """It is neither deleted nor written over, nor taken for what was there when all is taken back."""
    for number, action in each_kind(operation):
        world, body = MovingWorld(operation, ContentStore), written_by_others(action)
        act = Acting(number, lambda world=world, path=action.path, body=body: world.store.put(path, body))  # type: ignore[misc]
        report = world.execute(act)
        assert act.calls[number - 1].split()[1] == ("delete" if isinstance(action, Delete) else "put"), action
        assert report.status == "stale", (number, action.path)
        assert world.documents().get(action.path) == body, (number, action.path, report.refusal)
        assert report.refusal is not None
        if isinstance(action, Put) and not report.refusal.message.endswith("; nothing was done"):
            assert action.path in report.refusal.message.partition("Not reverted")[2], report.refusal.message


@pytest.mark.parametrize("operation", MOVES)
def test_what_somebody_removed_right_before_a_request_is_no_ground_to_write(operation: str) -> None:
    """Of what is replaced nobody knows any more what it was; what goes anyhow may be gone."""
    for number, action in each_kind(operation):
        world = MovingWorld(operation, ContentStore)
        report = world.execute(Acting(number, lambda world=world, path=action.path: world.remove(path)))
        if isinstance(action, Put) and action.former is not None:
            assert report.status == "stale", (number, action.path)
        else:
            assert report.status == "done", (number, action.path, report.refusal)
            check_moment(world)


class Interfering(ContentStore):
    """Lets somebody write something else right before one of the requests that change a document."""

    at: int | None = None
    """Which one, counted from the moment that this is set."""
    path = ""
    body = b""

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        self._interfere(key)
        return super().put(key, data, if_absent=if_absent, if_match=if_match)

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        self._interfere(requests[0].key)
        return super().delete(requests)

    def _interfere(self, key: str) -> None:
        if self.at is None:
            return
        self.at -= 1
        if self.at == 0:
            self.at, self.path, self.body = None, key, b'{"version": 3, "id": 1, "commitUser": "somebody else"}'
            super().put(key, self.body)


@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag", "fast-forward", "fast-forward without a base"])
def test_what_somebody_wrote_right_before_a_step_back_stays(operation: str) -> None:
    """Somebody has committed, so all is taken back; each step of that has a condition, too."""
    changes = [number for number, _ in requests_of(operation)]
    paths = set()
    for at in range(1, len(changes) + 1):
        world = MovingWorld(operation, Interfering)

        def act(world: MovingWorld = world, at: int = at) -> None:
            world.publish(8 if operation != "fast-forward without a base" else 9)
            world.store.at = at  # type: ignore[attr-defined]

        report = world.execute(Acting(changes[-2], act))
        assert isinstance(world.store, Interfering)
        path = world.store.path
        if not path or path.endswith(("LATEST", "EARLIEST", "_SUCCESS")):
            continue
        paths.add(path)
        assert report.status == "stale", (at, path)
        assert world.documents().get(path) == world.store.body, (at, path, report.refusal)
    assert paths


def test_a_hint_that_somebody_has_just_written_is_not_settled() -> None:
    """It names nothing that is there, and neither did the one before, which was listed."""
    store = ContentStore("memory://bucket/t")
    for number in (1, 2):
        store.put(f"snapshot/snapshot-{number}", b"{}")
    store.put("snapshot/LATEST", b"7")
    listed = discover(store).branches["main"]
    store.put("snapshot/LATEST", b"9")
    settle_latest(store, listed)
    assert store.read("snapshot/LATEST").data == b"9"
    settle_latest(store, discover(store).branches["main"])
    assert store.read("snapshot/LATEST").data == b"2"


@pytest.mark.parametrize(
    ("said", "settled"),
    [(b"9", b"4"), (b"5", b"4"), (b"1", b"1"), (b"2", b"4"), (b"3", b"3"), (b"4", b"4"), (b"0", b"0"), (b"-1", b"-1")],
)
def test_a_hint_is_settled_where_readers_would_believe_it(said: bytes, settled: bytes) -> None:
    """It names nothing that is there. With a snapshot right after what it names, readers list."""
    store = ContentStore("memory://bucket/t")
    for number in (2, 4) if said in (b"1", b"3") else (1, 4):
        store.put(f"snapshot/snapshot-{number}", b"{}")
    store.put("snapshot/LATEST", said)
    settle_latest(store, discover(store).branches["main"])
    assert store.read("snapshot/LATEST").data == settled


@pytest.mark.parametrize("operation", ["rollback", "fast-forward without a base"])
def test_what_was_written_again_as_it_was_is_the_same_document(operation: str) -> None:
    """A run died; another ETag of the same words is no reason for the next one to take all back."""
    requests, (_, end) = requests_of(operation), undisturbed(operation, MemoryStore)
    world = MovingWorld(operation)
    with suppress(ProcessDeathError):
        world.execute(Switch(requests[0][0], "death_after"))
    for path in {action.path for _, action in requests if action.kind not in LOOSE_KINDS} & world.documents().keys():
        world.store.put(path, world.store.read(path).data)
    world.wait()
    world.finish()
    assert without(world.documents()) == without(end)


def without(documents: dict[str, bytes]) -> dict[str, bytes]:
    """Return the documents of main without what deletions alone took."""
    return {path: data for path, data in documents.items() if not path.startswith("branch/")}


class CommittingUnder(Switch):
    """Lets somebody commit under a schema before a call, and write that schema anew before ours puts it back."""

    def __init__(self, world: ForwardWorld, before: int, schema: bytes | None = None) -> None:
        super().__init__()
        self._world = world
        self._before = before
        self._schema = schema

    def _run(self, name: str, call: Callable[[], object]) -> object:
        store, made = self._world.store, self._world.expected()
        newest = max(int(path.rpartition("-")[2]) for path in made if path.startswith("snapshot/snapshot-"))
        if len(self.calls) + 1 == self._before:
            document = json.loads(store.read(f"snapshot/snapshot-{newest}").data)
            document |= {"id": newest + 1, "schemaId": 2, "commitUser": "other"}
            store.put(f"snapshot/snapshot-{newest + 1}", json.dumps(document).encode(), if_absent=True)
        if name == "table put schema/schema-2" and self._schema is not None:
            store.put("schema/schema-2", self._schema)
        return super()._run(name, call)


@pytest.mark.parametrize("other", [None, b'{"version": 3, "id": 2}'], ids=["", "and somebody writes it"])
@pytest.mark.parametrize("late", [False, True], ids=["before the last request", "while files are looked for"])
def test_a_schema_that_went_returns_for_a_commit_under_it(late: bool, other: bytes | None) -> None:
    """The commit came after the last look at what the schema is needed for, and is found at the end."""
    world, made = ForwardWorld("altered"), forward_calls("altered")
    deletes = [number for number, call in enumerate(made, 1) if call.startswith("table delete")]
    listings = [number for number, call in enumerate(made, 1) if call == "table list "]
    report = world.forward(CommittingUnder(world, listings[-1] if late else deletes[-1], other))
    assert report.status == "done", report.refusal
    said = " ".join(report.all_warnings())
    assert "snapshot 7 was committed meanwhile" in said
    assert "schema/schema-2 is kept: somebody has committed under it meanwhile" in said
    assert world.store.read("schema/schema-2").data == (other or world.before["schema/schema-2"])


@pytest.mark.parametrize("scene", IN_PLACE)
def test_somebody_is_looked_for_right_before_the_newest_snapshot_is_replaced(scene: str) -> None:
    """A commit on it that is there when it is another one would look as if it were made on that."""
    made = forward_calls(scene)
    first = next(number for number, call in enumerate(made) if call.startswith("table put snapshot/snapshot-"))
    path, _, number = made[first].removeprefix("table put ").rpartition("-")
    assert made[first - 1] == f"table read {path}-{int(number) + 1}"


@pytest.mark.parametrize("was_there", [False, True])
def test_a_hint_that_was_written_since_the_last_look_stays_and_stops_a_plan(was_there: bool) -> None:
    """Writers write it after a commit, and an engine before it rolls back; so may one that was not there before."""
    world = MovingWorld("rollback", ContentStore)
    if not was_there:
        world.remove("snapshot/LATEST")
    plan = world.maintainer().run("rollback", execute=False, snapshot=5).plan
    assert plan is not None
    world.plan_id, probe = plan.header.plan_id, Switch()
    (hint,) = (action for action in plan.actions if action.path == "snapshot/LATEST")
    assert isinstance(hint, Put) and hint.if_absent != was_there

    def write_before(name: str, call: Callable[[], object]) -> object:
        if name == "table put snapshot/LATEST":
            world.store.put("snapshot/LATEST", b"6")
        return Switch._run(probe, name, call)

    probe._run = write_before  # type: ignore[method-assign]
    there = world.documents()
    report = world.execute(probe)
    assert report.status == "stale" and report.refusal is not None
    assert "snapshot/LATEST was written by somebody else" in report.refusal.message
    assert world.documents() == {**there, "snapshot/LATEST": b"6"}


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_hint_that_is_another_one_before_the_first_request_stops_a_plan(is_gone: bool) -> None:
    """Somebody has moved the branch since the plan was made, or is about to."""
    world = MovingWorld("rollback")
    world.remove("snapshot/LATEST") if is_gone else world.store.put("snapshot/LATEST", b"7")
    there = world.documents()
    report = world.execute()
    assert report.status == "stale" and report.refusal is not None
    assert "LATEST was written by somebody else" in report.refusal.message
    assert world.documents() == there


def test_a_snapshot_below_that_somebody_replaced_is_one_of_others() -> None:
    """The plan neither takes nor needs it; that it is another one now says that somebody else is at work."""
    number = next(
        n for n, action in requests_of("rollback") if isinstance(action, Delete) and "snapshot-6" in action.path
    )
    world = MovingWorld("rollback", ContentStore)
    body = json.dumps(json.loads(world.store.read("snapshot/snapshot-4").data) | {"commitUser": "other"}).encode()
    report = world.execute(Acting(number, lambda: world.store.put("snapshot/snapshot-4", body)))
    assert report.status == "stale" and report.refusal is not None
    assert "snapshot/snapshot-4 was written by somebody else" in report.refusal.message
    assert world.documents()["snapshot/snapshot-4"] == body


@pytest.mark.parametrize(
    ("operation", "path"), [("new branch", "tag/tag-t6"), ("fast-forward", "branch/branch-b/snapshot/snapshot-6")]
)
def test_a_source_that_is_gone_stops_a_plan_before_its_first_request(operation: str, path: str) -> None:
    """What a branch copies is looked for, too, when nothing has been done yet."""
    world = MovingWorld(operation)
    world.remove(path)
    there, switch = world.documents(), Switch()
    report = world.execute(switch)
    assert report.status == "stale" and report.refusal is not None
    assert path in report.refusal.message and report.refusal.message.endswith("; nothing was done")
    assert world.documents() == there
    assert not any(call.startswith(("table put", "table delete")) for call in switch.calls)


@pytest.mark.parametrize("operation", ["rollback to a tag", "fast-forward", "branch that goes"])
def test_a_look_lies_between_deletions_and_the_next_phase(operation: str) -> None:
    """Whoever committed while the last snapshots went is found before changelogs and schemas go."""
    calls, _ = undisturbed(operation, ContentStore)
    requests = requests_of(operation)
    for (number, before), (following, after) in pairwise(requests):
        is_needed = isinstance(before, Delete) and before.phase != after.phase
        assert ("table list snapshot/" in calls[number:following]) >= is_needed, (before.path, after.path)


def test_a_look_lies_right_before_the_schemas_go() -> None:
    """Whoever has committed under one of them keeps it, whatever came before."""
    made = forward_calls("altered")
    requests = [number for number, call in enumerate(made) if call.startswith(("table put", "table delete"))]
    first = next(number for number in requests if made[number].startswith("table delete"))
    schemas = [number for number in requests if number > first and made[number].startswith("table delete")][-1]
    before = max(number for number in requests if number < schemas)
    assert made[before].startswith("table put")
    assert "table list snapshot/" in made[before:schemas]


@pytest.mark.parametrize("operation", ["rollback", "rollback to a tag", "fast-forward"])
def test_a_commit_while_snapshots_are_still_to_go_is_found_by_the_next_look(operation: str) -> None:
    """It stands on what is about to go: all of that is back."""
    number = next(n for n, action in requests_of(operation) if isinstance(action, Delete))
    for at in (number - 1, number):
        world = MovingWorld(operation, ContentStore)
        newest = max(world.ids())
        report = world.execute(Acting(at, lambda world=world, newest=newest: world.publish(newest + 1)))  # type: ignore[misc]
        assert report.status == "stale", at
        assert world.ids()[-2:] == [newest, newest + 1]


def test_what_changed_since_it_was_listed_is_not_read_as_what_was_there() -> None:
    """The listing said which document it was; another one has come before it was read."""
    world = MovingWorld("rollback")
    plan = load_plan(world.maintainer().table.area, world.plan_id)
    found = Documents(world.store, plan)
    etags = {entry.key: entry.etag for entry in world.store.list("snapshot/")}
    world.store.put("snapshot/snapshot-6", b"{}")
    world.remove("snapshot/snapshot-7")
    assert found.body_of("snapshot/snapshot-6", etags["snapshot/snapshot-6"]) is None
    assert found.body_of("snapshot/snapshot-7", etags["snapshot/snapshot-7"]) is None
    assert found.body_of("snapshot/snapshot-5", etags["snapshot/snapshot-5"]) == world.before["snapshot/snapshot-5"]


@pytest.mark.parametrize("schema_id", [0, 1])
def test_a_schema_that_came_stays_only_for_a_commit_under_it(schema_id: int) -> None:
    """Somebody has committed half way, under the newest schema or under the one of before; all else is taken back."""
    world = ForwardWorld("altered_once")
    commit = Commit(world.store)

    def act() -> None:
        commit()
        commit.body = json.dumps(json.loads(commit.body) | {"schemaId": schema_id}).encode()
        world.store.put(commit.path, commit.body)

    at = forward_calls("altered_once").index("table put snapshot/snapshot-6") + 1
    assert world.forward(Acting(at, act)).status == "stale"
    assert (commit.path, commit.schema[0]) == ("snapshot/snapshot-6", "schema/schema-1")
    now = documents(world.store)
    assert now[commit.path] == commit.body
    assert now.get("schema/schema-1") == (commit.schema[1] if schema_id == 1 else None)
    assert now["schema/schema-0"] == world.before["schema/schema-0"]


class Helping(Interfering):
    """Somebody puts the very documents back that ours is about to."""

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        if self.at is not None and if_absent:
            ContentStore.put(self, key, data)
            self.path = key
        return ContentStore.put(self, key, data, if_absent=if_absent, if_match=if_match)

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        return ContentStore.delete(self, requests)


def test_what_is_back_already_is_said_to_be_back() -> None:
    """It is the same document, whoever wrote it."""
    world = MovingWorld("rollback", Helping)
    last = requests_of("rollback")[-1][0]

    def act() -> None:
        world.publish(8)
        world.store.at = 0  # type: ignore[attr-defined]

    report = world.execute(Acting(last, act))
    assert isinstance(world.store, Helping) and world.store.path
    assert report.status == "stale" and report.refusal is not None
    assert report.refusal.message.endswith("; Lakesweep reverted what the plan had done")
    assert world.before.items() - {("snapshot/LATEST", b"7")} <= world.documents().items()


class Denying(ContentStore):
    """Answers some deletions as S3 does whose policy denies them: for each object."""

    denied = ""

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        if self.denied and requests[0].key.startswith(self.denied):
            return [DeleteResult(request.key, "access_denied") for request in requests]
        return super().delete(requests)


def test_a_deletion_that_is_denied_is_not_done() -> None:
    """The run says so and stops; whoever may delete goes on."""
    end = undisturbed("rollback", ContentStore)[1]
    world = MovingWorld("rollback", Denying)
    assert isinstance(world.store, Denying)
    world.store.denied = "snapshot/snapshot-6"
    report = world.execute()
    assert (report.status, report.refusal and report.refusal.code) == ("partial", "access_denied")
    assert report.refusal is not None and "snapshot/snapshot-6 could not be deleted" in report.refusal.message
    assert world.ids() == [4, 5, 6]
    world.store.denied = ""
    world.wait()
    world.finish()
    assert world.documents() == end


def test_a_step_back_that_is_denied_is_not_done() -> None:
    """The next run takes the rest back."""
    world = MovingWorld("rollback to a tag", Denying)
    assert isinstance(world.store, Denying)
    world.store.denied = "snapshot/snapshot-1"
    number = max(n for n, action in requests_of("rollback to a tag") if isinstance(action, Delete))
    report = world.execute(Acting(number, lambda: world.publish(8)))
    assert report.status == "partial" and report.refusal is not None
    assert "snapshot/snapshot-1 could not be deleted" in report.refusal.message
    assert "snapshot/snapshot-1" in world.documents()
    world.store.denied = ""
    world.wait()
    world.finish()
    assert world.ids() == [4, 5, 6, 7, 8]


@pytest.mark.parametrize("on", [6, 7])
def test_what_a_commit_stands_on_stays_when_the_rest_is_taken_back(on: int) -> None:
    """Somebody has committed on what had come of the branch by then: that is main's history now."""
    world = ForwardWorld("diverged")
    commit = Commit(world.store)
    at = forward_calls("diverged").index(f"table put snapshot/snapshot-{on + 1}") + 1
    report = world.forward(Acting(at, commit))
    assert (report.status, commit.path) == ("stale", f"snapshot/snapshot-{on + 1}")
    now = documents(world.store)
    assert now[commit.path] == commit.body
    for number in range(6, on + 1):
        assert now[f"snapshot/snapshot-{number}"] == world.before[f"branch/branch-b/snapshot/snapshot-{number}"]
    assert [path for path in now if path.startswith("snapshot/snapshot-") and int(path[18:]) > on + 1] == []


def test_nothing_goes_any_more_once_a_commit_has_been_seen() -> None:
    """A run died when it had taken the newest snapshot; the next one puts that back, and takes no other."""
    number = next(n for n, action in requests_of("rollback") if isinstance(action, Delete) and action.kind != "tag")
    world, switch = MovingWorld("rollback", ContentStore), Switch()
    with suppress(ProcessDeathError):
        world.execute(Switch(number, "death_after"))
    assert world.ids() == [4, 5, 6]
    world.publish(8)
    world.wait()
    world.finish(switch)
    assert world.ids() == [4, 5, 6, 7, 8]
    assert not any(call.startswith("table delete") for call in switch.calls)
