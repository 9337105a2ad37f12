"""Plans that somebody wrote or edited in the control location, hashed anew, and other documents that steer deletions.

Whatever they name, nothing goes that a root needs, no document goes by a plan of files, and the refusal says why.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.control.area import ControlArea
from lakesweep.control.plans import load_plan, store_part, store_plan
from lakesweep.control.seal import SecretKeys
from lakesweep.errors import MaintenanceError, RefusedError
from lakesweep.execute.deletions import executor as spine
from lakesweep.model.paths import permitted
from lakesweep.model.paths.permitted import PERMITTED, check_actions, check_plan
from lakesweep.model.plan import Action, Delete, Plan, PlanHeader, Put, content_hash, joined_hash
from lakesweep.model.report import RunReport
from lakesweep.model.steering import Steering, Target, Undone
from lakesweep.runs import local_executor
from lakesweep.runs.run import execute_stored
from tests.support.maintenance import assert_roots_readable
from tests.support.orphan_scene import OrphanScene
from tests.support.sampling import examples
from tests.support.waves import Team, planned, planted

TARGET, UNDONE = Target(1, None, 0), Undone("r", "p", "rollback")
STEERING = {
    "rollback": Steering(complete_roots=(), target=TARGET),
    "fast-forward": Steering(complete_roots=(), target=TARGET),
    "create-branch": Steering(complete_roots=()),
    "delete-branch": Steering(complete_roots=()),
    "undo": Steering(complete_roots=(), undone=UNDONE),
}
"""What the plans of these operations have to state."""
KEY, OTHER = b"k" * 32, b"o" * 32
Execute = Callable[[OrphanScene, str], RunReport]


def area_of(scene: OrphanScene) -> ControlArea:
    return ControlArea(scene.control, scene.store.location)


def forge(
    scene: OrphanScene, header: PlanHeader, actions: Sequence[Action], *, parts: bool = False, **says: object
) -> str:
    """Store a plan as somebody would who may write the control location, and return its id."""
    area, plan_id = area_of(scene), f"{header.plan_id}-forged"
    header = replace(header, **{"plan_id": plan_id, "action_count": len(actions), **says})  # type: ignore[arg-type]
    if not parts:
        header = replace(header, content_hash=content_hash(actions, header.steering))
        store_plan(area, Plan(header, tuple(actions)))
        return plan_id
    stored = [store_part(area, plan_id, f"{number:05d}", [action]) for number, action in enumerate(actions)]
    by_kind: dict[str, int] = {}
    for action in actions:
        by_kind[action.kind] = by_kind.get(action.kind, 0) + 1
    digest = joined_hash((part.hash for part in stored), header.steering)
    header = replace(header, parts=tuple(stored), by_kind=by_kind, content_hash=digest)
    store_plan(area, Plan(header))
    return plan_id


def in_one_process(scene: OrphanScene, plan_id: str) -> RunReport:
    return scene.maintainer().execute(plan_id)


def in_waves(scene: OrphanScene, plan_id: str) -> RunReport:
    return Team(scene).execute(plan_id)


def in_threads(scene: OrphanScene, plan_id: str) -> RunReport:
    before = local_executor.LARGE_PLAN
    local_executor.LARGE_PLAN = 0
    try:
        return scene.maintainer().execute(plan_id)
    finally:
        local_executor.LARGE_PLAN = before


def as_begun(scene: OrphanScene, plan_id: str) -> RunReport:
    """Say in the lease that a run has begun the plan, and let the next operation finish it."""
    intent = {"plan_id": plan_id, "branch": "main", "runs": ["r"], "end_id": None, "created_ms": 1, "grace_ms": 0}
    area_of(scene).put(
        "lease.json", json.dumps({"run_id": "r", "token": 1, "expires_at_ms": 0, "intent": intent}).encode()
    )
    return scene.maintainer().run("expire-snapshots", retain_max=100)


EXECUTORS = [in_one_process, in_waves, in_threads, as_begun]


@pytest.fixture
def scene() -> Iterator[OrphanScene]:
    found = OrphanScene()
    planted(found, 3)
    found.table.commit("+B")
    found.age()
    yield found


def etag_of(scene: OrphanScene, path: str) -> str:
    return next(entry.etag for entry in scene.store.list("") if entry.key == path)


def nothing_is_lost(scene: OrphanScene, before: set[str], orphans: set[str]) -> None:
    assert before - scene.listed() <= orphans
    assert_roots_readable(scene.table)


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("execute", EXECUTORS)
def test_an_orphan_plan_that_names_a_live_data_file_deletes_none(
    scene: OrphanScene, execute: Execute, parts: bool
) -> None:
    header = planned(scene)
    live, before = scene.table.path("A"), scene.listed()
    whole = load_plan(area_of(scene), header.plan_id)
    orphans = {delete.path for delete in whole.deletes}
    forged = replace(whole.deletes[0], path=live, etag=etag_of(scene, live))
    plan_id = forge(scene, header, (forged, *whole.actions), parts=parts)
    report = execute(scene, plan_id)
    nothing_is_lost(scene, before, orphans)
    if execute is not as_begun:  # such a plan has to end, and keeps what a root needs
        assert (report.status, report.refusal and report.refusal.code) == ("stale", "names_live_files")
        assert report.refusal is not None
        assert live in report.refusal.message
        assert scene.listed() == before


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("execute", EXECUTORS)
@pytest.mark.parametrize(
    ("phase", "kind", "path"),
    [
        ("documents", "snapshot", "snapshot/snapshot-1"),
        ("data", "snapshot", "snapshot/snapshot-1"),
        ("data", "data", "snapshot/snapshot-1"),
        ("clean", "schema", "schema/schema-0"),
        ("data", "schema", "schema/schema-0"),
        ("hints", "hint", "changelog/LATEST"),
        ("tags", "tag", "tag/tag-t"),
        ("consumers", "consumer", "consumer/consumer-c"),
        ("data", "data", "../other/bucket-0/data-1-0.parquet"),
        ("data", "data", "memory://bucket/db.db/other/bucket-0/data-1-0.parquet"),
        ("data", "data", "/etc/bucket-0/passwd"),
    ],
)
def test_an_orphan_plan_that_names_anything_but_files_of_its_table_is_refused_whole(
    scene: OrphanScene, execute: Execute, parts: bool, phase: str, kind: str, path: str
) -> None:
    header = planned(scene)
    scene.table.tag("t", snapshot=1)
    before = scene.listed()
    whole = load_plan(area_of(scene), header.plan_id)
    plan_id = forge(
        scene, header, (Delete(phase, kind, path, 1, "why", etag="x", body="{}"), *whole.actions), parts=parts
    )
    try:
        report = execute(scene, plan_id)
    except MaintenanceError as error:
        assert error.exit_code in (1, 3), error
    else:
        if "/" in (path[0], path[8]):  # what lies outside stays, and is told; the orphans of the table go
            nothing_is_lost(scene, before, {delete.path for delete in whole.deletes})
            return
        assert report.status in ("refused", "stale"), report
        assert report.refusal is not None
        assert "plan" in report.refusal.message
    assert scene.listed() == before
    assert_roots_readable(scene.table)


@pytest.mark.parametrize("latest", [None, 2, 99])
@pytest.mark.parametrize("end_id", [None, 3, 99])
def test_an_expiry_never_takes_the_newest_snapshot(scene: OrphanScene, end_id: int | None, latest: int | None) -> None:
    scene.table.commit("+C")
    header = scene.maintainer().plan().plan
    assert header is not None
    whole = load_plan(area_of(scene), header.header.plan_id)
    last = max(path for path in scene.listed() if path.startswith("snapshot/snapshot-"))
    document = next(delete for delete in whole.deletes if delete.kind == "snapshot")
    text = scene.store.read(last).data.decode()
    forged = replace(document, path=last, etag=etag_of(scene, last), body=text)
    actions = tuple(
        each
        for action in whole.actions
        for each in (
            (action, forged) if action.path == whole.deletes[-1].path or action.phase == "documents" else (action,)
        )
        if each is not forged or action.path.endswith(f"-{int(last.rpartition('-')[2]) - 1}")
    )
    assert forged in actions
    snapshots = {**whole.header.snapshots, "latest": latest}
    plan_id = forge(scene, whole.header, actions, end_id=end_id, snapshots=snapshots)
    report = in_one_process(scene, plan_id)
    assert report.status in ("refused", "stale")
    assert last in scene.listed()
    assert_roots_readable(scene.table)


def test_an_expiry_that_names_a_file_of_a_snapshot_that_stays_deletes_nothing(scene: OrphanScene) -> None:
    scene.table.commit("-A", "+C")
    plan = scene.maintainer().plan().plan
    assert plan is not None
    whole = load_plan(area_of(scene), plan.header.plan_id)
    before, data = scene.listed(), next(delete for delete in whole.deletes if delete.kind == "data")
    scene.table.commit("+D")
    live = scene.table.path("B")
    actions = tuple(
        each
        for action in whole.actions
        for each in ((action, replace(data, path=live)) if action is data else (action,))
    )
    report = in_one_process(scene, forge(scene, whole.header, actions))
    assert (report.status, report.refusal and report.refusal.code) == ("stale", "names_live_files")
    assert before <= scene.listed()


def test_a_snapshot_that_the_plan_describes_otherwise_does_not_go(scene: OrphanScene) -> None:
    """What the plan says of a document would be written back, or become a changelog."""
    scene.table.commit("-A", "+C")
    plan = scene.maintainer().plan().plan
    assert plan is not None
    whole = load_plan(area_of(scene), plan.header.plan_id)
    before = scene.listed()
    actions = tuple(replace(action, body="{}") if action.kind == "snapshot" else action for action in whole.actions)
    assert in_one_process(scene, forge(scene, whole.header, actions)).status == "stale"
    assert scene.listed() == before


def test_a_header_that_is_exchanged_after_the_roots_were_asked_deletes_nothing(scene: OrphanScene) -> None:
    header = planned(scene)
    live, before = scene.table.path("A"), scene.listed()
    whole = load_plan(area_of(scene), header.plan_id)
    first = forge(scene, header, whole.actions, parts=True)
    area = area_of(scene)

    def exchange(_number: int) -> None:
        evil = replace(whole.deletes[0], path=live, etag=etag_of(scene, live))
        other = forge(scene, replace(header, plan_id="x"), (evil,) * len(whole.actions), parts=True)
        document = json.loads(area.read(f"plans/{other}/header.json").data)
        for part in document["parts"]:
            area.put(f"plans/{first}/{part['name']}", area.read(f"plans/{other}/{part['name']}").data)
        area.put(f"plans/{first}/header.json", json.dumps({**document, "plan_id": first}).encode())

    with pytest.raises(MaintenanceError, match="changed meanwhile"):
        Team(scene, before_wave=exchange).execute(first)
    assert scene.listed() == before


@pytest.mark.parametrize("operation", ["fast-forward", "delete-branch", "undo", "rollback"])
@pytest.mark.parametrize("begun", [False, True])
def test_a_move_takes_no_schema_that_a_snapshot_needs(scene: OrphanScene, operation: str, begun: bool) -> None:
    header, before = planned(scene), scene.listed()
    body = scene.store.read("schema/schema-0").data.decode()
    action = Delete(
        "clean", "schema", "schema/schema-0", len(body), "why", etag=etag_of(scene, "schema/schema-0"), body=body
    )
    plan_id = forge(scene, header, (action,), operation=operation, format_version=2, steering=STEERING[operation])
    report = (as_begun if begun else in_one_process)(scene, plan_id)
    assert report.status in ("refused", "stale") or begun
    assert scene.listed() == before


@pytest.mark.parametrize("operation", ["create-branch", "delete-branch"])
@pytest.mark.parametrize("branch", ["main", "b"])
def test_no_plan_about_another_branch_touches_main(operation: str, branch: str) -> None:
    """Whichever branch it says that it is planned on."""
    header = replace(header_of(operation), branch=branch)
    for phase, kind, path in (("withdraw", "snapshot", "snapshot/snapshot-1"), ("clean", "schema", "schema/schema-0")):
        with pytest.raises(RefusedError) as caught:
            check_actions(header, (Delete(phase, kind, path, 1, "why", etag="e", body="x"),))
        assert caught.value.code == permitted.FORBIDDEN


def test_a_key_makes_forged_and_unsealed_plans_refused(scene: OrphanScene) -> None:
    header = planned(scene)
    whole = load_plan(area_of(scene), header.plan_id)
    before = scene.listed()
    sealing = replace(area_of(scene), sealer=SecretKeys((KEY,)))
    table = scene.maintainer().table
    with pytest.raises(RefusedError, match="found none") as caught:
        load_plan(sealing, header.plan_id)
    assert (caught.value.code, caught.value.exit_code) == ("unsealed_plan", 3)
    sealed = replace(whole.header, plan_id=f"{header.plan_id}-sealed")
    store_plan(sealing, Plan(sealed, whole.actions))
    assert load_plan(sealing, sealed.plan_id).actions == whole.actions
    rotated = replace(sealing, sealer=SecretKeys((OTHER, KEY)))
    assert load_plan(rotated, sealed.plan_id).actions == whole.actions
    with pytest.raises(RefusedError, match="another seal"):
        load_plan(replace(sealing, sealer=SecretKeys((OTHER,))), sealed.plan_id)
    for change in ({"expires_ms": 1 << 60}, {"roots_seen": {}}, {"needs_confirmation": True}):
        name = f"plans/{sealed.plan_id}/header.json"
        stored = json.loads(sealing.read(name).data)
        sealing.put(name, json.dumps({**stored, **change}).encode())
        with pytest.raises(RefusedError, match="another seal"):
            load_plan(sealing, sealed.plan_id)
        sealing.put(name, json.dumps(stored).encode())
    report = execute_stored(replace(table, area=sealing), header.plan_id)
    assert (report.status, report.refusal and report.refusal.code) == ("refused", "unsealed_plan")
    assert scene.listed() == before
    assert execute_stored(replace(table, area=sealing), sealed.plan_id).status == "done"


def test_a_part_of_a_sealed_plan_that_is_exchanged_is_refused(scene: OrphanScene) -> None:
    header = planned(scene)
    whole = load_plan(area_of(scene), header.plan_id)
    sealing = replace(area_of(scene), sealer=SecretKeys((KEY,)))
    plan_id = f"{header.plan_id}-sealed"
    part = store_part(sealing, plan_id, "0", whole.actions)
    store_plan(sealing, Plan(replace(whole.header, plan_id=plan_id, parts=(part,))))
    assert load_plan(sealing, plan_id).actions == whole.actions
    store_part(sealing, plan_id, "0", tuple(reversed(whole.actions)))
    with pytest.raises(MaintenanceError, match="SHA-256"):
        load_plan(sealing, plan_id)


# --- what the plans of an operation may hold --------------------------------------------------------------------------

_PLACES = {
    "snapshot": "snapshot/snapshot-1",
    "changelog_document": "changelog/changelog-1",
    "tag": "tag/tag-t",
    "tag_success": "tag/tag-success-file/t_SUCCESS",
    "hint": "changelog/EARLIEST",
    "consumer": "consumer/consumer-c",
    "schema": "schema/schema-0",
    "branch_document": "branch/branch-b/snapshot/x",
    "data": "bucket-0/data-1-0.parquet",
    "extra": "bucket-0/data-1-0.index",
    "changelog": "bucket-0/changelog-1-0.parquet",
    "index": "index/index-1-0",
    "index_manifest": "manifest/index-manifest-1",
    "manifest": "manifest/manifest-1",
    "manifest_list": "manifest/manifest-list-1",
    "statistics": "statistics/stat-1",
    "temp": "snapshot/.LATEST.00000000-0000-0000-0000-000000000000.tmp",
}
_PHASES = sorted({phase for entries in PERMITTED.values() for _, phase, _ in entries})


def header_of(operation: str) -> PlanHeader:
    moves = operation in ("rollback", "create-branch", "delete-branch", "fast-forward", "undo")
    end_id = 2 if operation == "expire-snapshots" else None
    return PlanHeader(
        "p",
        operation,
        "memory://t",
        "main",
        0,
        0,
        "",
        {},
        {},
        {},
        end_id,
        {"latest": 2},
        {},
        action_count=1,
        format_version=2 if moves else 1,
        steering=STEERING.get(operation, Steering()),
    )


@given(st.sampled_from(sorted(PERMITTED)), st.booleans(), st.sampled_from(_PHASES), st.sampled_from(sorted(_PLACES)))
@settings(max_examples=examples(600), deadline=None)
def test_what_is_not_in_the_table_of_an_operation_is_refused(
    operation: str, deletes: bool, phase: str, kind: str
) -> None:
    path = _PLACES[kind]
    action: Action = (
        Delete(phase, kind, path, 1, "why", etag="e", body="") if deletes else Put(phase, kind, path, "", "why")
    )
    header = header_of(operation)
    check_plan(header)
    if ("delete" if deletes else "put", phase, kind) not in PERMITTED[operation]:
        with pytest.raises(RefusedError) as caught:
            check_actions(header, (action,))
        assert caught.value.code == permitted.FORBIDDEN


@pytest.mark.parametrize("operation", ["", "maintain", "vacuum", "expire_snapshot"])
def test_a_plan_of_no_operation_is_refused(operation: str) -> None:
    with pytest.raises(RefusedError, match="no operation"):
        check_plan(header_of(operation))


def test_an_operation_stays_in_its_branch() -> None:
    action = Delete("tags", "tag", "branch/branch-b/tag/tag-t", 1, "why", etag="e", body="")
    with pytest.raises(RefusedError):
        check_actions(header_of("delete-tag"), (action,))


def test_plans_of_orphans_hold_files_alone() -> None:
    kinds = {kind for _, _, kind in PERMITTED["remove-orphan-files"]}
    assert kinds == {*spine.get_args(spine.FileKind), "temp"}
    assert {verb for verb, _, _ in PERMITTED["remove-orphan-files"]} == {"delete"}
