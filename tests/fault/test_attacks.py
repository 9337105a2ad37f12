"""Attacks: odd metadata, odd names, and people who act on a table between the steps of a run.

Each is the smallest case of one way to lose a file that a root needs, to leave a table worse than before, or to make a
run crash or never end.
"""

import io
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pytest

from lakesweep.control.area import ControlArea
from lakesweep.errors import FormatError, MaintenanceError, StorageError
from lakesweep.operations.retention.expire_changelogs import ExpireChangelogsArguments, plan_expire_changelogs
from lakesweep.operations.retention.expire_consumers import ConsumerArguments, plan_expire_consumers
from lakesweep.runs.run import plan_and_execute
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import DeleteRequest
from tests.support import metadata_files
from tests.support.content_store import ContentStore
from tests.support.faulty_store import ProcessDeathError, Switch
from tests.support.maintenance import Maintainer, assert_roots_readable
from tests.support.memory_store import MemoryStore
from tests.support.outside import opener
from tests.support.reader import all_roots, assert_all_readable
from tests.support.table_builder import TableBuilder
from tests.support.world import World

Act = tuple[Callable[[str], bool], Callable[[], object]]


class _ActingSwitch(Switch):
    """Does one thing after another, each right before the first request that it waits for, and may die in the end."""

    def __init__(self, *acts: Act, dies_at: str | None = None) -> None:
        super().__init__(mode="death")
        self._acts = list(acts)
        self._dies_at = dies_at

    def _run(self, name: str, call: Callable[[], object]) -> object:
        if self._acts and self._acts[0][0](name):
            self._acts.pop(0)[1]()
        elif not self._acts and name == self._dies_at:
            self.at = len(self.calls) + 1
        return super()._run(name, call)


def documents_are_gone(stage: World) -> Callable[[str], bool]:
    """Know the first look after the snapshot documents went."""
    look = ("table folders", "table list snapshot/")
    return lambda name: name in look and not stage.table.exists("snapshot/snapshot-1")


# Names.


