"""What a first look knows of a table, and what comes of a call that chooses its engine."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from lakesweep.control.plans import store_plan
from lakesweep.control.scan_history import PastScan, note_scan, read_history
from lakesweep.errors import RefusedError, StorageError, UsageError
from lakesweep.model.plan import Plan
from lakesweep.model.report import RunReport
from lakesweep.model.scans import Available, Facts, LocalFacts, OrphanArguments, SparkFacts
from lakesweep.operations.orphans.backends import choose, facts_of, refined
from lakesweep.operations.orphans.costs import compare, happened, note_fan_out
from lakesweep.operations.orphans.local import plan_remove_orphan_files
from lakesweep.operations.orphans.remove import remove_orphan_files
from lakesweep.operations.registry import run_operation
from lakesweep.runs.session import RemoteBackend, ScanBackend, Table
from lakesweep.table.reach.capture import capture
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.orphan_scene import DAY_MS, OrphanScene, S3Scene

PROBE_REQUESTS = 12
NOTHING = OrphanArguments()


@pytest.fixture
def scene() -> OrphanScene:
    """Six commits of two files, of which each replaces one; a tag, a branch, two orphans."""
    scene = OrphanScene()
    scene.table.commit("+F1", "+G1")
    for number in range(2, 7):
        scene.table.commit(f"-F{number - 1}", f"+F{number}", f"+G{number}")
    scene.table.tag("t", 3)
    scene.table.hint("LATEST", 6)
    for label in ("a", "b"):
        scene.orphan(label)
    scene.age()
    return scene


def table_of(scene: OrphanScene, available: Available | None = None, **engines: ScanBackend) -> Table:
    """Return the table with what is there to choose from, and a list of what was said."""
    said: list[str] = []
    table = replace(scene.maintainer().table, available=available, scan_backends=engines, say=said.append)
    SAID[id(table.counter)] = said
    return table


SAID: dict[int, list[str]] = {}


def said_of(table: Table) -> list[str]:
    return SAID[id(table.counter)]


@dataclass
class Elsewhere:
    """An engine that is not this process, as Spark is."""

    finished_with: list[RunReport] = field(default_factory=list)

    def plan(self, table: Table, arguments: OrphanArguments) -> Plan:
        return plan_remove_orphan_files(table, arguments)

    def finished(self, table: Table, report: RunReport) -> None:
        self.finished_with.append(report)


@dataclass
class Remote(Elsewhere):
    """One that stores its plan, as functions do."""

    estimate: Mapping[str, object] | None = None
    happened: Mapping[str, object] | None = None

    def plan(self, table: Table, arguments: OrphanArguments) -> Plan:
        plan = plan_remove_orphan_files(table, arguments)
        assert table.area is not None
        if not plan.is_empty:
            store_plan(table.area, plan)
        self.estimate = {"requests": {"get": 10}, "usd": 0.5, "seconds": 2.0}
        self.happened = happened("lambda", {"get": 11}, 3.0, self.estimate)
        return plan


def test_a_first_look(scene: OrphanScene) -> None:
    """Roots and manifests are counted; files follow from what the newest snapshot says."""
    facts = facts_of(table_of(scene), NOTHING, Available())
    assert (facts.roots, facts.lists, facts.branches, facts.schemas) == (7, 12, 0, 1)
    assert facts.manifests >= 6
    assert facts.objects_from == "probe"
    assert 20 <= facts.objects <= 45
    assert len(scene.listed()) == pytest.approx(facts.objects, rel=0.25)


def test_a_first_look_takes_a_dozen_requests(scene: OrphanScene) -> None:
    """However large a table is."""
    store = CountingStore(scene.store)
    table = replace(scene.maintainer().table, store=store)
    facts_of(table, NOTHING, Available())
    assert store.requests <= PROBE_REQUESTS


class CountingStore:
    """Counts pages and reads of a store."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.requests = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list_range(self, *words: Any) -> Any:
        for page in self._store.list_range(*words):
            self.requests += 1
            yield page

    def read(self, *words: Any, **more: Any) -> Any:
        self.requests += 1
        return self._store.read(*words, **more)


@pytest.mark.parametrize("path", ["snapshot/snapshot-6", "lists", "snapshot/LATEST"])
def test_what_cannot_be_read_is_not_known(scene: OrphanScene, path: str) -> None:
    """A first look concludes nothing from damage, and stops nothing: the scan will say what is wrong."""
    if path == "lists":
        for key in scene.listed():
            if key.startswith("manifest/manifest-list-"):
                scene.put(key, b"garbage")
    else:
        scene.put(path, b"garbage")
    facts = facts_of(table_of(scene), NOTHING, Available())
    assert facts.objects > 0
    assert facts.roots == 7


