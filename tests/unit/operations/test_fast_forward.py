"""Fast-forward: what main ends with, what it is on the way there, what is said, and what is refused."""

from typing import Any

import pytest

from lakesweep.errors import UsageError
from lakesweep.model.report import RunReport
from lakesweep.storage.store import DeleteRequest
from tests.support.fast_forwards import EARLIEST, LATEST, SCENES, Onlooker, apply, build, documents, engine_end
from tests.support.maintenance import Maintainer
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import call


def _plan(table: TableBuilder, name: str = "b", branch: str = "main") -> RunReport:
    return Maintainer(table.store, branch).run("fast-forward", execute=False, branch=name)


def _findings(report: RunReport) -> dict[str, Any]:
    assert report.plan is not None
    findings = report.to_json()["findings"]
    assert isinstance(findings, dict)
    return findings


def _refusal(report: RunReport) -> str:
    assert report.status == "refused", report
    assert report.refusal is not None
    return report.refusal.code


def _said(report: RunReport) -> str:
    assert report.plan is not None
    return "\n".join(report.plan.header.warnings)


@pytest.mark.parametrize("scene", SCENES)
def test_every_prefix_of_the_plan_leaves_a_table_that_reads(scene: str) -> None:
    """Whatever has been done of the plan: main has snapshots, and each root reads with its own schemas."""
    table = build(scene)
    before, onlooker = documents(table.store), Onlooker(table.store)
    report = _plan(table)
    assert report.status == "planned", report
    assert report.plan is not None
    for _ in apply(table.store, report.plan.actions):
        onlooker.look()
    after, expected = documents(table.store), engine_end(before)
    newest = max(int(path.rpartition("-")[2]) for path in expected if path.startswith("snapshot/snapshot-"))
    assert after.pop(LATEST) == str(newest).encode()
    expected.pop(LATEST, None)
    assert after == expected
    assert _plan(table).status == "nothing_to_do"


@pytest.mark.parametrize("scene", SCENES)
def test_the_newest_snapshot_is_mains_or_the_branchs_at_every_moment(scene: str) -> None:
    """Main never goes back further than to what it shares with the branch."""
    table = build(scene)
    report = _plan(table)
    assert report.plan is not None
    shared = {body for path, body in documents(table.store).items() if path.startswith("branch/branch-b/snapshot/")}
    before = [int(path.rpartition("-")[2]) for path in documents(table.store) if path.startswith("snapshot/snapshot-")]
    withdrawn = set(_findings(report)["lost"]["snapshots"])
    for _ in apply(table.store, report.plan.actions):
        now = {path: body for path, body in documents(table.store).items() if path.startswith("snapshot/snapshot-")}
        newest = max(now, key=lambda path: int(path.rpartition("-")[2]))
        number = int(newest.rpartition("-")[2])
        kept = [i for i in before if i not in withdrawn]
        assert now[newest] in shared or number in withdrawn or number == max(kept), newest


def test_a_branch_that_main_has_passed() -> None:
    """From 5 on main has what the branch has, and the snapshots before."""
    table = build("diverged")
    table.on_branch("b").hint("EARLIEST", 5)
    report = Maintainer(table.store).run("fast-forward", branch="b")
    assert report.status == "done"
    snapshots = sorted(int(p.rpartition("-")[2]) for p in documents(table.store) if p.startswith("snapshot/snapshot-"))
    assert snapshots == [1, 2, 3, 4, 5, 6, 7, 8]
    for i in (5, 6, 7, 8):
        path = f"snapshot/snapshot-{i}"
        assert table.store.read(path).data == table.store.read(f"branch/branch-b/{path}").data
    assert table.store.read(EARLIEST).data == b"5"
    assert "EARLIEST will be 5, which hides snapshots 1, 2, 3, 4" in _said(report)


def test_earliest_of_a_branch_without_one_stays() -> None:
    table = build("ahead")
    assert Maintainer(table.store).run("fast-forward", branch="b").status == "done"
    assert table.store.read(EARLIEST).data == b"1"


def test_one_snapshot_each() -> None:
    """Nothing is withdrawn, and nothing comes but the one that takes the other's place."""
    table = TableBuilder(MemoryStore("memory://bucket/t"))
    table.commit("+A")
    table.branch("b").commit("+B")
    report = Maintainer(table.store).run("fast-forward", branch="b")
    assert report.status == "done"
    found = (table.store.read(f"{folder}snapshot/snapshot-1").data for folder in ("", "branch/branch-b/"))
    assert len(set(found)) == 1


