"""`explain`: every kind of answer, and agreement with what an orphan scan does."""

import itertools
import json
import re
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.control.quarantine import read_quarantine
from lakesweep.errors import AccessDeniedError, RefusedError, StorageError, UsageError
from lakesweep.operations.inspect.explain.counting import REASONS, reason_of
from lakesweep.operations.inspect.explain.explanation import WHAT, Explanation
from lakesweep.operations.inspect.explain.file import ExplainArguments, explain_file
from lakesweep.operations.inspect.explain.table import TableShares, explain_table
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import DeleteRequest, DeleteResult, Store
from tests.conftest import REPOSITORY
from tests.support.fixture_tables import TABLE_NAMES, expected_facts
from tests.support.histories import Commit, build, histories
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.s3_server import moto_store, versioned_bucket
from tests.support.sampling import examples
from tests.support.table_builder import TICK_MS, TableBuilder
from tests.unit.cli.command_line import call

DAY_MS = 86_400_000
NOW_MS = 400 * DAY_MS
UUID = "00000000-0000-4000-8000-000000000000"
LONG_AGO = ExplainArguments(older_than_ms=NOW_MS)


def store_at(now_ms: int = NOW_MS, **words: Any) -> MemoryStore:
    return MemoryStore(clock=lambda: now_ms, **words)


def explained(table: TableBuilder, path: str, arguments: ExplainArguments = LONG_AGO, **words: Any) -> Explanation:
    return explain_file(Maintainer(table.store, **words).table, path, arguments)


def statuses(store: Store, arguments: ExplainArguments = LONG_AGO) -> dict[str, tuple[str, str | None]]:
    """Return what is said of each object of a table: status and rule."""
    table = Maintainer(store).table
    found = {}
    for entry in list(store.list("")):
        said = explain_file(table, entry.key, arguments)
        assert said.exists
        assert said.why
        found[entry.key] = said.status, said.rule
    return found


def going(store: Store, older_than_ms: int = NOW_MS) -> set[str]:
    """Return what an orphan scan would delete."""
    maintainer = Maintainer(store)
    report = maintainer.run("remove-orphan-files", execute=False, older_than=older_than_ms, no_writers="a test")
    assert report.refusal is None
    return set() if report.plan is None else {delete.path for delete in report.plan.deletes}


# Every object.


@pytest.mark.parametrize("name", TABLE_NAMES)
def test_every_object_of_real_tables(fixtures_dir: Path, name: str) -> None:
    """Whatever engines wrote has an answer, and the answer is the one that the facts know."""
    facts = expected_facts(fixtures_dir, name)
    store = LocalStore(str(fixtures_dir / "tables" / name))
    now_ms = store.now_ms()
    said = statuses(store, ExplainArguments(older_than_ms=now_ms))
    foreign = {key for key, (status, rule) in said.items() if (status, rule) == ("protected", "foreign")}
    unreferenced = {why: set(paths) for why, paths in facts["unreferenced"].items()}
    assert foreign == unreferenced.get("unknown", set()) | unreferenced.get("unknown-in-bucket", set())
    assert {key for key, (status, _) in said.items() if status == "document"} == set(facts["root_metadata"])
    inside = set(said)
    assert {key for key, (status, _) in said.items() if status == "live"} == set(facts["effective"]) & inside
    assert {key for key, (status, _) in said.items() if status == "referenced"} == set(
        facts["only_by_delete_entries"]
    ) & inside
    if facts["branches"]["main"]["snapshots"]:
        assert {key for key, (status, _) in said.items() if status == "orphan"} == going(store, now_ms)
    shares = explain_table(Maintainer(store).table, now_ms)
    assert shares.objects == len(said)
    assert {share.reason for share in shares.shares} <= set(REASONS)


PLANTED = (
    f"bucket-0/data-{UUID}-0.parquet",
    f"bucket-0/data-{UUID}-0.parquet.index",
    f"manifest/manifest-{UUID}-0",
    f"manifest/manifest-list-{UUID}-0",
    f"manifest/index-manifest-{UUID}-0",
    f"index/index-{UUID}-0",
    f"statistics/stat-{UUID}-0",
    f"snapshot/.snapshot-9.{UUID}.tmp",
    f"snapshot/snapshot-9{UUID}.tmp",
    "bucket-0/_SUCCESS",
    "README",
    "other/schema/schema-0",
    f"other/bucket-0/data-{UUID}-0.parquet",
    f"bucket-0/data-{UUID}-0.managed.blob",
    "service/service-x",
    "temp/job/task_0.preCommit",
)


@settings(max_examples=examples(25))
@given(histories, st.sets(st.sampled_from(PLANTED)), st.data())
def test_explain_and_the_orphan_scan_agree(steps: list[Commit], planted: set[str], data: st.DataObject) -> None:
    """Of every object of every history: an orphan if and only if a scan would take it, live if a root needs it."""
    store = store_at()
    table = build(store, steps)
    for key in planted:
        store.put(key, b"planted")
    entries = sorted(entry.key for entry in store.list(""))
    for key in data.draw(st.sets(st.sampled_from(entries), max_size=5)):
        store.set_modified(key, NOW_MS + 1 - data.draw(st.integers(0, 2)))
    older_than_ms = NOW_MS
    for key in entries:
        if key not in planted:
            store.set_modified(key, 0)
    for key in planted:
        store.set_modified(key, NOW_MS - data.draw(st.integers(0, 1)))
    said = statuses(store, ExplainArguments(older_than_ms))
    assert {key for key, (status, _) in said.items() if status == "orphan"} == going(store, older_than_ms)
    needed = frozenset().union(*(table.referenced(root) for root in table.roots()))
    live = {key for key, (status, _) in said.items() if status == "live"}
    assert live == {key for key in needed if key in said and said[key][0] != "document"}
    shares = explain_table(Maintainer(store).table, older_than_ms)
    counted = {share.reason: share.count for share in shares.shares}
    assert sum(counted.values()) == len(said)
    assert counted.get("orphan", 0) == sum(status == "orphan" for status, _ in said.values())
    assert counted.get("deleted_entries", 0) == sum(status == "referenced" for status, _ in said.values())