def test_nothing_there() -> None:
    """No table at all."""
    scene = OrphanScene()
    facts = facts_of(scene.maintainer(MemoryStore("memory://bucket/none")).table, NOTHING, Available())
    assert (facts.objects, facts.roots) == (0, 0)
    assert choose(scene.maintainer(MemoryStore("memory://bucket/none")).table, NOTHING, Available()).engine == "local"


def test_a_request_that_fails_is_an_error(scene: OrphanScene) -> None:
    """Not the same as nothing there."""

    class Failing(CountingStore):
        def list_range(self, *words: Any) -> Any:
            raise StorageError("no")

    with pytest.raises(StorageError):
        facts_of(replace(scene.maintainer().table, store=Failing(scene.store)), NOTHING, Available())


def past(**more: Any) -> PastScan:
    usual = PastScan("lambda", 0, 1, "planned", objects=1000, bytes=1, roots=6, manifests=6, latest_id=6)
    return replace(usual, **more)


@pytest.mark.parametrize(
    ("scans", "objects"),
    [
        ([past()], 1000),
        ([past(deleted=100)], 900),
        ([past(latest_id=4)], 1000 + 2 * 1),
        ([past(latest_id=None)], 1000),
        ([past(), past(began_ms=5, objects=700)], 700),
        ([past(), past(began_ms=5, objects=700, inventory=True)], 1000),
        ([past(objects=3, deleted=9)], 0),
    ],
)
def test_the_last_scan_knows_better(scene: OrphanScene, scans: list[PastScan], objects: int) -> None:
    """It has seen the orphans, too. What commits added since, and what went, counts."""
    table = table_of(scene)
    assert table.area is not None
    for scan in scans:
        note_scan(table.area, scan)
    facts = facts_of(table, NOTHING, Available())
    assert (facts.objects, facts.objects_from) == (objects, "last_run")


def test_manifests_since_the_last_scan(scene: OrphanScene) -> None:
    """What functions decoded before is not decoded again, for as long as it is kept."""
    table = table_of(scene)
    assert table.area is not None
    assert facts_of(table, NOTHING, Available()).new_manifests is None
    note_scan(table.area, past(engine="local", began_ms=scene.now_ms))
    assert facts_of(table, NOTHING, Available()).new_manifests is None
    note_scan(table.area, past(began_ms=scene.now_ms))
    facts = facts_of(table, NOTHING, Available())
    assert (facts.new_manifests, facts.new_entries, facts.segments) == (0, 0, 1)
    scene.table.commit("+H")
    scene.age(1)
    facts = facts_of(table, NOTHING, Available())
    assert facts.new_manifests == 1
    scene.age(41 * DAY_MS)
    assert facts_of(table, NOTHING, Available()).new_manifests is None


@pytest.mark.parametrize(("times", "objects_from"), [(None, "probe"), (0.5, "probe"), (1.5, "metrics"), (2.5, "probe")])
def test_metrics_of_a_bucket(scene: OrphanScene, times: float | None, objects_from: str) -> None:
    """They count where the bucket holds little else."""
    guessed = facts_of(table_of(scene), NOTHING, Available()).objects
    counted = None if times is None else int(guessed * times)
    facts = facts_of(table_of(scene), NOTHING, Available(objects_in_bucket=lambda: counted))
    assert (facts.objects, facts.objects_from) == (counted if objects_from == "metrics" else guessed, objects_from)


def test_what_the_caller_says_counts(scene: OrphanScene) -> None:
    """And decides."""
    spark = SparkFacts(executors=4, cores=4, start_s=60.0)
    found = choose(table_of(scene), NOTHING, Available(objects=10**9, spark=lambda objects: spark))
    assert found.engine == "spark"
    assert found.reason.startswith("1 000 000 000 objects (as the caller says): spark")


def test_what_the_roots_tell(scene: OrphanScene) -> None:
    """Once they are read, everything but orphans is known."""
    found = capture(scene.store, lambda seconds: None, lambda listing: None)
    metas = {meta.file_name: meta for root in found.roots.values() for meta in metas_of(found, root)}
    facts = refined(Facts(0, "probe"), found, metas.values(), list(metas.values())[:2], segments=1)
    assert (facts.roots, facts.manifests, facts.new_manifests, facts.segments) == (7, len(metas), 2, 1)
    assert facts.entries == sum(meta.added_count + meta.deleted_count for meta in metas.values())
    assert facts.objects == pytest.approx(len(scene.listed()), abs=5)
    assert refined(replace(facts, objects=5, objects_from="argument"), found, (), (), 0).objects == 5


