"""Changelogs that outlive snapshots: what goes when the snapshot expires, and what when the changelog does.

The table of decoupled changelogs: ten snapshots, two snapshots and three changelogs (snapshots included) stay.
"""

import json

import pytest

from lakesweep.errors import UsageError
from lakesweep.model.report import RunReport
from lakesweep.storage.store import DeleteRequest
from tests.support.maintenance import assert_roots_readable
from tests.support.reader import all_roots
from tests.support.world import World

NOW_MS = 1_800_000_000_000
OPTIONS = {
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "snapshot.time-retained": "1000 d",
    "changelog.num-retained.min": "1",
    "changelog.num-retained.max": "3",
    "changelog.time-retained": "1000 d",
}
PRODUCERS = ("none", "input", "lookup", "full-compaction")
WITH_FILES = PRODUCERS[1:]


class ChangelogWorld(World):
    """A table, and maintenance of it after which everything is read."""

    def __init__(self, options: dict[str, str] | None = None) -> None:
        # Commits lie minutes apart and end now, so that age decides nothing unless a test says otherwise.
        super().__init__(now_ms=NOW_MS, options=OPTIONS | (options or {}), start_ms=NOW_MS - 86_400_000)
        self.producer = (options or {}).get("changelog-producer", "none")

    def commits(self, count: int) -> None:
        """Commit files that replace each other: snapshot n holds F<n>; with a producer its changelog holds L<n>."""
        head = (self.ids() or [0])[-1]
        for number in range(head + 1, head + count + 1):
            self.commit(f"+F{number}", *([f"-F{number - 1}"] if number > 1 else []))

    def commit(self, *entries: str, source: int | None = 0) -> None:
        number = (self.ids() or [0])[-1] + 1
        adds = [entry[1:].partition("@")[0] for entry in entries if entry.startswith("+")]
        self.table.commit(
            *entries,
            kind="COMPACT" if source == 1 else "APPEND",
            file_source=dict.fromkeys(adds, source),
            changelog=[f"+L{number}"] if self.producer != "none" else (),
        )

    def after_run(self) -> None:
        assert_roots_readable(self.table)

    def hint(self, path: str) -> str | None:
        return next((self.store.read(path).data.decode() for entry in self.store.list("") if entry.key == path), None)

    def manifests(self, snapshot_id: int, *, lists: tuple[str, ...]) -> list[bool]:
        """Tell which lists of a snapshot still exist."""
        document = self.table.document(f"snapshot/snapshot-{snapshot_id}")
        return [self.table.exists(f"manifest/{document[name]}") for name in lists]


LISTS = ("baseManifestList", "deltaManifestList")


# The rows.


@pytest.mark.parametrize("producer", PRODUCERS)
def test_snapshot_expiry_moves_documents(producer: str) -> None:
    scene = ChangelogWorld({"changelog-producer": producer})
    scene.commits(10)
    for status in ("done", "nothing_to_do"):
        assert scene.run("expire-snapshots").status == status
        assert scene.ids() == [9, 10]
        assert scene.ids("changelog") == [1, 2, 3, 4, 5, 6, 7, 8]
        assert scene.hint("changelog/LATEST") == "8"
        assert scene.hint("changelog/EARLIEST") is None
    for number in range(1, 9):
        moved = scene.store.read(f"changelog/changelog-{number}").data
        assert json.loads(moved) == scene.table.document(f"snapshot/snapshot-{number}")


@pytest.mark.parametrize("producer", PRODUCERS)
def test_changelog_expiry_counts_snapshots(producer: str) -> None:
    scene = ChangelogWorld({"changelog-producer": producer})
    scene.commits(10)
    scene.run("expire-snapshots")
    for status in ("done", "nothing_to_do"):
        assert scene.run("expire-changelogs", retain_max=3).status == status
        assert scene.ids() == [9, 10]
        assert scene.ids("changelog") == [8]
        assert (scene.hint("changelog/EARLIEST"), scene.hint("changelog/LATEST")) == ("8", "8")
    # F7 left the table at snapshot 8, so it goes with that changelog.
    held = {f"L{n}" for n in (8, 9, 10)} if producer != "none" else {"F7", "F8"}
    assert scene.table.present() == {"F9", "F10"} | held