def test_an_earliest_that_names_nothing_any_more_is_mended() -> None:
    """It would hide what is older as soon as main comes to that id again."""
    table = TableBuilder(MemoryStore("memory://bucket/t"))
    for number in range(1, 5):
        table.commit(f"+A{number}")
    table.branch("b").commit("+B")
    for number in (1, 2):
        table.store.delete([DeleteRequest(f"snapshot/snapshot-{number}")])
    table.hint("EARLIEST", 3)
    table.store.delete([DeleteRequest("branch/branch-b/snapshot/EARLIEST")])
    assert Maintainer(table.store).run("fast-forward", branch="b").status == "done"
    assert table.store.read("snapshot/EARLIEST").data == b"1"


def test_what_is_lost_is_said_before() -> None:
    found = _findings(_plan(build("tagged")))
    assert found["target"] == {"snapshot": 8, "tag": None, "time_ms": 4_200_000}
    assert found["lost"] == {
        "snapshots": [6, 7, 8, 9, 10],
        "changelogs": [],
        "tags": ["both", "last", "late", "older", "short"],
        "rows": -10,
        "commit_users": ["writer-A"],
        "schemas": [],
    }
    assert found["newly_orphaned"]["by_kind"] == {"data": 5, "manifest": 5, "manifest_list": 10}
    assert found["whole"] == [
        *(f"snapshot/snapshot-{i}" for i in (6, 7, 8)),
        *(f"tag/tag-{name}" for name in ("both", "older", "theirs")),
    ]


def test_who_only_gains_loses_nothing() -> None:
    report = _plan(build("ahead"))
    found = _findings(report)
    assert found["branch"] == {"name": "b"}
    nothing = {"snapshots": [], "changelogs": [], "tags": [], "commit_users": [], "schemas": []}
    assert found["lost"] == nothing | {"rows": None}
    assert found["newly_orphaned"] == {"files": 0, "bytes": 0, "by_kind": {}}
    assert _said(report).startswith("writers of this table may expire its snapshots themselves")
    assert len(_said(report).splitlines()) == 1


def test_who_leaves_expiry_to_others_is_told_nothing() -> None:
    table = build("ahead")
    table.alter(options={"write-only": "true"})
    assert _said(_plan(table)) == ""


@pytest.mark.parametrize(("scene", "ids"), [("altered", [1, 2]), ("altered_alike", [1]), ("altered_once", [])])
def test_schemas_that_main_loses_are_said(scene: str, ids: list[int]) -> None:
    """Those that the branch has otherwise, and those that it does not have."""
    assert _findings(_plan(build(scene)))["lost"]["schemas"] == ids


@pytest.mark.parametrize(
    ("scene", "words"),
    [
        ("diverged", "ids from 6 on will belong to other snapshots"),
        ("rebuilt", "have different snapshots of the ids 1, 2, 3, 4, and those of main are overwritten"),
        ("with_changelogs", "consumer quick waits for snapshot 11, but the next commit of main is 9"),
        ("rolled_back_far", "main will have no snapshot 3;"),
        ("expired_base", "EARLIEST will be 7, which hides snapshots 5, 6"),
    ],
)
def test_what_is_said(scene: str, words: str) -> None:
    assert words in _said(_plan(build(scene)))


def test_changelogs_of_the_former_history_are_said() -> None:
    table = build("rebuilt")
    table.changelog_document(2)
    report = _plan(table)
    assert "changelogs 2 of main are kept, although they belong to its former history" in _said(report)


def test_iceberg_metadata_would_go_on_showing_what_goes() -> None:
    table = build("diverged")
    table.alter(options={"metadata.iceberg.storage": "table-location"})
    report = _plan(table)
    assert report.refusal is not None and report.refusal.code == "needs_engine_callbacks"


def test_a_consumer_that_cannot_be_read_is_said() -> None:
    table = build("diverged")
    table.store.put("consumer/consumer-odd", b"{")
    assert "a consumer cannot be read" in _said(_plan(table))


def test_a_branch_that_is_not_there() -> None:
    report = _plan(build("ahead"), "nothing")
    assert _refusal(report) == "no_such_branch"
    assert report.refusal is not None
    assert "'nothing'" in report.refusal.message
    assert "(b)" in report.refusal.message


def test_a_branch_without_snapshots() -> None:
    table = build("ahead")
    table.branch("empty")
    assert _refusal(_plan(table, "empty")) == "branch_is_empty"