@pytest.mark.parametrize("kind", ["data", "extra", "changelog", "index"])
def test_an_external_file_is_found_by_its_own_name(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name in the external path need not be the name of the entry."""
    for record in (metadata_files.DataFile, metadata_files.IndexFile):
        monkeypatch.setattr(record, "record", _named_otherwise(record.record))
    outside = MemoryStore("memory://other/p")
    stage = World(externals={outside.location: outside}, options={"changelog-producer": "input"})
    table, unique = stage.table, "11111111-2222-3333-4444-555555555555"
    if kind == "index":
        table.commit("+A", index={"F": {"A": (1,)}}, external={"F": f"{outside.location}/index-{unique}-0"})
    elif kind == "changelog":
        place = f"{outside.location}/bucket-0/changelog-{unique}-0.parquet"
        table.commit("+A", changelog=["+F"], external={"F": place})
    else:
        name = f"data-{unique}-0.parquet"
        extra = {"F": [f"{name}.index"]} if kind == "extra" else None
        table.commit("+F", external={"F": f"{outside.location}/bucket-0/{name}"}, extra=extra)
    table.tag("t")
    table.branch("b", from_tag="t")
    table.remove("branch/branch-b/tag/tag-t")
    table.remove("tag/tag-t")
    table.commit("-F" if kind in ("data", "extra") else "-A", "+B", index={})
    table.commit("+C")
    there = {entry.key for entry in outside.list("")}
    assert len(there) == (2 if kind == "extra" else 1)
    roots = (outside.location,)
    report = stage.maintainer(open_store=opener(outside), external_roots=roots).expire()
    assert report.status == "done"
    assert report.plan is not None
    assert not [why for why in report.plan.header.kept if "external" in why], "a root that needs it is why it stays"
    assert {entry.key for entry in outside.list("")} == there
    assert_all_readable(table)


def _named_otherwise(record: Callable[[Any], dict[str, Any]]) -> Callable[[Any], dict[str, Any]]:
    def named(file: Any) -> dict[str, Any]:
        name = {"_FILE_NAME": f"entry-of-{file.name}"} if file.is_external else {}
        return record(file) | name

    return named


@pytest.mark.parametrize(
    "name", ["a/b", "success-file/x", "x" * 200, "ü ñ", "snapshot/snapshot-1", "success-file", "1"]
)
def test_a_tag_may_be_called_anything(name: str) -> None:
    stage = World()
    stage.replace_each(3)
    stage.table.tag(name, snapshot=1)
    try:
        stage.maintainer().expire()
    except MaintenanceError:
        pass
    assert stage.table.exists(f"tag/tag-{name}")
    assert stage.table.exists("F1")


def test_what_java_writes_for_a_tag_that_is_done_is_no_tag() -> None:
    stage = World()
    stage.replace_each(3)
    stage.store.put("tag/tag-success-file/t_SUCCESS", b'{"creationTime": 1, "modificationTime": 1}')
    assert stage.maintainer().expire().status == "done"


@pytest.mark.parametrize("name", ["a/b", "a/snapshot", "tag", "snapshot", "a/tag/tag-x", "consumer/x", "branch-x", "ü"])
def test_a_branch_may_be_called_anything(name: str) -> None:
    stage = World()
    stage.replace_each(2)
    stage.table.tag("t", snapshot=1)
    stage.table.branch(name, from_tag="t")
    stage.table.remove("tag/tag-t")
    stage.table.remove(f"branch/branch-{name}/tag/tag-t")
    simple_more(stage, "+X")
    try:
        stage.maintainer().expire()
    except MaintenanceError:
        pass
    assert stage.table.exists("F1")


def simple_more(stage: World, *entries: str) -> None:
    stage.table.commit(*entries)
    stage.now_ms += 3_600_000


def test_a_folder_of_a_branch_called_main_is_not_the_main_branch() -> None:
    stage = World()
    stage.replace_each(3)
    document = stage.table.document("snapshot/snapshot-3") | {"id": 100}
    stage.store.put("branch/branch-main/snapshot/snapshot-100", json.dumps(document).encode())
    try:
        stage.maintainer().expire()
    except MaintenanceError:
        pass
    assert stage.table.exists("snapshot/snapshot-3")


def test_a_branch_with_a_slash_can_be_finished() -> None:
    """What a run may do, the next one may finish."""
    stage = World()
    stage.replace_each(2)
    stage.table.tag("t", snapshot=1)
    branch = stage.table.branch("a/b", from_tag="t")
    branch.commit("-F1", "+X1")
    branch.commit("-X1", "+X2")
    stage.now_ms += 3_600_000
    report = stage.maintainer(branch="a/b").plan()
    if report.status == "planned":
        assert report.plan is not None
        assert stage.maintainer(branch="a/b").execute(report.plan.header.plan_id).status == "done"
    assert_roots_readable(stage.table)


# Hostile metadata.


def test_an_external_path_cannot_lead_back_into_the_table() -> None:
    """A declared root may contain the table; snapshots, schemas and tags are no data files all the same."""
    outside = MemoryStore("s3://bucket/w")
    stage = World(externals={"s3://bucket/w": outside})
    stage.store._location = "s3://bucket/w/t"
    table = stage.table
    table.commit("+A", external={"A": "s3://bucket/w/t/schema/schema-0"})
    table.commit("-A", "+B")
    table.commit("+C")
    outside.put("t/schema/schema-0", b"the same object, seen from the other store")
    try:
        stage.maintainer(open_store=lambda location: outside).expire()
    except MaintenanceError:
        pass
    assert [entry.key for entry in outside.list("")] == ["t/schema/schema-0"]


@pytest.mark.parametrize("root", ["hdfs://namenode/p", "oss://b/p"])
def test_files_in_a_store_that_cannot_be_opened_stay(root: str) -> None:
    """That must be known before the first document goes."""
    from lakesweep.storage.open import open_store

    outside = MemoryStore(root)
    stage = World(externals={root: outside})
    table = stage.table
    table.commit("+A", external={"A": f"{root}/bucket-0/a.parquet"})
    table.commit("-A", "+B")
    table.commit("+C")
    try:
        report = stage.maintainer(open_store=open_store).expire()
        assert report.status in ("done", "refused")
    except MaintenanceError:
        assert stage.ids() == [1, 2, 3]
    assert_all_readable(table)


def test_an_index_file_that_is_a_data_file_stays() -> None:
    """An index manifest that goes names a file that the newest snapshot holds as data."""
    stage = World(options={"index-file-in-data-file-dir": "true"})
    table = stage.table
    table.commit("+A", "+Z")
    table.commit("+B", index={"i1": {"Z": (1,)}})
    table.commit("+C", index={"i2": {"Z": (1, 2)}})
    stage.now_ms += 3_600_000
    name = table.path("A").rpartition("/")[2]
    path = f"manifest/{table.document('snapshot/snapshot-2')['indexManifest']}"
    reader = fastavro.reader(io.BytesIO(stage.store.read(path).data))
    rows = [dict(row) | {"_FILE_NAME": name} for row in reader]
    forged = io.BytesIO()
    fastavro.writer(forged, reader.writer_schema, rows)
    stage.store.put(path, forged.getvalue())
    stage.maintainer().expire()
    assert table.exists("A")


@pytest.mark.parametrize("time_ms", [-(10**17), 10**17, -1, 9_223_372_036_854_775_807, -9_223_372_036_854_775_808])
def test_odd_commit_times_do_no_harm(time_ms: int) -> None:
    stage = World()
    for number in range(1, 5):
        stage.table.commit(f"+F{number}", time_ms=time_ms)
    stage.now_ms += 3_600_000
    maintainer = stage.maintainer()
    for time_retained in ("1 h", "1000000 d"):
        try:
            maintainer.plan(retain_max=None, options={"snapshot.time-retained": time_retained})
        except MaintenanceError:
            pass


# The newest snapshot.


@pytest.mark.parametrize("merged", [False, True])
def test_a_damaged_newest_manifest_refuses_though_no_data_file_goes(merged: bool) -> None:
    """Older snapshots may be all that is left to go back to; here none of them ever lost a file."""
    stage = World()
    stage.table.commit("+A")
    stage.table.commit("+B")
    stage.table.commit("+C")
    if merged:
        stage.table.merge_manifests()
    stage.now_ms += 3_600_000
    head = stage.table.model(f"snapshot/snapshot-{4 if merged else 3}")
    stage.table.corrupt(f"manifest/{(head.base if merged else head.delta)[0].name}")
    report = stage.maintainer().expire()
    assert report.status == "refused", report
    assert stage.ids()[0] == 1


# Death, and what others do before the next run.


def test_documents_do_not_return_after_another_engine_has_expired_on() -> None:
    """A run dies between documents and files; the other engine expires past its end; the next run finds the plan stale.

    Documents that returned now would name files that are gone.
    """
    stage = World()
    stage.replace_each(6)
    gone = documents_are_gone(stage)
    stage.dies_before(gone, retain_max=3, retain_min=3)
    assert stage.ids() == [4, 5, 6]
    for number in range(7, 13):
        stage.table.commit(f"-F{number - 1}", f"+F{number}")
    stage.now_ms += 3_600_000
    # What the engine does: data files of deltas 5 to 11, documents 4 to 10, with their metadata.
    other = Maintainer(stage.store, control=MemoryStore("memory://elsewhere", clock=lambda: stage.now_ms))
    assert other.expire(retain_max=2, retain_min=2).status == "done"
    assert stage.ids() == [11, 12]
    stage.maintainer().expire(retain_max=100, retain_min=50)
    assert stage.ids() == [11, 12]
    assert_roots_readable(stage.table)


def test_documents_do_not_return_after_a_long_wait_for_readers() -> None:
    """The same within one run that waits for readers."""
    stage = World()
    stage.replace_each(6)
    done = False

    def meanwhile(seconds: float) -> None:
        nonlocal done
        stage.sleep(seconds)
        if not done:
            done = True
            for number in range(7, 13):
                stage.table.commit(f"-F{number - 1}", f"+F{number}")
            stage.now_ms += 3_600_000
            other = Maintainer(stage.store, control=MemoryStore("memory://elsewhere", clock=lambda: stage.now_ms))
            assert other.expire(retain_max=2, retain_min=2).status == "done"

    maintainer = replace(stage.maintainer(), sleep=meanwhile)
    try:
        plan_and_execute(maintainer.table, "expire-snapshots", maintainer.planner(3, 3), grace_ms=7_200_000)
    except MaintenanceError:
        pass
    assert stage.ids() == [11, 12]
    assert_roots_readable(stage.table)


def test_documents_that_somebody_put_back_keep_their_files() -> None:
    """A run dies after the documents. Somebody brings them back to the byte (ETags follow from content) and is glad."""
    stage = World(store=ContentStore)
    stage.replace_each(6)
    bodies = {key: stage.store.read(key).data for key in all_roots(stage.store)}
    stage.dies_before(documents_are_gone(stage), retain_max=3, retain_min=3)
    for key, body in bodies.items():
        stage.store.put(key, body)
    stage.maintainer().expire(retain_max=100, retain_min=50)
    assert_all_readable(stage.table)


def test_documents_that_somebody_puts_back_while_a_run_waits_keep_their_files() -> None:
    stage = World(store=ContentStore)
    stage.replace_each(6)
    bodies = {key: stage.store.read(key).data for key in all_roots(stage.store)}

    def put_back(seconds: float) -> None:
        stage.sleep(seconds)
        for key, body in bodies.items():
            stage.store.put(key, body)

    maintainer = replace(stage.maintainer(), sleep=put_back)
    plan_and_execute(maintainer.table, "expire-snapshots", maintainer.planner(3, 3), grace_ms=60_000)
    assert_all_readable(stage.table)


def test_a_restore_that_dies_is_not_the_end_of_what_it_restored() -> None:
    """A consumer stops a plan after its documents, the restore fails half-way, and then the consumer leaves."""
    stage = World(store=ContentStore)
    stage.replace_each(6)
    when = documents_are_gone(stage)

    def register() -> None:
        stage.table.consumer("c", 2)

    stage.switch = _ActingSwitch((when, register), dies_at="table put snapshot/EARLIEST")
    with pytest.raises(ProcessDeathError):
        stage.maintainer().expire(retain_max=3, retain_min=3)
    assert stage.ids() == [1, 2, 3, 4, 5, 6]
    stage.switch = Switch()
    stage.wait()
    stage.store.delete([DeleteRequest("consumer/consumer-c")])
    stage.maintainer().expire(retain_max=100, retain_min=50)
    assert_all_readable(stage.table)


def test_a_rollback_target_returns_although_the_run_that_took_it_died() -> None:
    """A rollback read its target before the documents went, and ends after the run died: nothing is left but a hint."""
    stage = World()
    stage.replace_each(6)
    stage.dies_before(documents_are_gone(stage), retain_max=3, retain_min=3)
    stage.table.hint("LATEST", 2)
    for number in (6, 5, 4):
        stage.store.delete([DeleteRequest(f"snapshot/snapshot-{number}")])
    stage.now_ms += 60_000
    try:
        stage.maintainer().expire(retain_max=100, retain_min=50)
    except MaintenanceError:
        pass
    assert 2 in stage.ids()
    assert 3 not in stage.ids()


def test_a_later_document_does_not_return_above_a_rollback_without_a_hint() -> None:
    """Somebody rolled back to a tag while a run was dead, by an engine that writes no LATEST."""
    stage = World()
    stage.replace_each(6)
    stage.table.tag("one", snapshot=1)
    stage.dies_before(documents_are_gone(stage), retain_max=3, retain_min=3)
    body = stage.store.read("tag/tag-one").data
    for number in (6, 5, 4):
        stage.store.delete([DeleteRequest(f"snapshot/snapshot-{number}")])
    stage.store.delete([DeleteRequest("snapshot/LATEST")])
    stage.store.put("snapshot/snapshot-1", body)
    stage.maintainer().expire(retain_max=100, retain_min=50)
    assert stage.ids() == [1]


def test_a_plan_that_ended_brings_nothing_back() -> None:
    """A run ends its plan and dies before it clears the intent; a plan of documents only has begun no file."""
    stage = World()
    stage.replace_each(6)
    # An unreadable tag keeps every file, so only documents go.
    stage.table.tag("t", snapshot=1)
    stage.table.corrupt(f"manifest/{stage.table.document('tag/tag-t')['deltaManifestList']}")
    stage.table.corrupt(f"manifest/{stage.table.document('tag/tag-t')['baseManifestList']}")
    ended = [False]

    def when(name: str) -> bool:
        hit = ended[0]
        ended[0] = ended[0] or "/reports/" in name
        return hit

    stage.dies_before(when, retain_max=3, retain_min=3)
    assert stage.ids() == [4, 5, 6]
    stage.store.delete([DeleteRequest("tag/tag-t")])
    for number in range(7, 13):
        stage.table.commit(f"-F{number - 1}", f"+F{number}")
    stage.now_ms += 3_600_000
    other = Maintainer(stage.store, control=MemoryStore("memory://elsewhere", clock=lambda: stage.now_ms))
    assert other.expire(retain_max=2, retain_min=2).status == "done"
    stage.maintainer().expire(retain_max=100, retain_min=50)
    assert stage.ids() == [11, 12]


def test_files_of_a_plan_whose_documents_went_unseen_are_finished_when_it_is_stale() -> None:
    """The process ended inside the request that deleted the documents, so no ledger says that they are gone."""
    stage = World()
    stage.replace_each(6)

    def when(name: str) -> bool:
        return name.startswith("control put") and name.endswith("-intent.ndjson.gz")

    stage.dies_before(when, retain_max=3, retain_min=3)
    assert stage.ids() == [4, 5, 6]
    stage.table.commit("-F6", "+F7")
    stage.table.consumer("c", 2)
    stage.maintainer().expire(retain_max=100, retain_min=50)
    assert_roots_readable(stage.table)
    # Either they returned whole or their files went as well.
    if stage.ids()[0] == 4:
        assert not stage.table.exists("F1")


@pytest.mark.parametrize("half_way", [False, True])
def test_documents_of_files_that_another_engine_took_do_not_return(half_way: bool) -> None:
    """Another engine is done with the same snapshots right before ours go; a consumer makes the plan stale after that.

    Args:
        half_way: It has still to remove the last document; engines may remove files first.
    """
    stage = World(store=ContentStore)
    stage.replace_each(6)
    last = stage.store.read("snapshot/snapshot-3").data

    def take() -> None:
        other = Maintainer(stage.store, control=MemoryStore("memory://elsewhere", clock=lambda: stage.now_ms))
        assert other.expire(retain_max=3, retain_min=3).status == "done"
        if half_way:
            stage.store.put("snapshot/snapshot-3", last)

    stage.switch = _ActingSwitch(
        (lambda name: name == "table delete 3", take),
        (lambda name: name == "table folders", lambda: stage.table.consumer("c", 2)),
    )
    assert stage.maintainer().expire(retain_max=3, retain_min=3).status == "stale"
    assert stage.ids() == [4, 5, 6]
    assert_roots_readable(stage.table)


def test_a_branch_that_appears_keeps_a_changelog_manifest_without_files() -> None:
    """The manifests of changelog lists that go are asked about although no changelog file goes."""
    stage = World()
    stage.table.commit("+A", changelog=[[]])
    stage.table.commit("-A", "+B")
    stage.table.commit("+C")
    stage.now_ms += 3_600_000
    planned = stage.maintainer().plan().plan
    assert planned is not None
    manifest = stage.table.model("snapshot/snapshot-1").changelog[0].name
    assert f"manifest/{manifest}" in {action.path for action in planned.actions}
    stage.table.tag("t", snapshot=1)
    stage.table.branch("b", from_tag="t")
    assert stage.maintainer().execute(planned.header.plan_id).status == "done"
    assert stage.table.exists(f"manifest/{manifest}")


def test_an_intent_without_its_plan_is_forgotten() -> None:
    stage = World()
    stage.replace_each(6)
    area = ControlArea(stage.control, stage.store.location)
    intent = {"plan_id": "lost", "branch": "main", "runs": ["x"], "end_id": 4, "created_ms": 1, "grace_ms": 0}
    lease = {"run_id": "x", "token": 1, "expires_at_ms": 0, "intent": intent}
    area.put("lease.json", json.dumps(lease).encode())
    report = stage.maintainer().expire(retain_max=3, retain_min=3)
    assert report.status == "refused"
    assert report.refusal is not None
    assert report.refusal.code == "begun_plan_lost"
    assert stage.maintainer().expire(retain_max=3, retain_min=3).status == "done"


# Consumers and changelogs.


def test_consumers_that_bind_changelogs_only_do_not_stop_snapshots() -> None:
    options = {
        "consumer.changelog-only": "true",
        "changelog.num-retained.max": "100",
        "changelog.num-retained.min": "20",
        "snapshot.num-retained.max": "10",
        "changelog-producer": "input",
    }
    stage = World(options=options, primary_keys=("k",))
    stage.replace_each(6)
    stage.table.consumer("c", 2)
    report = stage.maintainer().expire(retain_max=2)
    assert report.status == "done", report.refusal


def test_a_forgotten_consumer_of_an_empty_branch_goes() -> None:
    stage = World(options={"consumer.expiration-time": "1 h", "snapshot.time-retained": "1 h"})
    stage.table.consumer("c", 2)
    stage.now_ms += 7_200_000
    table = stage.maintainer().table

    def planner(target: Any) -> Any:
        return plan_expire_consumers(target, ConsumerArguments(), _limits())

    report = plan_and_execute(table, "expire-consumers", planner)
    assert report.status == "done", report.refusal
    assert not stage.table.exists("consumer/consumer-c")


def test_a_huge_consumer_is_not_loaded() -> None:
    stage = World()
    stage.replace_each(3)
    stage.store.put("consumer/consumer-x", b" " * (17 << 20))
    with pytest.raises(StorageError, match="at most"):
        stage.maintainer().expire()


def test_changelogs_do_not_return_above_a_rollback() -> None:
    """A rollback to a tag takes later changelogs with it; a stale expiry of changelogs must not bring them back."""
    options = {"changelog.num-retained.max": "100", "snapshot.num-retained.max": "10", "changelog-producer": "input"}
    stage = World(options=options, primary_keys=("k",))
    table = stage.table
    stage.replace_each(10)
    table.tag("two", snapshot=2)
    assert stage.maintainer().expire(retain_max=4).status == "done"
    assert sorted(key for key in all_roots(stage.store) if key.startswith("changelog/"))[0] == "changelog/changelog-1"
    body = stage.store.read("tag/tag-two").data

    def rollback() -> None:
        stage.store.put("snapshot/LATEST", b"2")
        for number in (10, 9, 8, 7):
            stage.store.delete([DeleteRequest(f"snapshot/snapshot-{number}")])
        for number in (6, 5, 4, 3):
            stage.store.delete([DeleteRequest(f"changelog/changelog-{number}")])
        stage.store.put("snapshot/snapshot-2", body)
        stage.now_ms += 60_000

    def when(name: str) -> bool:
        return name == "table folders" and not any(
            entry.key == "changelog/changelog-1" for entry in stage.store.list("changelog/")
        )

    stage.switch = _ActingSwitch((when, rollback))
    arguments = ExpireChangelogsArguments(limits=_limits(retain_max=6))
    report = plan_and_execute(
        stage.maintainer().table, "expire-changelogs", lambda target: plan_expire_changelogs(target, arguments)
    )
    assert report.status == "stale"
    left = sorted(key for key in all_roots(stage.store) if key.startswith("changelog/"))
    assert not {"changelog/changelog-3", "changelog/changelog-4"} & set(left), left


def _limits(**values: Any) -> Any:
    from lakesweep.runs.parameters.retention_options import ExpireArguments

    return ExpireArguments(**values)


# The clock and the hint.


def test_a_hint_from_the_future_that_lags_does_not_stop_maintenance() -> None:
    stage = World()
    stage.replace_each(6)
    stage.table.hint("LATEST", 5)
    stage.store.set_modified("snapshot/LATEST", stage.now_ms + 86_400_000)
    assert stage.maintainer().expire(retain_max=3, retain_min=3).status == "done"


# Stored plans.


def _stored(stage: World) -> tuple[str, str, ControlArea]:
    report = stage.maintainer().plan(retain_max=3, retain_min=3)
    assert report.plan is not None
    area = ControlArea(stage.control, stage.store.location)
    return report.plan.header.plan_id, f"{area.prefix}plans/{report.plan.header.plan_id}/", area


HEADER_EDITS = [
    ("roots_seen", None),
    ("roots_seen", []),
    ("roots_seen", {"snapshot/snapshot-1": 5}),
    ("end_id", "x"),
    ("snapshots", []),
    ("snapshots", {"latest": "x"}),
    ("kept", None),
    ("branch", 5),
    ("table", 5),
    ("action_count", "9"),
    ("action_count", -1),
    ("action_count", 10**12),
    ("expires_ms", None),
    ("warnings", 5),
    ("content_hash", None),
    ("arguments", None),
    ("policy", 3),
    ("plan_id", 7),
    ("operation", None),
    ("needs_confirmation", "yes"),
]


@pytest.mark.parametrize(("field", "value"), HEADER_EDITS)
def test_a_header_that_was_edited_is_no_crash(field: str, value: object) -> None:
    stage = World()
    stage.replace_each()
    plan_id, folder, _ = _stored(stage)
    header = json.loads(stage.control.read(f"{folder}header.json").data)
    header[field] = value
    stage.control.put(f"{folder}header.json", json.dumps(header).encode())
    try:
        report = stage.maintainer().execute(plan_id)
        report.to_json()
    except MaintenanceError:
        pass
    assert_roots_readable(stage.table)


ACTION_EDITS = [
    {"etag": 5},
    {"size_bytes": "x"},
    {"size_bytes": -5},
    {"owner": 5},
    {"body": 7},
    {"etag": None},
    {"path": "../x"},
    {"kind": "schema", "path": "schema/schema-0"},
    {"reason": None},
    {"phase": "zzz"},
    {"extra_field": 1},
]


@pytest.mark.parametrize("edit", ACTION_EDITS, ids=str)
def test_an_action_that_was_edited_is_no_crash(edit: dict[str, object]) -> None:
    stage = World()
    stage.replace_each()
    plan_id, folder, _ = _stored(stage)
    name = f"{folder}header.json"
    header = json.loads(stage.control.read(name).data)
    for row in header["actions"]:
        if row["kind"] in ("snapshot", "data"):
            row.update(edit)
    stage.control.put(name, json.dumps(header).encode())
    try:
        report = stage.maintainer().execute(plan_id)
        report.to_json()
    except MaintenanceError:
        pass
    assert_roots_readable(stage.table)
    assert stage.table.exists("schema/schema-0")


def test_documents_go_only_while_they_are_what_was_planned_whatever_the_file_says() -> None:
    """An ETag that was struck out of a stored plan would make the delete unconditional."""
    stage = World()
    stage.replace_each()
    plan_id, folder, _ = _stored(stage)
    name = f"{folder}header.json"
    header = json.loads(stage.control.read(name).data)
    for row in header["actions"]:
        if row["kind"] == "snapshot":
            row["etag"] = None
    stage.control.put(name, json.dumps(header).encode())
    try:
        assert stage.maintainer().execute(plan_id).status == "refused"
    except FormatError:
        pass
    assert stage.ids() == [1, 2, 3, 4, 5, 6]


# Local files.


def test_folders_nested_deeply_are_no_crash(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "t"))
    table = TableBuilder(store)
    table.commit("+A")
    table.commit("-A", "+B")
    here = Path.cwd()
    try:
        os.chdir(tmp_path / "t" / "snapshot")
        for _ in range(1500):
            Path("a").mkdir()
            os.chdir("a")
    finally:
        os.chdir(here)
    try:
        Maintainer(store).expire()
    except MaintenanceError:
        pass
    finally:
        _remove_deep(tmp_path / "t" / "snapshot")


def _remove_deep(folder: Path) -> None:
    """Remove nested folders `a/a/...`, as which `shutil.rmtree` would nest its calls."""
    here = Path.cwd()
    depth = 0
    try:
        os.chdir(folder)
        while Path("a").is_dir():
            os.chdir("a")
            depth += 1
        for _ in range(depth):
            os.chdir("..")
            Path("a").rmdir()
    finally:
        os.chdir(here)


def test_a_document_that_is_linked_back_keeps_its_files(tmp_path: Path) -> None:
    """A hard link has the ETag of what it was made from."""
    store = LocalStore(str(tmp_path / "t"))
    control = LocalStore(str(tmp_path / "control"))
    table = TableBuilder(store)
    table.commit("+F1")
    for number in range(2, 7):
        table.commit(f"-F{number - 1}", f"+F{number}")
    saved = tmp_path / "saved"
    saved.mkdir()
    for path in (tmp_path / "t" / "snapshot").glob("snapshot-*"):
        os.link(path, saved / path.name)

    def put_back(seconds: float) -> None:
        for path in saved.iterdir():
            if not (tmp_path / "t" / "snapshot" / path.name).exists():
                os.link(path, tmp_path / "t" / "snapshot" / path.name)

    maintainer = Maintainer(store, control=control, sleep=put_back)
    plan_and_execute(maintainer.table, "expire-snapshots", maintainer.planner(3, 3), grace_ms=60_000)
    assert_all_readable(table)