def metas_of(found: Any, root: Any) -> Any:
    names = [root.snapshot.base_manifest_list, root.snapshot.delta_manifest_list]
    return [meta for content in found.reader.manifest_lists(dict.fromkeys(names)).values() for meta in content]


def test_auto_says_why_and_what_it_took(scene: OrphanScene) -> None:
    """Before and after; the report has the same, and the next call knows."""
    table = table_of(scene, Available(local=LocalFacts(8192, 3600.0)))
    report = run_operation(table, "remove-orphan-files", {"engine": "auto"}, execute=False)
    before, after = said_of(table)
    assert before.startswith("engine local: ")
    assert "objects (by a first look): local, since it fits; estimated" in before
    assert after.startswith("engine local: estimated ")
    assert "; counted " in after
    engine = report.to_json()["engine"]
    assert isinstance(engine, dict)
    assert engine["name"] == "local"
    assert engine["reason"] in before
    assert engine["estimate"]["engine"] == engine["happened"]["engine"] == "local"
    assert json.loads(json.dumps(engine)) == engine
    assert table.area is not None
    (noted,) = read_history(table.area)
    assert (noted.engine, noted.status, noted.objects) == ("local", "planned", len(scene.listed()))
    assert noted.estimate == engine["estimate"]
    assert noted.reason == engine["reason"]
    again = choose(table, NOTHING, Available())
    assert f"{noted.objects} objects (by the last scan)" in again.reason


def test_without_a_word_nothing_is_said(scene: OrphanScene) -> None:
    """The default is this process; its report is as it was, and what it found is remembered all the same."""
    table = table_of(scene, Available())
    report = run_operation(table, "remove-orphan-files", {}, execute=True)
    assert "engine" not in report.to_json()
    assert said_of(table) == []
    assert table.area is not None
    (noted,) = read_history(table.area)
    assert (noted.status, noted.deleted, noted.estimate) == ("done", 2, None)


def test_a_run_that_finds_nothing_writes_nothing(scene: OrphanScene) -> None:
    """Neither a plan nor a history; with a quarantine something is written anyway."""
    scene.remove()
    control = MemoryStore("memory://control-2")
    table = scene.maintainer(control=control).table
    report = remove_orphan_files(table, NOTHING, None, execute=False)
    assert report.status == "nothing_to_do"
    assert list(control.list("")) == []
    remove_orphan_files(table, OrphanArguments(quarantine_ms=1), None, execute=False)
    assert table.area is not None
    assert len(read_history(table.area)) == 1


def test_auto_with_nothing_to_choose_from_is_local(scene: OrphanScene) -> None:
    """Callers that know of no engines."""
    table = table_of(scene)
    report = run_operation(table, "remove-orphan-files", {"engine": "auto"}, execute=False)
    assert report.engine is not None
    assert (report.engine["name"], report.engine["reason"]) == ("local", None)
    assert said_of(table) == []


def test_auto_takes_what_is_there(scene: OrphanScene) -> None:
    """A table that outgrows one process goes elsewhere."""
    elsewhere = Elsewhere()
    available = Available(local=LocalFacts(memory_mib=100), spark=lambda objects: SparkFacts())
    table = table_of(scene, available, spark=elsewhere)
    report = run_operation(table, "remove-orphan-files", {"engine": "auto"}, execute=False)
    assert report.engine is not None
    assert report.engine["name"] == "spark"
    assert "one process would take 80 MiB of 100" in str(report.engine["reason"])
    assert elsewhere.finished_with[0].status == "planned"


@pytest.mark.parametrize(("engine", "code"), [("lambda", "no_functions"), ("spark", "no_spark")])
def test_an_engine_that_is_not_there(scene: OrphanScene, engine: str, code: str) -> None:
    """Is refused, and not replaced by another."""
    with pytest.raises(UsageError) as caught:
        run_operation(table_of(scene, Available()), "remove-orphan-files", {"engine": engine}, execute=True)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("mode", "engine", "expected"),
    [
        ("local", None, "local"),
        ("local", "auto", "local"),
        ("local", "local", "local"),
        ("distributed", None, "spark"),
        ("distributed", "auto", "spark"),
        ("local", "spark", None),
        ("distributed", "local", None),
        ("distributed", "lambda", None),
    ],
)
def test_modes_of_the_procedure(scene: OrphanScene, mode: str, engine: str | None, expected: str | None) -> None:
    """Its words mean one engine each."""
    table = table_of(scene, Available(), spark=Elsewhere())
    words = {"mode": mode, "engine": engine}
    if expected is None:
        with pytest.raises(UsageError, match="expected one of the two"):
            run_operation(table, "remove-orphan-files", words, execute=False)
        return
    report = run_operation(table, "remove-orphan-files", words, execute=False)
    assert report.engine is None or report.engine["name"] == expected