@pytest.mark.parametrize("producer", PRODUCERS)
def test_the_pass_after_a_commit_does_both(producer: str) -> None:
    scene = ChangelogWorld({"changelog-producer": producer})
    scene.commits(10)
    report = scene.maintain()
    assert report.steps is not None
    assert [(step.operation, step.status) for step in report.steps] == [
        ("expire-snapshots", "done"),
        ("expire-changelogs", "done"),
    ]
    assert (scene.ids(), scene.ids("changelog")) == ([9, 10], [8])
    scene.commit("+G", "-F10")
    scene.maintain()
    assert (scene.ids(), scene.ids("changelog")) == ([10, 11], [9])
    assert scene.hint("changelog/EARLIEST") == "9"


@pytest.mark.parametrize("producer", WITH_FILES)
def test_with_changelog_files_only_they_stay(producer: str) -> None:
    """Data files and base and delta lists go with the snapshot, the changelog's own list and files stay."""
    scene = ChangelogWorld({"changelog-producer": producer})
    scene.commits(4)
    scene.run("expire-snapshots", retain_max=1)
    assert scene.table.present() == {"F4", "L1", "L2", "L3", "L4"}
    assert scene.manifests(2, lists=LISTS) == [False, False]
    assert scene.manifests(2, lists=("changelogManifestList",)) == [True]
    scene.run("expire-changelogs", retain_max=2)
    assert scene.table.present() == {"F4", "L3", "L4"}
    assert scene.manifests(2, lists=("changelogManifestList",)) == [False]


def test_without_changelog_files_what_was_appended_stays() -> None:
    """A file that a compaction rewrote goes with the snapshot, an appended one when the changelog of its end does."""
    scene = ChangelogWorld()
    scene.commit("+A", "+N", source=0)
    scene.commit("-A", "+C", source=1)
    scene.commit("-C", "+D", source=0)
    scene.commit("-D", "+E", source=0)
    scene.commit("+Z")
    scene.run("expire-snapshots", retain_max=1)
    assert scene.table.present() == {"A", "N", "D", "E", "Z"}, "C is what a compaction made"
    assert scene.manifests(2, lists=LISTS) == [True, True]
    scene.run("expire-changelogs", retain_max=3, retain_min=3)
    assert scene.ids("changelog") == [3, 4]
    assert scene.table.present() == {"N", "D", "E", "Z"}, "A left the table at snapshot 2"
    assert scene.manifests(2, lists=LISTS) == [False, False]
    scene.run("expire-changelogs", retain_max=1)
    assert scene.ids("changelog") == [4]
    assert scene.table.present() == {"N", "D", "E", "Z"}, "D left the table at snapshot 4, the newest changelog"


@pytest.mark.parametrize(("source", "stays"), [(0, True), (None, True), (1, False)])
def test_an_unknown_source_counts_as_appended(source: int | None, stays: bool) -> None:
    scene = ChangelogWorld()
    scene.table.commit("+A", file_source={"A": source}, kind="APPEND")
    scene.table.commit("-A", "+B")
    scene.table.commit("+C")
    scene.run("expire-snapshots", retain_max=1)
    assert ("A" in scene.table.present()) is stays


def test_what_a_compaction_wrote_goes_although_its_changelog_stays() -> None:
    """The changelog of the compaction is there from an earlier run; a reader of changes skips it."""
    scene = ChangelogWorld()
    scene.commit("+A")
    scene.commit("-A", "+C", source=1)
    scene.commit("+B")
    scene.run("expire-snapshots", retain_max=1)
    assert scene.ids("changelog") == [1, 2]
    scene.commit("-C", "+D")
    scene.commit("+E")
    scene.run("expire-snapshots", retain_max=1)
    assert scene.table.present() == {"A", "B", "D", "E"}