@pytest.mark.slow
def test_a_table_of_20_000_objects() -> None:
    """Every object has a reason, and one object its answer."""
    store = store_at()
    table = TableBuilder(store, partition_keys=("dt",))
    for number in range(5):
        names = [f"F{number}-{count}" for count in range(4_000)]
        gone = [f"-F{number - 1}-{count}" for count in range(20)] if number else []
        table.commit(
            *gone,
            *(f"+{name}" for name in names),
            partition={name: (f"p{count % 100}",) for count, name in enumerate(names)},
            size=dict.fromkeys(names, 1),
        )
    for number in range(1000):
        store.put(f"dt=p{number % 100}/bucket-0/data-{UUID[:-6]}{number:06}-0.parquet", b"orphan")
    store.put("README", b"?")
    for entry in list(store.list("")):
        store.set_modified(entry.key, 0)
    maintainer = Maintainer(store)
    shares = {share.reason: share.count for share in explain_table(maintainer.table).shares}
    assert shares["orphan"] == 1000
    assert shares["foreign"] == 1
    assert (shares["current"], shares["snapshots"]) == (20_000 - 80 + 5 + 2, 80 + 8)
    assert set(shares) == {"current", "snapshots", "orphan", "foreign", "document"}
    assert explain_file(maintainer.table, table.path("F0-0"), ExplainArguments()).status == "live"
    assert explain_file(maintainer.table, table.path("F4-0"), ExplainArguments()).status == "live"


# Live, and until when.


@pytest.fixture
def table() -> TableBuilder:
    """Four snapshots: A until 2, B for good, C from 3 on; tag t at 1; branch b from it."""
    table = TableBuilder(store_at(), options={"snapshot.num-retained.min": "2", "snapshot.time-retained": "1 h"})
    table.commit("+A", "+B", extra={"A": ["index"]})
    table.commit("+X")
    table.commit("-A", "-X", "+C")
    table.commit("+D", statistics="S", index={"V": {"B": [1]}})
    return table


def test_a_file_that_every_snapshot_needs(table: TableBuilder) -> None:
    """All snapshots as one holder, with how long the last of them stays."""
    said = explained(table, table.path("B"))
    assert (said.status, said.kind, said.rule) == ("live", "data", None)
    assert said.why == "4 snapshots 1 to 4 need it"
    (holder,) = said.held_by
    assert (holder.kind, holder.first, holder.last, holder.count, holder.needs) == ("snapshot", "1", "4", 4, True)
    assert holder.until == (
        "until 2 more snapshots are committed, since the newest 2 snapshots are kept, and until "
        "its successor is old enough"
    )


def test_a_file_that_the_next_expiry_takes(table: TableBuilder) -> None:
    """A time that has passed, and counts that are met."""
    (holder,) = explained(table, table.path("X")).held_by
    assert (holder.first, holder.until) == ("2", "until the next expiry, which deletes it")
    assert holder.until_ms == 2 * TICK_MS + 3_600_000


def test_a_file_that_waits_for_its_age() -> None:
    """A time to come."""
    table = TableBuilder(store_at(TICK_MS * 3), options={"snapshot.num-retained.min": "1"})
    table.commit("+A")
    table.commit("-A", "+B")
    table.commit("+C")
    (holder,) = explained(table, table.path("A"), ExplainArguments()).held_by
    assert holder.until == "until 1970-01-01T01:10:00.000+00:00, when it is old enough"
    assert holder.until_ms == TICK_MS + 3_600_000


def test_a_file_that_a_consumer_holds(table: TableBuilder) -> None:
    """The consumer is named, and where it stands."""
    table.consumer("search", 1)
    (holder,) = explained(table, table.path("X")).held_by
    assert holder.until == "until consumer search, now at snapshot 1, moves beyond it"