@pytest.mark.parametrize("execute", [False, True])
def test_a_plan_that_others_stored(scene: OrphanScene, execute: bool) -> None:
    """It is shown, or carried out, and not stored once more. What they counted counts."""
    remote = Remote()
    assert isinstance(remote, RemoteBackend)
    assert not isinstance(Elsewhere(), RemoteBackend)
    table = table_of(scene, Available(), **{"lambda": remote})
    before = scene.listed()
    report = run_operation(table, "remove-orphan-files", {"engine": "lambda"}, execute=execute)
    assert report.status == ("done" if execute else "planned")
    assert len(before - scene.listed()) == (2 if execute else 0)
    assert report.engine is not None
    assert report.engine["happened"] == remote.happened
    assert said_of(table)[-1] == (
        "engine lambda: estimated 10 requests, 0.500 USD, 2 s; counted 11 (+10.0 %), 0.500 USD, 3 s"
    )
    assert table.area is not None
    assert read_history(table.area) == ()  # the scan notes it itself


def test_others_find_nothing(scene: OrphanScene) -> None:
    """Then there is no plan to carry out."""
    scene.remove()
    table = table_of(scene, Available(), **{"lambda": Remote()})
    report = run_operation(table, "remove-orphan-files", {"engine": "lambda"}, execute=True)
    assert report.status == "nothing_to_do"


def test_others_refuse(scene: OrphanScene) -> None:
    """Their sentence is that of the report."""

    class Refusing(Remote):
        def plan(self, table: Table, arguments: OrphanArguments) -> Plan:
            raise RefusedError("table t: no roots", code="no_roots")

    table = table_of(scene, Available(), **{"lambda": Refusing()})
    report = run_operation(table, "remove-orphan-files", {"engine": "lambda"}, execute=True)
    assert report.refusal is not None
    assert (report.status, report.refusal.code) == ("refused", "no_roots")


def test_what_a_scan_by_functions_leaves(scene: OrphanScene) -> None:
    """Its result becomes a row of the history, once."""
    table = table_of(scene)
    plan = plan_remove_orphan_files(table, NOTHING)
    result = {
        "status": "planned",
        "began_ms": 5,
        "ended_ms": 65_005,
        "requests": {"get": 7, "list": 3},
        "entries": 40,
        "entries_decoded": 4,
        "estimate": {"usd": 1.0, "requests": {"get": 8}},
        "reason": "why",
    }
    for _ in range(2):
        note_fan_out(table, result, plan)
    assert table.area is not None
    (noted,) = read_history(table.area)
    assert (noted.engine, noted.seconds, noted.entries, noted.entries_decoded) == ("lambda", 65.0, 40, 4)
    assert (noted.requests, noted.reason) == ({"get": 7, "list": 3}, "why")
    assert noted.usd == pytest.approx(1.0, abs=0.001)
    for useless in ({}, {**result, "requests": None}, {**result, "began_ms": "5"}):
        note_fan_out(table, useless, plan)
    note_fan_out(table, result, None)
    assert len(read_history(table.area)) == 1


def test_comparisons() -> None:
    """In figures, with the difference in per cent; also of documents that say little."""
    estimate = {"requests": {"get": 1000, "list": 234}, "usd": 0.00401, "seconds": 61.0}
    what = happened("local", {"get": 1000, "list": 240, "put": 0}, 59.96, estimate)
    assert what["requests"] == {"get": 1000, "list": 240}
    assert compare(estimate, what) == (
        "estimated 1 234 requests, 0.0040 USD, 61 s; counted 1 240 (+0.5 %), 0.0040 USD, 60 s"
    )
    assert compare({}, {}) == "estimated 0 requests, 0.0000 USD, 0 s; counted 0, 0.0000 USD, 0 s"
    assert happened("local", {"get": 1000}, 1.0, None, is_paid=False)["usd"] == 0.0


def test_a_maintainer_knows_of_no_engines() -> None:
    """The default of a table."""
    assert Maintainer(MemoryStore("memory://b/t")).table.scan_backends == {}


def test_a_first_look_at_s3() -> None:
    """There requests are counted as they are sent; with a history it takes one more."""
    scene = S3Scene()
    for number in range(1, 4):
        scene.table.commit(f"+F{number}")
    scene.table.hint("LATEST", 3)
    before = scene.store._counter.snapshot()
    facts = facts_of(scene.maintainer().table, NOTHING, Available())
    counted = {kind: count - before[kind] for kind, count in scene.store._counter.snapshot().items()}
    assert facts.roots == 3
    assert sum(counted.values()) <= PROBE_REQUESTS
    assert counted["put"] == 0