@pytest.mark.parametrize("producer", WITH_FILES)
def test_a_commit_without_a_changelog_leaves_a_bare_document(producer: str) -> None:
    """Its lists go with the snapshot; nothing complains about that, now or when the document goes."""
    scene = ChangelogWorld({"changelog-producer": producer})
    scene.commit("+A")
    scene.table.commit("-A", "+C", kind="COMPACT")
    scene.commit("+B")
    assert scene.run("expire-snapshots", retain_max=1).all_warnings() == ()
    scene.commit("-C", "+D")
    assert scene.run("expire-snapshots", retain_max=1).all_warnings() == ()
    assert scene.table.present() == {"B", "D", "L1", "L3", "L4"}
    report = scene.run("expire-changelogs", retain_max=2)
    assert report.all_warnings() == ()
    assert report.outcome is not None and report.outcome.already_gone == 0
    assert scene.table.present() == {"B", "D", "L3", "L4"}


@pytest.mark.parametrize("changelog_only", [True, False])
def test_a_consumer_and_consumer_changelog_only(changelog_only: bool) -> None:
    """The row: a consumer at 3, one snapshot. Changelogs wait for it in any case, snapshots if nothing exempts them."""
    exempted = {"consumer.changelog-only": "true"} if changelog_only else {}
    scene = ChangelogWorld({"snapshot.num-retained.max": "1"} | exempted)
    scene.commits(10)
    scene.table.consumer("search", 3)
    report = scene.maintain()
    assert report.status == "done", report.refusal
    assert scene.ids() == ([10] if changelog_only else list(range(3, 11)))
    assert scene.ids("changelog") == (list(range(3, 10)) if changelog_only else [2])
    assert scene.maintain().status == "nothing_to_do"
    assert scene.ids("changelog") == (list(range(3, 10)) if changelog_only else [2])


# Holes.


def test_a_hole_in_the_middle_is_skipped() -> None:
    scene = _moved(10)
    for number in (4, 5):
        scene.table.remove(f"changelog/changelog-{number}")
    scene.run("expire-changelogs", retain_max=3)
    assert scene.ids("changelog") == [8]


def test_a_hole_exactly_at_the_end_stalls() -> None:
    scene = _moved(10)
    scene.table.remove("changelog/changelog-7")
    assert scene.run("expire-changelogs", retain_max=4, retain_min=4).status == "nothing_to_do"
    assert scene.ids("changelog") == [1, 2, 3, 4, 5, 6, 8]
    assert scene.hint("changelog/EARLIEST") is None
    assert scene.run("expire-changelogs", retain_max=3, retain_min=3).status == "done"


# All of them.


@pytest.mark.parametrize("producer", PRODUCERS)
def test_delete_all(producer: str) -> None:
    scene = ChangelogWorld({"changelog-producer": producer})
    scene.commits(6)
    scene.run("expire-snapshots")
    scene.run("expire-changelogs", retain_max=5, retain_min=5)
    assert scene.hint("changelog/EARLIEST") == "2"
    assert scene.run("expire-changelogs", delete_all=True).status == "done"
    assert scene.ids("changelog") == []
    assert list(scene.store.list("changelog/")) == [], "the hints are gone too"
    # F4 left the table at snapshot 5, so it goes with that one's changelog.
    assert scene.table.present() == {"F5", "F6"} | ({"F4"} if producer == "none" else {"L5", "L6"})
    assert scene.run("expire-changelogs", delete_all=True).status == "nothing_to_do"


def test_delete_all_wants_changelogs_older_than_all_snapshots() -> None:
    scene = _moved(6)
    scene.table.changelog_document(5)
    report = scene.run("expire-changelogs", delete_all=True)
    assert report.refusal is not None and report.refusal.code == "changelogs_not_separate"
    with pytest.raises(UsageError, match="delete_all deletes every changelog"):
        scene.run("expire-changelogs", delete_all=True, retain_max=3)


# By hand.


@pytest.mark.parametrize("producer", PRODUCERS)
def test_expiry_by_hand_leaves_no_hole(producer: str) -> None:
    """The engine's procedure forgets that changelogs live longer, and removes what their readers need."""
    scene = ChangelogWorld({"changelog-producer": producer})
    scene.commits(5)
    scene.run("expire-snapshots", retain_max=3, retain_min=1)
    scene.run("expire-snapshots", retain_max=1, retain_min=1)
    assert (scene.ids(), scene.ids("changelog")) == ([5], [1, 2, 3, 4])