@pytest.mark.parametrize("name", ["main", "", "   ", "../b", "b/snapshot", ".", ".."])
def test_what_is_no_name(name: str) -> None:
    with pytest.raises(UsageError) as error:
        _plan(build("ahead"), name)
    assert error.value.code == "bad_branch_name"


def test_only_main_moves() -> None:
    with pytest.raises(UsageError) as error:
        _plan(build("ahead"), "b", branch="b")
    assert error.value.code == "bad_argument"


def test_a_branch_that_has_lost_files() -> None:
    """Refused, with their names; main stays as it is."""
    table = build("diverged")
    table.remove("B8")
    before = documents(table.store)
    report = Maintainer(table.store).run("fast-forward", branch="b")
    assert _refusal(report) == "target_lost_files"
    assert report.refusal is not None
    assert table.path("B8") in report.refusal.message
    assert documents(table.store) == before


def test_an_older_snapshot_of_the_branch_that_has_lost_files() -> None:
    """Main would have it, too. What an expiry left half way goes by another one."""
    table = build("diverged")
    table.remove("B6")
    report = _plan(table)
    assert _refusal(report) == "target_lost_files"
    assert report.refusal is not None
    assert "expire-snapshots with --branch b" in report.refusal.message
    assert Maintainer(table.store, "b").expire().status == "done"
    assert _plan(table).status == "planned"


def test_a_branch_that_has_lost_its_schema() -> None:
    table = build("altered_once")
    other = table.on_branch("b")
    table.store.put("branch/branch-b/schema/schema-5", table.store.read("branch/branch-b/schema/schema-1").data)
    table.store.delete([DeleteRequest("branch/branch-b/schema/schema-1")])
    assert other.exists("branch/branch-b/schema/schema-5")
    assert _refusal(_plan(table)) in ("target_lost_files", "unreadable_schema")


def test_a_schema_that_would_change_under_a_snapshot_that_stays() -> None:
    """Main went on with the schema that both changed before what they share: somebody copied documents by hand."""
    table = build("diverged")
    other = table.on_branch("b")
    other._put_schema({**other._schema, "options": {"bucket": "7"}})
    before = documents(table.store)
    report = Maintainer(table.store).run("fast-forward", branch="b")
    assert _refusal(report) == "schema_conflict"
    assert report.refusal is not None
    assert "snapshot 1 needs schema 0 of main" in report.refusal.message
    assert documents(table.store) == before


def test_schemas_that_differ_where_snapshots_are_replaced() -> None:
    """What main has is read until it is replaced, with its own schema."""
    table = build("rebuilt_altered")
    table.alter(types={"mine": "INT"})
    table.commit("+mine")
    assert _refusal(_plan(table)) == "schema_conflict"


def test_a_schema_that_main_still_needs_is_not_dropped() -> None:
    """A tag before the branch that was made under a later schema, as a rollback leaves it behind."""
    table = build("diverged")
    table.alter(types={"late": "INT"})
    path = table.tag("early", snapshot=3)
    document = table.store.read(path).data.replace(b'"schemaId" : 0', b'"schemaId" : 1')
    table.store.put(path, document)
    report = _plan(table)
    assert _refusal(report) == "schema_conflict"
    assert report.refusal is not None
    assert "tag early needs schema 1 of main" in report.refusal.message


def test_a_tag_that_another_branch_was_made_from() -> None:
    table = build("diverged")
    table.tag("base", snapshot=9)
    table.branch("other", "base")
    report = _plan(table)
    assert _refusal(report) == "tag_protected"
    assert report.refusal is not None
    assert "'base'" in report.refusal.message
    assert "branch other was made from it" in report.refusal.message
    assert "a fast-forward to branch b would delete" in report.refusal.message
    assert "expected lose_tag with the name of each, or branch b to have the same tags" in report.refusal.message
    assert Maintainer(table.store).run("delete-tag", tag=["base"]).status == "done"
    assert _plan(table).status == "planned"


