"""Files outside a table, whoever deletes them: scans, waves, Spark, undo, and runs that finish a plan of another."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace

import pytest

from lakesweep.control.plans import load_header, load_plan
from lakesweep.errors import RefusedError, StorageError
from lakesweep.execute.waves.slices import Assignment, Slice, SliceResult
from lakesweep.execute.waves.threads import thread_workers
from lakesweep.format.codec import from_json
from lakesweep.model.paths.stays import Allowance
from lakesweep.operations.undo.undo import undo
from lakesweep.runs.allowance import allowed_roots
from lakesweep.runs.execution import executor_of
from lakesweep.runs.run import execute_stored
from lakesweep.spark.execute import DeleteLane
from lakesweep.spark.tasks import Access, Task
from lakesweep.storage.open import open_store
from lakesweep.storage.store import DeleteRequest, DeleteResult, Store
from lakesweep.table.fence import FenceRules
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.orphan_scene import FOLDER, OrphanScene, unique
from tests.support.outside import opener
from tests.support.s3_server import fresh_bucket, moto_settings, moto_store
from tests.support.table_builder import TableBuilder

OUTSIDE = "memory://outside/ext"
MINE = f"bucket-0/data-{unique('F')}-0.parquet"


class Stubborn(MemoryStore):
    """Gives no answer to a deletion, as long as it is told not to."""

    is_silent = False

    def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
        if self.is_silent:
            raise StorageError(f"delete in {self.location}: no answer")
        return super().delete(requests)


class Scene:
    """A table with one file outside, which an expiry frees."""

    def __init__(self) -> None:
        self.outside = Stubborn(OUTSIDE, versioned=True)
        self.store = MemoryStore("memory://bucket/t", versioned=True)
        self.table = TableBuilder(self.store, externals={OUTSIDE: self.outside})
        self.table.commit("+F", external={"F": f"{OUTSIDE}/{MINE}"})
        self.table.commit("-F", "+G")
        self.control = MemoryStore("memory://control")

    def maintainer(self, *roots: str) -> Maintainer:
        return Maintainer(
            self.store, control=self.control, open_store=opener(self.outside, self.control), external_roots=roots
        )

    def is_there(self) -> bool:
        return MINE in {entry.key for entry in self.outside.list("")}


def test_a_run_that_finishes_another_s_plan_needs_an_allowance_of_its_own() -> None:
    """The plan ends all the same, and nothing waits for it."""
    scene = Scene()
    scene.outside.is_silent = True
    first = scene.maintainer(OUTSIDE).expire()
    assert first.status == "partial"
    scene.outside.is_silent = False
    scene.table.commit("+H")
    second = scene.maintainer().expire()
    assert second.status == "done"
    assert scene.is_there()
    assert_roots_readable(scene.table)
    assert scene.maintainer().expire().status == "nothing_to_do"


def test_an_undo_needs_an_allowance_of_its_own() -> None:
    scene = Scene()
    done = scene.maintainer(OUTSIDE).expire()
    assert done.run_id is not None
    assert not scene.is_there()
    for execute in (False, True):
        report = undo(scene.maintainer().table, done.run_id, execute=execute)
        assert report.refusal is not None
        assert report.refusal.code == "external_root_not_allowed"
        assert f"--external-root {OUTSIDE}" in report.refusal.message
    assert not scene.is_there()
    assert undo(scene.maintainer(OUTSIDE).table, done.run_id, execute=True).status == "done"
    assert scene.is_there()
    assert_roots_readable(scene.table)


def orphans() -> tuple[OrphanScene, str, str]:
    """Return a scene with an orphan in an owned root, its key, and the id of the plan that takes it."""
    scene = OrphanScene(external=OUTSIDE)
    scene.table.commit("+A", external={"A": f"{OUTSIDE}/{FOLDER}data-{unique('A')}-0.parquet"})
    assert scene.external is not None
    key = f"{FOLDER}data-{unique('c')}-0.parquet"
    scene.external.put(key, b"orphan")
    scene.age()
    report = scene.maintainer().run("remove-orphan-files", execute=False, owned_external=[OUTSIDE])
    assert report.plan is not None
    assert [delete.path for delete in report.plan.deletes] == [f"{OUTSIDE}/{key}"]
    return scene, key, report.plan.header.plan_id


@pytest.mark.parametrize("in_waves", [False, True])
def test_a_plan_of_orphans_carries_no_permission(in_waves: bool) -> None:
    """That a root was owned when the plan was made says nothing to whoever carries it out."""
    scene, key, plan_id = orphans()
    assert scene.external is not None
    engine = (
        {"engine": executor_of(lambda env: thread_workers(env, load_header(env.area, plan_id)))} if in_waves else {}
    )
    report = execute_stored(scene.maintainer().table, plan_id, **engine)
    assert report.status == "done"
    assert report.outcome is not None
    assert (report.outcome.deleted, report.outcome.kept_by_recheck) == (0, 1)
    assert any(f"--external-root {OUTSIDE}" in warning for warning in report.all_warnings())
    assert key in {entry.key for entry in scene.external.list("")}


@pytest.mark.parametrize("in_waves", [False, True])
def test_with_an_allowance_the_same_plan_deletes(in_waves: bool) -> None:
    scene, key, plan_id = orphans()
    assert scene.external is not None
    engine = (
        {"engine": executor_of(lambda env: thread_workers(env, load_header(env.area, plan_id)))} if in_waves else {}
    )
    maintainer = replace(scene.maintainer(), external_roots=(OUTSIDE,))
    assert execute_stored(maintainer.table, plan_id, **engine).status == "done"
    assert key not in {entry.key for entry in scene.external.list("")}


@pytest.mark.parametrize("allowed", [False, True])
def test_a_task_of_spark_goes_by_what_its_driver_was_told(allowed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    scene, key, plan_id = orphans()
    assert scene.external is not None
    table = scene.maintainer().table
    assert table.area is not None
    declared = (OUTSIDE,)
    rules = FenceRules(declared, declared if allowed else (), "memory://control", _layout(table.store))
    known = {scene.store.location: scene.store, scene.control.location: scene.control}
    outside = opener(scene.external)

    def opened(location: str, **_: object) -> Store:
        return known.get(location) or outside(location)

    monkeypatch.setattr("lakesweep.spark.tasks.open_store", opened)
    access = Access(table.ref.location, scene.control.location)
    lane = Assignment(plan_id, "run", table.area.store.now_ms() + 10**9, 1000.0, 0.0, (Slice(0, 0, 0, 1),))
    row = json.loads(json.dumps(asdict(lane)))
    (answer,) = DeleteLane(rules)(Task(access), row)
    result: SliceResult = from_json(SliceResult, json.loads(json.dumps(answer)), "the answer of a task")
    assert (result.deleted, result.kept) == ((1, 0) if allowed else (0, 1))
    assert [stays.stay.code for stays in result.stays] == ([] if allowed else ["external_root_not_allowed"])
    assert (key in {entry.key for entry in scene.external.list("")}) is not allowed


def _layout(store: Store):  # type: ignore[no-untyped-def]
    from lakesweep.format.schema import parse_schema
    from lakesweep.model.paths.layout import layout_of

    return layout_of([parse_schema(store.read("schema/schema-0").data, "schema/schema-0")])


@pytest.mark.parametrize("key", ["snapshot/snapshot-1", "schema/schema-0", "x/schema/anything", "x/snapshot/LATEST"])
def test_an_owned_root_that_holds_a_table_is_refused(key: str) -> None:
    """Whatever lies in its `snapshot/` or `schema/`, everything in the root stays."""
    scene = OrphanScene(external=OUTSIDE)
    scene.table.commit("+A", external={"A": f"{OUTSIDE}/{FOLDER}data-{unique('A')}-0.parquet"})
    assert scene.external is not None
    scene.external.put(f"{FOLDER}data-{unique('c')}-0.parquet", b"orphan")
    scene.external.put(key, b"{}")
    scene.age()
    code, message = scene.refusal(owned_external=[OUTSIDE])
    assert code == "owned_root_holds_tables"
    assert key in message


def test_an_owned_root_inside_a_table_is_refused() -> None:
    scene = OrphanScene(external=OUTSIDE)
    scene.table.commit("+A", external={"A": f"{OUTSIDE}/{FOLDER}data-{unique('A')}-0.parquet"})
    assert scene.external is not None
    above = MemoryStore("memory://outside", clock=lambda: scene.now_ms)
    above.put("schema/schema-0", b"{}")
    scene.age()
    stores = opener(scene.external, above)
    maintainer = replace(scene.maintainer(), open_store=stores)
    report = maintainer.run("remove-orphan-files", owned_external=[OUTSIDE])
    assert report.refusal is not None
    assert report.refusal.code == "external_root_refused"


def test_an_owned_root_that_is_the_control_location_is_refused() -> None:
    scene = OrphanScene(external="memory://control")
    scene.table.commit("+A", external={"A": f"memory://control/{FOLDER}data-{unique('A')}-0.parquet"})
    scene.age()
    code, _ = scene.refusal(owned_external=["memory://control"])
    assert code == "external_root_refused"


# A deployment.


def test_no_message_widens_what_a_deployment_allows() -> None:
    scene = Scene()
    for bound in ((), ("memory://outside/elsewhere",), (f"{OUTSIDE}/below",)):
        table = replace(scene.maintainer().table, allowance=Allowance((OUTSIDE,), bound))
        with pytest.raises(RefusedError, match="this deployment does not let files below") as raised:
            allowed_roots(table)
        assert raised.value.code == "external_root_not_allowed"
    table = replace(scene.maintainer().table, allowance=Allowance((f"{OUTSIDE}/dt=1",), (OUTSIDE,)))
    assert allowed_roots(table) == (OUTSIDE,)


@pytest.mark.parametrize(
    ("stated", "bound", "allowed"),
    [
        ([OUTSIDE], None, (OUTSIDE,)),
        ([], None, ()),
        ([OUTSIDE], (), ()),
        ([f"{OUTSIDE}/a", "memory://other/p"], (OUTSIDE,), (f"{OUTSIDE}/a",)),
        ([], (OUTSIDE,), ()),
        (None, (OUTSIDE,), (OUTSIDE,)),
    ],
)
def test_the_fleet_policy_allows_within_the_deployment(
    stated: list[str] | None, bound: tuple[str, ...] | None, allowed: tuple[str, ...]
) -> None:
    scene = Scene()
    policies = MemoryStore("memory://ops")
    rule = {"tables": scene.store.location, **({} if stated is None else {"external_roots": stated})}
    policies.put("policy.json", json.dumps({"version": 1, "rules": [rule]}).encode())
    table = replace(
        scene.maintainer().table,
        open_store=opener(policies),
        policy="memory://ops/policy.json",
        allowance=Allowance((), bound),
    )
    assert allowed_roots(table) == allowed


# S3.


@pytest.mark.parametrize("kind", ["another bucket", "a local folder", "a prefix of the name", "the whole bucket"])
def test_a_table_on_s3(kind: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    """Not another bucket, not another kind of store, whatever else is allowed; and not the place above the table."""
    bucket, other = fresh_bucket(), fresh_bucket()
    name = f"bucket-0/data-{unique('F')}-0.parquet"
    (tmp_path / "bucket-0").mkdir()
    (tmp_path / name).write_bytes(b"somebody's")
    places = {
        "another bucket": (f"s3a://{other}/ext", (f"s3://{bucket}/ext",)),
        "a local folder": (f"file://{tmp_path}", (str(tmp_path), f"file://{tmp_path}")),
        "a prefix of the name": (f"s3://{bucket}/ext2", (f"s3://{bucket}/ext",)),
        "the whole bucket": (f"s3n://{bucket}/ext", (f"s3://{bucket}",)),
    }
    root, allowed = places[kind]
    store = moto_store("wh/t", bucket=bucket)
    victim = open_store(root, settings=moto_settings())
    table = TableBuilder(store, externals={root: victim})
    table.commit("+F", external={"F": f"{root}/{name}"})
    table.commit("-F", "+G")
    before = {entry.key for entry in victim.list("")}
    assert name in before
    maintainer = Maintainer(
        store, open_store=lambda location: open_store(location, settings=moto_settings()), external_roots=allowed
    )
    report = maintainer.expire()
    assert report.status == "done"
    assert report.plan is not None
    code = {"a local folder": "external_other_store", "the whole bucket": "external_root_refused"}
    assert report.plan.header.kept[code.get(kind, "external_root_not_allowed")] == 1
    assert {entry.key for entry in victim.list("")} == before
    assert_roots_readable(table)


def test_an_allowed_root_on_s3_in_any_spelling() -> None:
    bucket, other = fresh_bucket(), fresh_bucket()
    name = f"bucket-0/data-{unique('F')}-0.parquet"
    store = moto_store("wh/t", bucket=bucket)
    outside = moto_store("ext", bucket=other)
    root = f"s3a://{other}//ext/"
    table = TableBuilder(store, externals={root: outside})
    table.commit("+F", external={"F": f"{root}{name}"})
    table.commit("-F", "+G")
    maintainer = Maintainer(store, open_store=lambda location: open_store(location, settings=moto_settings()))
    report = maintainer.run("expire-snapshots", retain_max=1, retain_min=1, external_roots=[f"s3n://{other}/ext//"])
    assert report.status == "done"
    assert list(outside.list("")) == []


def test_the_schema_and_the_plan_of_a_table_name_roots_in_vain() -> None:
    """What a plan says of its own arguments is no allowance either."""
    scene, key, plan_id = orphans()
    assert scene.external is not None
    table = scene.maintainer().table
    assert table.area is not None
    assert load_plan(table.area, plan_id).header.arguments["owned_external"] == [OUTSIDE]
    assert execute_stored(table, plan_id).status == "done"
    assert key in {entry.key for entry in scene.external.list("")}