def test_by_hand_everything_stays_that_the_call_does_not_speak_of() -> None:
    scene = _moved(10)
    assert scene.run("expire-changelogs").status == "nothing_to_do"
    assert scene.run("expire-changelogs", retain_min=1).status == "nothing_to_do"
    assert scene.run("expire-changelogs", older_than=NOW_MS - 86_400_000 + 1_200_000).status == "done"
    assert scene.ids("changelog") == [3, 4, 5, 6, 7, 8], "committed exactly then: stays"
    scene.run("expire-changelogs", retain_max=3, max_deletes=2)
    assert scene.ids("changelog") == [5, 6, 7, 8]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"retain_min": 0}, "retain_min_below_one"),
        ({"retain_min": 4, "retain_max": 3}, "retain_max_below_min"),
        ({"max_deletes": 0}, "limit_below_one"),
        ({"older_than": NOW_MS + 1}, "cutoff_in_future"),
    ],
)
def test_rules_that_mean_nothing_are_refused(arguments: dict[str, object], code: str) -> None:
    scene = _moved(4)
    report = scene.run("expire-changelogs", **arguments)
    assert report.refusal is not None and report.refusal.code == code


def test_a_table_without_changelogs_has_nothing_to_do() -> None:
    scene = ChangelogWorld()
    assert scene.run("expire-changelogs", retain_max=1).status == "nothing_to_do"
    scene.commits(3)
    assert scene.run("expire-changelogs", retain_max=1).status == "nothing_to_do"
    assert scene.run("expire-changelogs", delete_all=True).status == "nothing_to_do"


# Other roots.


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_tag_on_a_snapshot_that_is_a_changelog_now(producer: str) -> None:
    """The tag keeps its table, the changelog its changes; each goes on without the other."""
    scene = ChangelogWorld({"changelog-producer": producer})
    scene.commits(6)
    scene.table.tag("t", snapshot=3)
    scene.run("expire-snapshots", retain_max=1)
    assert "F3" in scene.table.present()
    scene.run("expire-changelogs", retain_max=2)
    assert scene.ids("changelog") == [5]
    assert "F3" in scene.table.present()
    assert "L3" not in scene.table.present()


@pytest.mark.parametrize("producer", PRODUCERS)
def test_the_tag_goes_before_the_changelog(producer: str) -> None:
    scene = ChangelogWorld({"changelog-producer": producer})
    scene.commits(6)
    scene.table.tag("t", snapshot=3)
    scene.run("expire-snapshots", retain_max=1)
    scene.table.remove("tag/tag-t")
    assert_roots_readable(scene.table)
    scene.commits(1)
    scene.run("expire-snapshots", retain_max=1)
    scene.run("expire-changelogs", retain_max=2)
    assert scene.ids("changelog") == [6]


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_branch_keeps_its_own_changelogs_and_protects_the_other_side(producer: str) -> None:
    scene = ChangelogWorld({"changelog-producer": producer})
    scene.commits(4)
    scene.table.tag("t", snapshot=3)
    branch = scene.table.branch("b", from_tag="t")
    for number in (1, 2, 3):
        branch.commit(f"+B{number}", *([f"-B{number - 1}"] if number > 1 else ["-F3"]))
    scene.table.remove("tag/tag-t")
    scene.run("expire-snapshots", retain_max=1)
    scene.run("expire-changelogs", retain_max=1)
    assert (scene.ids(), scene.ids("changelog")) == ([4], [3])
    scene.run("expire-snapshots", on="b", retain_max=1)
    assert scene.ids("branch/branch-b/changelog") == [3, 4, 5]
    assert scene.ids("changelog") == [3]
    scene.run("expire-changelogs", on="b", retain_max=2)
    assert scene.ids("branch/branch-b/changelog") == [5]
    scene.commits(2)
    scene.run("expire-snapshots", retain_max=1)
    scene.run("expire-changelogs", delete_all=True)
    assert scene.ids("branch/branch-b/changelog") == [5]


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_rollback_to_a_tag_and_then_expiry(producer: str) -> None:
    """Changelogs 1 to 6, snapshots 7 to 10, a tag on 4: after the rollback 4 is in both folders."""
    scene = ChangelogWorld({"changelog-producer": producer})
    scene.commits(10)
    scene.table.tag("t", snapshot=4)
    scene.run("expire-snapshots", retain_max=4, retain_min=4)
    for number in range(1, 7):  # the builder learns what happened
        scene.table.changelog_document(number)
        scene.table.remove(f"snapshot/snapshot-{number}")
    scene.table.rollback("t")
    assert (scene.ids(), scene.ids("changelog")) == ([4], [1, 2, 3, 4])
    assert_roots_readable(scene.table)
    scene.table.commit("-F4", "+G5", changelog=["+M5"] if producer != "none" else ())
    scene.table.commit("-G5", "+G6", changelog=["+M6"] if producer != "none" else ())
    assert scene.maintain().status == "done"
    assert (scene.ids(), scene.ids("changelog")) == ([5, 6], [4])
    scene.table.commit("-G6", "+G7", changelog=["+M7"] if producer != "none" else ())
    assert scene.maintain().status == "done"
    assert (scene.ids(), scene.ids("changelog")) == ([6, 7], [5])