def test_tags_that_are_given_up_by_name() -> None:
    """Each has to be named; one that need not be is said to be none."""
    table = build("diverged")
    for name in ("base", "root"):
        table.tag(name, snapshot=9)
        table.branch(f"of-{name}", name)
    maintainer = Maintainer(table.store)
    assert _refusal(maintainer.run("fast-forward", branch="b", lose_tag=["base"])) == "tag_protected"
    report = maintainer.run("fast-forward", branch="b", lose_tag=["base", "root", "made", "nobody's"])
    assert report.status == "done" and report.run_id is not None
    assert not any(table.exists(f"tag/tag-{name}") for name in ("base", "root"))
    assert report.plan is not None
    assert report.plan.header.arguments["lose_tag"] == ["base", "root", "made", "nobody's"]
    warnings = report.all_warnings()
    assert "tag 'made' need not be given up: it is kept, or nothing protects it" in warnings
    assert 'there is no tag "nobody\'s" to lose' in warnings
    again = maintainer.run("fast-forward", branch="b", lose_tag="base")
    assert again.status == "nothing_to_do"
    assert again.all_warnings() == ("main equals branch b already", "there is no tag 'base' to lose")
    assert maintainer.run("undo", run_id=report.run_id).status == "done"
    assert all(table.exists(f"tag/tag-{name}") for name in ("base", "root"))


@pytest.mark.parametrize("path", ["snapshot/snapshot-3", "branch/branch-b/snapshot/snapshot-6", "tag/tag-made"])
def test_a_document_that_cannot_be_read(path: str) -> None:
    """Nobody knows then what main would lose, or would have."""
    table = build("diverged")
    table.store.put(path, b"{}")
    assert _refusal(_plan(table)) == "unreadable_root"


def test_what_another_branch_has_need_not_be_readable() -> None:
    """Only how many files belong to nobody then is not known."""
    table = build("diverged")
    table.tag("two", snapshot=2)
    table.branch("other", "two")
    table.store.put("branch/branch-other/snapshot/snapshot-2", b"{}")
    report = _plan(table)
    assert report.status == "planned"
    assert "the number of newly orphaned files is not known exactly" in _said(report)


def test_a_plan_that_is_carried_out_later() -> None:
    """It is stored like any other, and stale when anything has moved."""
    table = build("diverged")
    maintainer = Maintainer(table.store)
    first, second = (maintainer.run("fast-forward", execute=False, branch="b") for _ in range(2))
    assert first.plan is not None
    assert second.plan is not None
    assert maintainer.execute(first.plan.header.plan_id).status == "done"
    assert maintainer.execute(first.plan.header.plan_id).status == "nothing_to_do"
    assert maintainer.execute(second.plan.header.plan_id).status in ("stale", "refused")


def test_a_branch_that_went_on_since_it_was_planned() -> None:
    table = build("diverged")
    maintainer = Maintainer(table.store)
    planned = maintainer.run("fast-forward", execute=False, branch="b")
    assert planned.plan is not None
    table.on_branch("b").commit("+B9")
    before = documents(table.store)
    assert maintainer.execute(planned.plan.header.plan_id).status in ("stale", "refused")
    assert documents(table.store) == before


def test_the_command(tmp_path: Any) -> None:
    """As typed: it says first what is lost, and changes nothing without --execute."""
    table = build("tagged")
    for entry in table.store.list(""):
        path = tmp_path / "table" / entry.key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(table.store.read(entry.key).data)
    words = ("fast-forward", str(tmp_path / "table"), "b", "--control", str(tmp_path / "control"))
    answer = call(*words)
    assert answer.exit_code == 0, answer
    lines = answer.printed.splitlines()
    assert lines[1].startswith("target     snapshot 8 of branch b, of ")
    assert lines[2] == "lose       snapshots 6 to 10 (5), committed by writer-A"
    assert lines[3] == "lose       tags both, last, late, older, short"
    assert (tmp_path / "table/snapshot/snapshot-10").exists()
    assert call(*words, "--execute").exit_code == 0
    assert not (tmp_path / "table/snapshot/snapshot-10").exists()
    assert call("fast-forward", str(tmp_path / "table"), "nothing", "--control", str(tmp_path / "c")).exit_code == 3
    assert call("fast-forward", str(tmp_path / "table"), "main", "--control", str(tmp_path / "c")).exit_code == 2


def test_the_branchs_earliest_counts_where_that_of_main_names_nothing() -> None:
    """It is written once, and hides what the branch hides."""
    table = build("far_ahead")
    table.on_branch("b").hint("EARLIEST", 6)
    expected = engine_end(documents(table.store))
    assert Maintainer(table.store).run("fast-forward", branch="b").status == "done"
    after = documents(table.store)
    assert after[EARLIEST] == expected[EARLIEST] == b"6"
    assert [path for path in after if path.startswith("snapshot/snapshot-")] == [
        f"snapshot/snapshot-{number}" for number in (5, 6, 7)
    ]