def test_a_maximum_lets_go_however_young() -> None:
    """By count alone, before its age."""
    table = TableBuilder(
        store_at(TICK_MS), options={"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "3"}
    )
    table.commit("+A")
    table.commit("-A", "+B")
    (holder,) = explained(table, table.path("A"), ExplainArguments()).held_by
    assert holder.until.endswith("when it is old enough, or until 2 more snapshots, since at most 3 are kept")


def test_tags_and_branches(table: TableBuilder) -> None:
    """A tag stays until its time to live ends, if it has one, and a branch's roots until the branch goes too."""
    table.tag("t", snapshot=1)
    table.tag("short", snapshot=1, ttl=timedelta(days=1))
    table.branch("b", from_tag="t")
    for snapshot_id in (1, 2):
        table.remove(f"snapshot/snapshot-{snapshot_id}")
    said = explained(table, table.path("A"))
    assert [str(holder) for holder in said.held_by] == [
        "tag short",
        "tag t",
        "snapshot 1 of branch b",
        "tag t of branch b",
    ]
    short, forever, snapshot, of_branch = (holder.until for holder in said.held_by)
    assert short == "until the next expiry of tags, since its time to live is over"
    assert forever == "until the tag is deleted: it has no time to live"
    assert snapshot.endswith(", or until branch b is dropped")
    assert of_branch == f"{forever}, or until branch b is dropped"
    assert said.why == "tag short, tag t, snapshot 1 of branch b and tag t of branch b need it"


def test_changelogs() -> None:
    """A changelog document keeps its changelog files, by rules of its own."""
    options = {
        "changelog-producer": "input",
        "changelog.num-retained.min": "3",
        "changelog.num-retained.max": "10",
        "changelog.time-retained": "2 h",
        "snapshot.num-retained.min": "1",
    }
    table = TableBuilder(store_at(), primary_keys=("id",), options=options)
    for number in range(1, 7):
        table.commit(f"+F{number}", changelog=[f"+C{number}"])
        table.changelog_document(number)
    table.remove("snapshot/snapshot-1")
    table.remove("snapshot/snapshot-2")
    said = explained(table, table.path("C1"))
    assert (said.kind, [str(holder) for holder in said.held_by]) == ("changelog", ["changelog 1"])
    assert said.held_by[0].until == "until the next expiry, which deletes it"
    (document,) = (explained(table, "changelog/changelog-5"),)
    assert (document.status, document.kind) == ("document", "changelog_document")
    assert document.until is not None
    assert document.until.startswith("until 2 more snapshots are committed, since the newest 3 changelogs are kept")
    assert explained(table, "changelog/changelog-6").until is not None


@pytest.mark.parametrize(
    ("path_of", "kind"),
    [
        (lambda t: t.path("A", "index"), "extra"),
        (lambda t: t.path("V"), "index"),
        (lambda t: f"manifest/{t.document('snapshot/snapshot-4')['baseManifestList']}", "manifest_list"),
        (lambda t: f"manifest/{t.document('snapshot/snapshot-4')['indexManifest']}", "index_manifest"),
        (lambda t: f"manifest/{t.model('snapshot/snapshot-4').delta[0].name}", "manifest"),
        (lambda t: f"statistics/{t.document('snapshot/snapshot-4')['statistics']}", "statistics"),
    ],
)
def test_every_kind_of_live_file(table: TableBuilder, path_of: Any, kind: str) -> None:
    """Not data alone."""
    said = explained(table, path_of(table))
    assert (said.status, said.kind, said.what) == ("live", kind, WHAT[kind])


def test_a_name_that_is_not_ours(table: TableBuilder) -> None:
    """A file that was migrated keeps its name; a manifest that names it makes it a data file."""
    table.commit("+000000_0.orc")
    said = explained(table, table.path("000000_0.orc"))
    assert (said.status, said.kind) == ("live", "data")


def test_a_twin_of_a_live_file(table: TableBuilder) -> None:
    """A scan keeps it by its name; where the real one lies is said."""
    name = table.path("B").rpartition("/")[2]
    table.store.put(f"bucket-7/{name}", b"copy")
    said = explained(table, f"bucket-7/{name}")
    assert said.status == "live"
    assert f"readers look for the file of this name at {table.path('B')}; this one is kept by its name" in said.warnings
    assert not any("by its name" in warning for warning in explained(table, table.path("B")).warnings)


def test_what_only_deletions_name(table: TableBuilder) -> None:
    """It stays until manifests are merged, which is said."""
    for snapshot_id in (1, 2):
        table.remove(f"snapshot/snapshot-{snapshot_id}")
    said = explained(table, table.path("A"))
    assert said.status == "referenced"
    assert "manifests delete it" in said.why
    assert said.until == "until those manifests are merged, and the roots with these manifests are deleted"
    assert [(str(holder), holder.needs) for holder in said.held_by] == [("2 snapshots 3 to 4", False)]
    assert explained(table, table.path("A", "index")).status == "referenced"
    table.remove(table.path("A"))
    gone = explained(table, table.path("A"))
    assert (gone.status, gone.exists) == ("gone", False)


def test_documents(table: TableBuilder) -> None:
    """What no scan judges, with how long it stays where that is known."""
    table.consumer("c", 4)
    said = explained(table, "snapshot/snapshot-1")
    assert (said.status, said.kind, said.until) == ("document", "snapshot", "until the next expiry, which deletes it")
    for path, kind in (("schema/schema-0", "schema"), ("snapshot/LATEST", "hint"), ("consumer/consumer-c", "consumer")):
        said = explained(table, path)
        assert (said.status, said.kind, said.until) == ("document", kind, None)
    assert explained(table, table.tag("x")).until == "until the tag is deleted: it has no time to live"


def test_tags_that_nothing_expires(table: TableBuilder) -> None:
    """By an option of the table."""
    table.alter(options={"tag.time-expire-enabled": "false"})
    said = explained(table, table.tag("x", ttl=timedelta(days=1)))
    assert said.until == "until the tag is deleted manually, since tag.time-expire-enabled is false"


def test_options_that_mean_nothing(table: TableBuilder) -> None:
    """A retention that does not parse leaves unknown how long snapshots stay, and nothing else."""
    table.alter(options={"snapshot.time-retained": "soon"})
    said = explained(table, table.path("B"))
    assert said.status == "live"
    assert said.held_by[0].until.startswith("for an unknown time")


# Protected.


def test_too_young(table: TableBuilder) -> None:
    """Until a day after it was written."""
    key = f"bucket-0/data-{UUID}-0.parquet"
    table.store.put(key, b"new")
    said = explained(table, key, ExplainArguments())
    assert (said.status, said.rule, said.until_ms) == ("protected", "too_young", NOW_MS + DAY_MS)
    assert said.until == "until 1971-02-06T00:00:00.000+00:00, if no root names it by then"


@pytest.mark.parametrize(
    ("key", "rule"),
    [
        ("README", "foreign"),
        ("bucket-0/notes.txt", "foreign"),
        ("temp/job/task_0.preCommit", "reported"),
        (f"bucket-0/_bloburl_{'0' * 64}", "reported"),
        (f"bucket-0/data-{UUID}-0.managed.blob", "pack"),
    ],
)
def test_names_that_nobody_judges(table: TableBuilder, key: str, rule: str) -> None:
    """Each with the reason."""
    table.store.put(key, b"?")
    said = explained(table, key)
    assert (said.status, said.rule) == ("protected", rule)
    assert said.why


def test_a_nested_table(table: TableBuilder) -> None:
    """Nothing of it is judged."""
    table.store.put("x/schema/schema-0", b"{}")
    key = f"x/bucket-0/data-{UUID}-0.parquet"
    table.store.put(key, b"?")
    said = explained(table, key)
    assert (said.status, said.rule) == ("protected", "nested_table")
    assert "the table in x" in said.why


def test_a_damaged_root(table: TableBuilder) -> None:
    """Names the root, and what it lacks."""
    key = f"bucket-0/data-{UUID}-0.parquet"
    table.store.put(key, b"?")
    table.store.set_modified(key, 0)  # type: ignore[attr-defined]
    lost = f"manifest/{table.document('snapshot/snapshot-4')['deltaManifestList']}"
    table.remove(lost)
    said = explained(table, key)
    assert (said.status, said.rule) == ("protected", "damaged_root")
    assert f"snapshot/snapshot-4 is incomplete and may need it: {lost} does not exist" in said.why
    missing = explained(table, lost)
    assert (missing.status, missing.exists, missing.kind) == ("missing", False, "manifest_list")
    assert missing.why == "it is not there, and snapshot 4 needs it"


def test_a_sidecar_of_a_live_file(table: TableBuilder) -> None:
    """A writer may make it again under the same name."""
    key = f"{table.path('B')}.index"
    table.store.put(key, b"?")
    table.store.set_modified(key, 0)  # type: ignore[attr-defined]
    said = explained(table, key)
    assert (said.status, said.rule) == ("protected", "live_owner")


def test_a_link(tmp_path: Path) -> None:
    """Never followed, never deleted."""
    table = TableBuilder(LocalStore(str(tmp_path)))
    table.commit("+A")
    link = tmp_path / "bucket-0" / f"data-{UUID}-0.parquet"
    link.symlink_to(tmp_path / table.path("A"))
    said = explained(table, str(link.relative_to(tmp_path)), ExplainArguments())
    assert (said.status, said.rule) == ("protected", "link")


def test_a_table_without_roots() -> None:
    """Nothing goes where nothing is known to be needed, and a schema is a schema."""
    table = TableBuilder(store_at())
    table.store.put(f"bucket-0/data-{UUID}-0.parquet", b"?")
    table.store.set_modified(f"bucket-0/data-{UUID}-0.parquet", 0)  # type: ignore[attr-defined]
    assert explained(table, f"bucket-0/data-{UUID}-0.parquet").rule == "no_roots"
    assert explained(table, "schema/schema-0").status == "document"
    with pytest.raises(RefusedError, match="expected a Paimon table"):
        explain_table(Maintainer(store_at()).table)


def test_files_outside() -> None:
    """Those of declared roots are looked at; a stranger's is not, and nor is one that no schema declares."""
    outside = store_at(location="memory://out/x")
    table = TableBuilder(store_at(location="memory://t"), externals={"memory://out/x": outside})
    table.commit("+A", external={"A": f"memory://out/x/bucket-0/data-{UUID}-1.parquet"})
    words = {"open_store": lambda location: outside}
    said = explained(table, f"memory://out/x/bucket-0/data-{UUID}-1.parquet", **words)
    assert (said.status, said.kind, said.exists) == ("live", "data", True)
    outside.put(f"bucket-0/data-{UUID}-2.parquet", b"?")
    outside.set_modified(f"bucket-0/data-{UUID}-2.parquet", 0)
    said = explained(table, f"memory://out/x/bucket-0/data-{UUID}-2.parquet", **words)
    assert (said.status, said.rule) == ("protected", "external_root")
    said = explained(table, "memory://elsewhere/x/y", **words)
    assert (said.status, said.rule, said.exists) == ("protected", "undeclared_external_root", None)
    outside.delete([DeleteRequest(f"bucket-0/data-{UUID}-1.parquet")])
    assert explained(table, f"memory://out/x/bucket-0/data-{UUID}-1.parquet", **words).status == "missing"


# Orphans, and what was deleted.


def planted(table: TableBuilder, key: str = f"bucket-0/data-{UUID}-0.parquet") -> str:
    table.store.put(key, b"orphan")
    table.store.set_modified(key, 5)  # type: ignore[attr-defined]
    return key


def test_an_orphan(table: TableBuilder) -> None:
    """With what its name tells of its writer."""
    said = explained(table, planted(table))
    assert (said.status, said.rule, said.modified_ms) == ("orphan", None, 5)
    assert said.origin is not None
    assert (said.origin.writer, said.origin.commit_user, said.origin.first_seen_ms) == (UUID, None, None)


def test_the_writer_of_an_orphan(table: TableBuilder) -> None:
    """Another file of the same writer tells the commit user; and so does the name of a postponed file."""
    name = table.path("D").rpartition("/")[2]
    said = explained(table, planted(table, f"bucket-0/{name.replace('-0.parquet', '-1.parquet')}"))
    assert said.origin is not None
    assert (said.origin.commit_user, said.origin.commit_user_of) == ("builder", "snapshot 4")
    listed = table.document("snapshot/snapshot-2")["deltaManifestList"].rpartition("-")[0]
    said = explained(table, planted(table, f"manifest/{listed}-99"))
    assert said.origin is not None
    assert said.origin.commit_user_of == "snapshot 2"
    said = explained(table, planted(table, f"bucket-postpone/data--u-me.1-s-7-w-{UUID}-0.avro"))
    assert (said.status, said.origin and said.origin.commit_user) == ("orphan", "me.1")


def test_quarantine(table: TableBuilder) -> None:
    """Since when it is known, and until when it stays."""
    key = planted(table)
    maintainer = Maintainer(table.store)
    asked = ExplainArguments(NOW_MS, DAY_MS)
    said = explain_file(maintainer.table, key, asked)
    assert (said.rule, said.until_ms) == ("quarantine", None)
    maintainer.run("remove-orphan-files", execute=False, older_than=NOW_MS, no_writers="a test", quarantine="1 d")
    assert read_quarantine(maintainer.table.area).first_seen_ms  # type: ignore[arg-type]
    said = explain_file(maintainer.table, key, asked)
    assert (said.status, said.rule, said.until_ms) == ("protected", "quarantine", NOW_MS + DAY_MS)
    assert said.origin is not None
    assert said.origin.first_seen_ms == NOW_MS
    assert explain_file(maintainer.table, key, LONG_AGO).status == "orphan"
    assert explain_file(maintainer.table, key, ExplainArguments(NOW_MS, 0)).status == "orphan"


def test_what_an_orphan_scan_deleted(table: TableBuilder) -> None:
    """When, by which run and why, and whether it can come back."""
    for versioned in (False, True):
        builder = TableBuilder(store_at(versioned=versioned))
        builder.commit("+A")
        key = planted(builder)
        maintainer = Maintainer(builder.store)
        report = maintainer.run("remove-orphan-files", older_than=NOW_MS, no_writers="a test")
        assert report.status == "done"
        said = explain_file(maintainer.table, key, LONG_AGO)
        assert (said.status, said.exists) == ("deleted", False)
        (run,) = said.runs
        assert (run.run_id, run.operation, run.result) == (report.run_id, "remove-orphan-files", "deleted")
        assert run.time_ms == NOW_MS
        assert run.reason.startswith("no root refers to it; written 1970")
        assert run.restorable is versioned


def test_what_expiry_deleted(table: TableBuilder) -> None:
    """Documents and files alike; a name that a manifest deletes is told by who deleted it."""
    maintainer = Maintainer(table.store)
    report = maintainer.expire()
    for path in ("snapshot/snapshot-1", table.path("A")):
        said = explain_file(maintainer.table, path, LONG_AGO)
        assert said.status == "deleted"
        assert [(run.run_id, run.operation) for run in said.runs] == [(report.run_id, "expire-snapshots")]


def test_a_deletion_that_failed(table: TableBuilder) -> None:
    """An orphan that a run could not delete says so."""

    class Denying(MemoryStore):
        def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
            return [DeleteResult(request.key, "access_denied") for request in requests]

    builder = TableBuilder(Denying(clock=lambda: NOW_MS))
    builder.commit("+A")
    key = planted(builder)
    maintainer = Maintainer(builder.store)
    assert maintainer.run("remove-orphan-files", older_than=NOW_MS, no_writers="a test").status == "partial"
    said = explain_file(maintainer.table, key, LONG_AGO)
    assert said.status == "orphan"
    assert {run.result for run in said.runs} == {"access_denied"}


def test_a_deletion_whose_answer_is_not_known(table: TableBuilder) -> None:
    """An intent without a result: the run died."""

    class Dying(MemoryStore):
        def delete(self, requests: Sequence[DeleteRequest]) -> Sequence[DeleteResult]:
            super().delete(requests)
            raise StorageError("no answer")

    store = Dying(clock=lambda: NOW_MS)
    builder = TableBuilder(store)
    builder.commit("+A")
    key = planted(builder)
    maintainer = Maintainer(store)
    with pytest.raises(StorageError):
        maintainer.run("remove-orphan-files", older_than=NOW_MS, no_writers="a test")
    said = explain_file(maintainer.table, key, LONG_AGO)
    assert (said.status, [run.result for run in said.runs]) == ("deleted", ["unknown"])
    assert "was to be deleted" in said.why


def test_what_came_back_and_went_again() -> None:
    """An undo brought it back, so that somebody else must have deleted it."""
    seconds = itertools.count()
    store = MemoryStore(clock=lambda: NOW_MS + 1000 * next(seconds), versioned=True)
    table = TableBuilder(store, options={"snapshot.num-retained.min": "1"})
    table.commit("+A")
    table.commit("-A", "+B")
    maintainer = Maintainer(table.store)
    run_id = maintainer.expire().run_id
    assert explain_file(maintainer.table, table.path("A"), LONG_AGO).runs[0].restorable
    assert maintainer.run("undo", run_id=run_id).status == "done"
    assert explain_file(maintainer.table, table.path("A"), LONG_AGO).status == "live"
    table.store.delete([DeleteRequest(table.path("A")), DeleteRequest("snapshot/snapshot-1")])
    said = explain_file(maintainer.table, table.path("A"), LONG_AGO)
    assert (said.status, [run.result for run in said.runs]) == ("gone", ["restored", "deleted"])
    with pytest.raises(RefusedError, match="no run knows"):
        explain_file(maintainer.table, "snapshot/snapshot-1", LONG_AGO)


def test_without_a_control_location(table: TableBuilder) -> None:
    """The ledger is not asked, which is said."""
    target = replace(Maintainer(table.store).table, area=None)
    said = explain_file(target, planted(table), LONG_AGO)
    assert said.status == "orphan"
    assert any("--control" in warning for warning in said.warnings)
    with pytest.raises(RefusedError, match="the ledger was not asked"):
        explain_file(target, "bucket-0/x", LONG_AGO)


def test_a_ledger_that_is_damaged(table: TableBuilder) -> None:
    """It is said, and the rest is told all the same."""
    maintainer = Maintainer(table.store)
    maintainer.expire()
    for entry in list(maintainer.control.list("")):
        if "/ledger/" in entry.key:
            maintainer.control.put(entry.key, b"damaged")
    said = explain_file(maintainer.table, table.path("A"), LONG_AGO)
    assert said.status == "gone"
    assert any("damaged" in warning for warning in said.warnings)


def test_what_nobody_knows(table: TableBuilder) -> None:
    """Refused, as other commands refuse what does not exist; and what is no name is a mistake."""
    with pytest.raises(RefusedError, match="no root and no run knows") as refused:
        explained(table, "bucket-0/nothing")
    assert refused.value.code == "no_such_file"
    for file in ("", "a//b", "../x", "bucket-0/"):
        with pytest.raises(UsageError, match="FILE"):
            explained(table, file)


def test_spellings_of_a_file(tmp_path: Path) -> None:
    """Relative, with a dot, absolute, and as a URI."""
    table = TableBuilder(LocalStore(str(tmp_path)))
    table.commit("+A")
    path = table.path("A")
    for file in (path, f"./{path}", f"{tmp_path}/{path}", f"file://{tmp_path}/{path}"):
        assert explained(table, file, ExplainArguments()).path == path


# The whole table.


def shares_of(table: TableBuilder) -> dict[str, int]:
    return {share.reason: share.count for share in explain_table(Maintainer(table.store).table).shares}


def data_of(shares: TableShares) -> dict[str, int]:
    return {share.reason: share.bytes for share in shares.shares}


def test_bytes_by_reason(table: TableBuilder) -> None:
    """Each file by what has to happen before it goes."""
    whole = table.store
    for entry in list(whole.list("")):
        whole.set_modified(entry.key, 0)  # type: ignore[attr-defined]
    planted(table)
    whole.put(f"bucket-0/data-{UUID}-1.parquet", b"young")
    whole.put("README", b"?")
    before = explain_table(Maintainer(whole).table)
    counts = {share.reason: share.count for share in before.shares}
    # A with its index and X are in snapshots 1 and 2 alone, with three lists and a base of their own.
    assert counts["expired"] >= 3
    assert (counts["orphan"], counts["too_young"], counts["foreign"]) == (1, 1, 1)
    assert before.bytes == sum(len(whole.read(entry.key).data) for entry in whole.list(""))
    assert before.factor == round(before.bytes / data_of(before)["current"], 2)
    table.consumer("slow", 1)
    assert shares_of(table)["consumer"] == counts["expired"]
    table.remove("consumer/consumer-slow")
    table.tag("t", snapshot=1)
    tagged = shares_of(table)
    assert tagged["tags"] + tagged["expired"] == counts["expired"]
    table.branch("b", from_tag="t")
    assert shares_of(table)["shared"] == tagged["tags"]
    table.remove("tag/tag-t")
    assert shares_of(table)["branches"] == tagged["tags"]


def test_reasons_of_kinds() -> None:
    """What is current counts as that; what is due holds nothing; two kinds share."""
    assert [reason_of(kinds) for kinds in (0, 1, 2, 4, 8, 16, 32, 64, 128)] == [
        "deleted_entries", "current", "expired", "due", "snapshots", "consumer", "tags", "branches", "changelogs",
    ]  # fmt: skip
    assert (reason_of(2 | 4), reason_of(2 | 4 | 32)) == ("due", "tags")
    assert (reason_of(2 | 32), reason_of(8 | 32), reason_of(1 | 128)) == ("tags", "shared", "current")


def test_only_changelogs_need_it() -> None:
    """What a changelog document keeps beyond its snapshot."""
    table = TableBuilder(store_at(), primary_keys=("id",), options={"changelog-producer": "input"})
    table.commit("+A", changelog=["+CA"])
    table.commit("+B")
    table.changelog_document(1)
    table.remove("snapshot/snapshot-1")
    counts = shares_of(table)
    assert counts["changelogs"] == 3  # the file, its manifest and its list
    assert explained(table, table.path("CA")).status == "live"


def test_a_nested_table_is_not_counted_as_orphans(table: TableBuilder) -> None:
    """However late its schema is listed."""
    planted(table, f"a/bucket-0/data-{UUID}-0.parquet")
    planted(table, f"bucket-1/schema/bucket-0/data-{UUID}-0.parquet")
    planted(table, "x/schema/schema-0")
    planted(table, f"x/bucket-0/data-{UUID}-0.parquet")
    counts = shares_of(table)
    assert "orphan" not in counts


def test_versions_that_are_not_current() -> None:
    """On a versioned bucket what was deleted is still paid for; where that may not be asked, it is said."""
    for bucket, expected in ((versioned_bucket(), True), (None, False)):
        store = moto_store(bucket=bucket)
        table = TableBuilder(store)
        table.commit("+A", size={"A": 1000})
        store.put("README", b"1" * 500)
        store.put("README", b"2" * 100)
        store.delete([DeleteRequest("README")])
        shares = explain_table(Maintainer(store).table)
        assert (shares.noncurrent is not None) == expected
        if shares.noncurrent is not None:
            # LATEST and EARLIEST are written once each.
            assert (shares.noncurrent.versions, shares.noncurrent.bytes, shares.noncurrent.markers) == (2, 600, 1)
            assert shares.factor == round((shares.bytes + 600) / shares.current_bytes, 2)


def test_versions_that_may_not_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A note, and the rest of the answer."""
    store = moto_store()
    TableBuilder(store).commit("+A")

    def denied() -> None:
        raise AccessDeniedError("no")

    monkeypatch.setattr(store, "noncurrent", denied)
    shares = explain_table(Maintainer(store).table)
    assert shares.noncurrent is None
    assert any("not current are not counted" in warning for warning in shares.warnings)


# The command line.


def test_the_command_line(tmp_path: Path) -> None:
    """Text and JSON, of a file and of the table."""
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    table.commit("+A")
    table.commit("-A", "+B")
    words = ("explain", tmp_path / "t", "--control", tmp_path / "c")
    whole = call(*words)
    assert whole.exit_code == 0
    first = whole.printed.splitlines()[0]
    document = call(*words, "--json").document
    assert f"{document['factor']:g} times the" in first
    assert sum(share["count"] for share in document["reasons"]) == document["objects"]
    file = call(*words, table.path("A"))
    assert "snapshot 1, which is kept until" in file.printed
    said = call(*words, table.path("A"), "--json").document
    assert (said["status"], said["held_by"][0]["kind"]) == ("live", "snapshot")
    assert json.dumps(said)
    absent = call(*words, "bucket-0/x", "--json")
    assert (absent.exit_code, absent.document["error"]["code"]) == (3, "no_such_file")
    assert call(*words, "bucket-0/").exit_code == 2


def test_the_text_of_runs_and_orphans(tmp_path: Path) -> None:
    """A run that deleted, and where an orphan comes from."""
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    table.commit("+A")
    table.commit("-A", "+B")
    words = (tmp_path / "t", "--control", tmp_path / "c")
    key = f"bucket-0/data-{UUID}-0.parquet"
    table.store.put(key, b"?")
    time.sleep(0.01)
    now = int(time.time() * 1000)
    printed = call("explain", *words, key, "--older-than", now).printed
    assert "orphan: no root of any branch names it" in printed
    assert f"writer  {UUID}, and no root names a file of this writer" in printed
    assert call("expire-snapshots", *words, "--retain-max", "1", "--retain-min", "1", "--execute").exit_code == 0
    printed = call("explain", *words, table.path("A")).printed
    assert "expire-snapshots: deleted; left the table at snapshot 2; it cannot be restored" in printed


def test_every_word_is_documented() -> None:
    """Statuses, rules, kinds, reasons and keys."""
    from typing import get_args

    from lakesweep.model.paths.known_files import Kind
    from lakesweep.operations.inspect.explain.explanation import Status

    text = (REPOSITORY / "docs" / "cli_json.md").read_text(encoding="utf-8")
    of_file, of_table = text.split("### `explain TABLE FILE`\n")[1].split("### `explain TABLE`\n")
    of_table = of_table.split("\n### `")[0]
    rules = (
        "too_young damaged_root live_owner quarantine foreign reported nested_table link pack external_root no_roots"
    )
    for word in (*get_args(Status), *rules.split(), "undeclared_external_root", "other_table", "no_roots"):
        assert f"| `{word}` |" in of_file
    assert set(WHAT) == set(get_args(Kind))
    for kind in WHAT:
        assert f"`{kind}`" in of_file or f"| `{kind}` |" in text
    for reason in REASONS:
        assert f"`{reason}`" in of_table
    (example,) = re.findall(r"```json\n(.*?)```", of_file, flags=re.DOTALL)
    assert list(json.loads(example)) == [each.name for each in fields(Explanation)]
    (example,) = re.findall(r"```json\n(.*?)```", of_table, flags=re.DOTALL)
    assert list(json.loads(example)) == list(TableShares("", 0, 0, 0, (), None).to_json())


def test_every_reason_has_words() -> None:
    """And no others have."""
    from lakesweep.cli.inspect.explain import _SAYS

    assert set(_SAYS) == set(REASONS)
    assert Counter(REASONS).most_common(1)[0][1] == 1


def test_fixture_tables_are_only_read(fixtures_dir: Path, tmp_path: Path) -> None:
    """Nothing of a table changes."""
    name = "parquet-pk_table_scan_and_read_mor"
    shutil.copytree(fixtures_dir / "tables" / name, tmp_path / "t")
    before = {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "t").rglob("*"))}
    assert call("explain", tmp_path / "t", "--control", tmp_path / "c").exit_code == 0
    assert call("explain", tmp_path / "t", "snapshot/snapshot-1", "--control", tmp_path / "c").exit_code == 0
    assert {path: path.stat().st_mtime_ns for path in sorted((tmp_path / "t").rglob("*"))} == before
    assert not (tmp_path / "c").exists()


# Other spellings of a path.


def test_a_live_file_by_every_spelling_of_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the table's location before it, absolute, as a URI, from the working directory: it is the same file."""
    folder = tmp_path / "lake" / "sales.db" / "orders"
    builder = TableBuilder(LocalStore(str(folder)))
    builder.commit("+A")
    path = builder.path("A")
    monkeypatch.chdir(tmp_path)
    for spelled in (
        path,
        f"./{path}",
        f"{folder}/{path}",
        f"file://{folder}/{path}",
        f"lake/sales.db/orders/{path}",
        f"sales.db/orders/{path}",
        f"orders/{path}",
    ):
        answer = call("explain", "lake/sales.db/orders", spelled, "--json")
        assert answer.exit_code == 0, (spelled, answer.messages)
        assert (answer.document["path"], answer.document["status"]) == (path, "live"), spelled


def test_a_live_file_by_a_path_with_the_bucket() -> None:
    store = moto_store("warehouse/sales.db/orders")
    builder = TableBuilder(store)
    builder.commit("+A")
    path = builder.path("A")
    place = store.location
    for spelled in (f"{place}/{path}", f"{place.removeprefix('s3://')}/{path}", f"warehouse/sales.db/orders/{path}"):
        said = explain_file(Maintainer(store).table, spelled, ExplainArguments())
        assert (said.path, said.status) == (path, "live"), spelled


@pytest.mark.parametrize("kind", ["data", "manifest", "list"])
def test_a_bare_name_of_a_live_file_says_where_it_lies(kind: str) -> None:
    """Nothing is missing: there is no object of that path, and the answer names the one of that name."""
    table = TableBuilder(store_at())
    table.commit("+A")
    path = {
        "data": table.path("A"),
        "manifest": f"manifest/{table.model('snapshot/snapshot-1').delta[0].name}",
        "list": f"manifest/{table.document('snapshot/snapshot-1')['deltaManifestList']}",
    }[kind]
    for spelled in (path.rpartition("/")[2], f"dt=1/bucket-9/{path.rpartition('/')[2]}"):
        with pytest.raises(RefusedError) as raised:
            explained(table, spelled)
        assert raised.value.code == "no_such_file"
        assert f"lies at {path}," in str(raised.value)


def test_a_bare_name_of_a_missing_file_says_where_it_is_missing() -> None:
    table = TableBuilder(store_at())
    table.commit("+A")
    path = table.path("A")
    table.remove(path)
    with pytest.raises(RefusedError, match=f"is missing at {re.escape(path)}, and snapshot 1 needs it"):
        explained(table, path.rpartition("/")[2])
    assert explained(table, path).status == "missing"


# Where a path lies that does not look like one of the table.


def test_a_slash_before_a_path_means_nothing() -> None:
    table = TableBuilder(store_at(location="memory://lake/t"))
    table.commit("+A")
    said = explained(table, f"/{table.path('A')}")
    assert (said.status, said.path) == ("live", table.path("A"))
    assert explained(table, f"/lake/t/{table.path('A')}").path == table.path("A")
    with pytest.raises(RefusedError, match="no root and no run knows") as refusal:
        explained(table, "/bucket-0/data-of-nobody.parquet")
    assert refusal.value.code == "no_such_file"


def test_a_slash_before_a_path_of_a_local_table_means_nothing(tmp_path: Path) -> None:
    table = TableBuilder(LocalStore(str(tmp_path / "t")))
    table.commit("+A")
    assert explained(table, f"/{table.path('A')}", ExplainArguments()).path == table.path("A")
    said = explained(table, f"{tmp_path}/elsewhere/file", ExplainArguments())
    assert (said.status, said.rule) == ("protected", "undeclared_external_root")


def test_a_path_of_another_table_names_that_table() -> None:
    stores = {name: store_at(location=f"memory://lake/{name}") for name in ("t", "u")}
    table, other = TableBuilder(stores["t"]), TableBuilder(stores["u"])
    table.commit("+A")
    other.commit("+B")

    def opened(location: str) -> Store:
        return stores.get(location.removeprefix("memory://lake/"), store_at(location=location))

    said = explained(table, f"memory://lake/u/{other.path('B')}", open_store=opened)
    assert (said.status, said.rule, said.exists) == ("protected", "other_table", True)
    assert "it lies outside table memory://lake/t, in table memory://lake/u" in said.why
    assert f"lakesweep explain memory://lake/u memory://lake/u/{other.path('B')}" in said.why
    said = explained(table, "memory://lake/v/bucket-0/file", open_store=opened)
    assert (said.rule, said.exists) == ("undeclared_external_root", None)
    assert "it lies outside table memory://lake/t" in said.why


@pytest.mark.parametrize("path", ["hdfs://nn/w/t/bucket-0/file", "oss://b/t/bucket-0/file", "gs://b/t/file"])
def test_a_path_of_another_scheme_lies_outside(path: str) -> None:
    table = TableBuilder(store_at(location="memory://lake/t"))
    table.commit("+A")
    said = explained(table, path)
    assert (said.status, said.rule, said.exists) == ("protected", "undeclared_external_root", None)
    assert "it lies outside table memory://lake/t" in said.why


def test_a_file_that_a_root_needs_below_no_declared_place_is_needed() -> None:
    outside = store_at(location="memory://out/x")
    table = TableBuilder(store_at(location="memory://t"), externals={"memory://out/x": outside})
    path = f"memory://out/x/bucket-0/data-{UUID}-1.parquet"
    table.commit("+A", external={"A": path})
    schema = json.loads(table.store.read("schema/schema-0").data)
    del schema["options"]["data-file.external-paths"]
    table.store.delete([DeleteRequest("schema/schema-0")])
    table.store.put("schema/schema-0", json.dumps(schema).encode())
    said = explained(table, path, open_store=lambda location: store_at(location=location))
    assert (said.status, said.exists, said.held_by[0].first) == ("live", None, "1")
    assert "below no place that a schema of the table declares" in said.why