@pytest.mark.parametrize("producer", PRODUCERS)
def test_an_undecoupled_table_keeps_what_leftover_changelogs_need(producer: str) -> None:
    """The options were changed back; documents are still there, and the engine would break them."""
    scene = ChangelogWorld({"changelog-producer": producer})
    scene.commits(6)
    scene.run("expire-snapshots", retain_max=3, retain_min=1)
    scene.table.alter(options={f"changelog.{key}": OPTIONS[f"snapshot.{key}"] for key in _LIMIT_KEYS})
    scene.run("expire-snapshots", retain_max=1)
    assert (scene.ids(), scene.ids("changelog")) == ([6], [1, 2, 3])
    assert scene.table.present() >= ({"F1", "F2", "F3"} if producer == "none" else {"L1", "L2", "L3"})
    assert not {"F4", "F5", "L4", "L5"} & scene.table.present()
    assert scene.run("expire-changelogs", delete_all=True).status == "done"
    assert scene.ids("changelog") == []
    assert not {"F1", "F2", "L1", "L2", "L3"} & scene.table.present()


# Damage.


@pytest.mark.parametrize("body", [b"{", b'{"id": 2}', b""])
@pytest.mark.parametrize("operation", ["expire-snapshots", "expire-changelogs"])
def test_a_damaged_changelog_document_refuses(operation: str, body: bytes) -> None:
    """What it needs cannot be known."""
    scene = _moved(6)
    scene.commits(2)
    scene.store.put("changelog/changelog-2", body)
    before = {entry.key for entry in scene.store.list("")}
    report = scene.maintainer().run(operation, retain_max=3)
    assert report.refusal is not None and report.refusal.code == "unreadable_root"
    assert {entry.key for entry in scene.store.list("")} == before


@pytest.mark.parametrize("damage", ["corrupt", "remove"])
def test_a_damaged_list_of_a_changelog_that_stays_keeps_all_data(damage: str) -> None:
    """Without a producer the delta list says which files are changes; if it is gone alone, nobody knows."""
    scene = _moved(4)
    path = f"manifest/{scene.table.document('snapshot/snapshot-2')['deltaManifestList']}"
    getattr(scene.table, damage)(path)
    scene.commit("-F4", "+C", source=1)
    scene.commit("-C", "+D")
    scene.commit("+E")
    present = scene.table.present()
    report = scene.maintainer().run("expire-snapshots", retain_max=1)
    assert report.status == "done"
    assert scene.table.present() == present
    assert any("changelog 2" in warning for warning in report.all_warnings())
    assert report.plan is not None and report.plan.header.kept["unreadable_root"] == 1


@pytest.mark.parametrize("damage", ["corrupt", "remove"])
def test_a_damaged_changelog_list_that_stays_keeps_changelogs(damage: str) -> None:
    scene = _moved(6, "input")
    path = f"manifest/{scene.table.document('snapshot/snapshot-4')['changelogManifestList']}"
    getattr(scene.table, damage)(path)
    report = scene.maintainer().run("expire-changelogs", retain_max=3)
    assert report.status == "done"
    assert scene.ids("changelog") == [4]
    assert {"L1", "L2", "L3"} <= scene.table.present()


@pytest.mark.parametrize("damage", ["corrupt", "remove"])
@pytest.mark.parametrize("producer", ["none", "input"])
def test_a_damaged_list_of_a_changelog_that_goes_frees_nothing_of_it(producer: str, damage: str) -> None:
    scene = _moved(6, producer)
    name = "deltaManifestList" if producer == "none" else "changelogManifestList"
    getattr(scene.table, damage)(f"manifest/{scene.table.document('snapshot/snapshot-2')[name]}")
    report = scene.maintainer().run("expire-changelogs", retain_max=3)
    assert report.status == "done"
    assert scene.ids("changelog") == [4]
    assert any("changelog 2 expires and frees less" in warning for warning in report.all_warnings())
    stays = {"F1"} if producer == "none" else {"L2"}
    assert stays <= scene.table.present()
    assert not ({"F2"} if producer == "none" else {"L1", "L3"}) & scene.table.present()
    for root in set(all_roots(scene.store)):
        assert "changelog-2" not in root


def test_a_damaged_head_refuses() -> None:
    scene = _moved(6)
    scene.table.corrupt(f"manifest/{scene.table.document('snapshot/snapshot-6')['deltaManifestList']}")
    report = scene.maintainer().run("expire-changelogs", retain_max=3)
    assert report.refusal is not None and report.refusal.code == "unreadable_root"


# The dry run.


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_dry_run_of_the_pass_shows_what_the_pass_does(producer: str) -> None:
    """Its second step is planned on the table as the first would leave it."""
    scene = ChangelogWorld({"changelog-producer": producer})
    scene.commits(10)
    scene.table.tag("t", snapshot=4)
    planned = scene.maintainer().maintain(execute=False)
    before = {entry.key for entry in scene.store.list("")}
    executed = scene.maintain()
    assert planned.steps is not None and executed.steps is not None
    assert [_what(step) for step in planned.steps] == [_what(step) for step in executed.steps]
    assert len(planned.steps) == 2
    written = {action.path for step in executed.steps for action in step.plan.actions if step.plan}  # type: ignore[union-attr]
    assert before ^ {entry.key for entry in scene.store.list("")} <= written


def _what(step: RunReport) -> object:
    assert step.plan is not None
    actions = [(type(a).__name__, a.phase, a.kind, a.path, a.reason) for a in step.plan.actions]
    return step.operation, actions, dict(step.plan.header.kept), dict(step.plan.header.snapshots)


# A rollback that comes between.


def test_documents_and_changelogs_are_taken_back_when_a_rollback_begins() -> None:
    """After the documents are gone LATEST names an older snapshot: those up to it return, and no changelog stays."""
    scene = ChangelogWorld()
    scene.commits(6)
    scene.table.changelog_document(1)
    maintainer = scene.maintainer()
    deleted = scene.store.delete
    began = []

    def delete(requests: object) -> object:
        result = deleted(requests)  # type: ignore[arg-type]
        if not began and 4 not in scene.ids():
            began.append(True)
            scene.table.hint("LATEST", 3)
            deleted([DeleteRequest(f"snapshot/snapshot-{number}") for number in (6, 5)])
        return result

    scene.store.delete = delete  # type: ignore[method-assign, assignment]
    report = maintainer.run("expire-snapshots", retain_max=2)
    assert (began, report.status) == ([True], "stale")
    scene.store.delete = deleted  # type: ignore[method-assign]
    assert scene.ids() == [1, 2, 3]
    assert scene.ids("changelog") == [1], "it was there before"
    assert scene.hint("changelog/LATEST") == "1"
    assert scene.hint("snapshot/EARLIEST") == "1"


_LIMIT_KEYS = ("num-retained.min", "num-retained.max", "time-retained")


def _moved(commits: int, producer: str = "none") -> ChangelogWorld:
    """Return a table whose snapshots are changelogs but for the newest two."""
    scene = ChangelogWorld({"changelog-producer": producer})
    scene.commits(commits)
    assert scene.run("expire-snapshots").status == "done"
    return scene
