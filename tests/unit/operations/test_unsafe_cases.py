"""Histories in which the engine loses files: after each, every root of every branch reads completely.

Tags are deleted by hand here, as Paimon deletes them while their snapshot exists: only the document goes.

Three cases are out of an expiry's reach, since it touches no tag and no snapshot above its range: tags whose time to
live was written in another time zone, tags that a limit on their number removes, and a rollback to an expired tag that
died half-way. Tests below show that expiry beside them does no harm.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakesweep.errors import MaintenanceError
from tests.support.faulty_store import Interleaved
from tests.support.maintenance import Maintainer
from tests.support.reader import assert_all_readable, read_all
from tests.support.sampling import examples
from tests.support.table_builder import TableBuilder
from tests.support.world import ReadWorld

DECOUPLED = {"changelog.num-retained.min": "1", "changelog.num-retained.max": "100", "changelog.time-retained": "9 d"}
"""Options by which changelogs outlive snapshots."""


@pytest.fixture
def scene() -> ReadWorld:
    return ReadWorld()


# Tags that are replaced, or hold what came back.


def test_files_of_a_replaced_tag_stay_as_garbage(scene: ReadWorld) -> None:
    """What only the tag's old snapshot held is named by nothing any more: no expiry asks for it again."""
    table = scene.table
    _replacements(table, "ABCDE")
    table.tag("t", snapshot=1)
    scene.expire(2)
    assert table.present() == {"A", "D", "E"}
    old = table.referenced("tag/tag-t") - {"tag/tag-t"}
    table.tag("t", snapshot=5)
    scene.expire()
    assert table.present() == {"A", "E"}, "A leaks"
    assert all(table.exists(path) for path in old), "so do the manifests and lists of snapshot 1"
    scene.expire(status="nothing_to_do")


def test_files_of_a_replaced_tag_go_with_its_snapshot(scene: ReadWorld) -> None:
    """Replaced while its snapshot exists, the tag leaks nothing."""
    table = scene.table
    _replacements(table, "ABCDE")
    table.tag("t", snapshot=1)
    table.tag("t", snapshot=4)
    scene.expire()
    assert table.present() == {"D", "E"}


def test_a_second_tag_on_the_old_snapshot_keeps_its_files(scene: ReadWorld) -> None:
    table = scene.table
    _replacements(table, "ABCDE")
    table.tag("t", snapshot=1)
    table.tag("other", snapshot=1)
    scene.expire(2)
    table.tag("t", snapshot=5)
    scene.expire()
    assert table.present() == {"A", "E"}


def test_the_nearest_tag_is_not_the_only_one_that_counts(scene: ReadWorld) -> None:
    """F is deleted twice; the tag nearest below the second time does not hold it, an older one does."""
    table = scene.table
    table.commit("+F")
    table.commit("+G")
    table.tag("rb", snapshot=2)
    table.commit("-F", "+H")
    table.commit("+I")
    table.tag("user", snapshot=4)
    table.rollback_as_latest("rb")
    table.commit("-F", "+K")
    table.commit("+L")
    scene.expire()
    assert table.live("main", "rb") == {table.path("F"), table.path("G")}
    assert table.present() == {"F", "G", "H", "I", "K", "L"}


def test_a_file_that_came_back_outlives_its_tag(scene: ReadWorld) -> None:
    table = scene.table
    table.commit("+F")
    table.commit("+G")
    table.tag("rb", snapshot=2)
    table.commit("-F", "+H")
    table.commit("+I")
    table.commit("+J")
    table.rollback_as_latest("rb")
    table.commit("+M")
    scene.expire(4)
    assert scene.ids() == [4, 5, 6, 7]
    table.remove("tag/tag-rb")
    scene.expire(4, status="nothing_to_do")
    assert table.present() == {"F", "G", "H", "I", "J", "M"}
    scene.expire()
    assert table.present() == {"F", "G", "M"}


def test_an_index_file_that_came_back_stays_for_its_tag(scene: ReadWorld) -> None:
    table = scene.table
    table.commit("+A", index={"i1": {"A": (1,)}})
    table.commit(index={"i2": {"A": (2,)}})
    table.commit(index={"i3": {"A": (3,)}})
    table.tag("t1", snapshot=1)
    table.tag("t3", snapshot=3)
    table.rollback_as_latest("t1")
    table.commit(index={"i5": {"A": (5,)}})
    scene.expire(2)
    assert scene.ids() == [4, 5]
    scene.expire()
    assert table.present() == {"A", "i1", "i3", "i5"}


# Files that come back to life.


def test_the_tag_goes_first_and_then_the_range_of_the_delete_expires(scene: ReadWorld) -> None:
    table = scene.table
    table.commit("+F")
    table.commit("+G")
    table.commit("-F", "+H")
    table.rollback_as_latest(2)
    (tag,) = _rollback_tags(table)
    table.remove(tag)
    table.commit("+I")
    scene.expire(2)
    assert table.present() == {"F", "G", "I"}


@pytest.mark.parametrize("retain", [1, 2, 3])
@pytest.mark.parametrize("tags_go", ["before", "between", "never"])
def test_many_rollbacks(scene: ReadWorld, retain: int, tags_go: str) -> None:
    """A and B leave and come back several times; expiry goes on one snapshot at a time."""
    table = scene.table
    table.commit("+A", "+B", index={"i1": {"A": (1,)}}, statistics="s1")
    table.commit("-A", "+C", index={"i2": {"B": (2,)}})
    table.rollback_as_latest(1)
    table.commit("-A", "-B", "+D", index={"i4": {}}, statistics="s4")
    table.rollback_as_latest(1)
    table.rollback_as_latest(4)
    table.rollback_as_latest(2)
    table.merge_manifests()
    table.commit("-B", "+E", index={"i9": {"C": (3,)}})
    table.rollback_as_latest(8)
    if tags_go == "before":
        for tag in _rollback_tags(table):
            table.remove(tag)
    for left in range(len(scene.ids()) - 1, retain - 1, -1):
        scene.expire(left)
        if tags_go == "between" and (tags := _rollback_tags(table)):
            table.remove(tags[0])
            assert_all_readable(table)
    assert scene.ids() == list(range(11 - retain, 11))
    assert {"B", "C", "i2"} <= table.present(), "snapshot 10 is what snapshot 2 was"
    if tags_go == "before":
        gone = {1: {"A", "D", "E", "i1", "i4", "i9"}, 2: {"A", "D", "i1", "i4"}, 3: {"A", "D", "i1", "i4"}}[retain]
        assert not gone & table.present()


@dataclass(frozen=True)
class Step:
    """One thing that happens; numbers pick among what exists."""

    kind: str
    number: int
    other: int


STEPS = st.lists(
    st.builds(
        Step,
        st.sampled_from(["commit", "commit", "rollback", "rollback", "tag", "untag", "untag", "branch", "expire"]),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    min_size=4,
    max_size=24,
)


@settings(max_examples=examples(150), deadline=None)
@given(STEPS)
def test_no_history_of_rollbacks_and_tags_loses_a_file(steps: list[Step]) -> None:
    """Rollbacks as latest, tags made and removed by hand, branches and expiries in any order."""
    scene = ReadWorld()
    scene.table.commit("+A0", "+B0", index={"i0": {"A0": (1,)}})
    for number, step in enumerate(steps, 1):
        _take(scene, number, step)
    scene.table.commit("+Z")
    for branch in _branches_with_snapshots(scene.table):
        report = Maintainer(scene.store, branch, control=scene.control, sleep=scene.sleep).expire(1, 1)
        assert report.status in ("done", "nothing_to_do")
        assert_all_readable(scene.table)
        scene.expire(on=branch, status="nothing_to_do")


def _take(scene: ReadWorld, number: int, step: Step) -> None:
    table = scene.table
    ids, tags = scene.ids(), sorted(root for root in table.roots() if root.startswith("tag/"))
    match step.kind:
        case "commit":
            live = sorted({file.symbol for file in table.model(table.root(ids[-1])).live})
            gone = [symbol for place, symbol in enumerate(live) if place in (step.number, step.other)]
            index = {f"i{number}": {"A0": (number,)}} if step.number % 2 else None
            table.commit(*(f"-{symbol}" for symbol in gone), f"+F{number}", index=index, merge_base=step.other == 0)
        case "rollback":
            table.rollback_as_latest(ids[step.number % len(ids)])
        case "tag":
            table.tag(f"t{number}", snapshot=ids[step.number % len(ids)])
        case "untag" if tags:
            table.remove(tags[step.number % len(tags)])
        case "branch" if tags:
            branch = table.branch(f"b{number}", from_tag=tags[step.number % len(tags)].removeprefix("tag/tag-"))
            branch.commit(f"+X{number}")
        case "expire":
            branches = _branches_with_snapshots(table)
            branch_name = branches[step.other % len(branches)]
            keep = step.number % 3 + 1
            Maintainer(scene.store, branch_name, control=scene.control, sleep=scene.sleep).expire(keep, keep)
            assert_all_readable(table)


# Changelogs that outlive snapshots.


@pytest.mark.parametrize("producer", ["input", "none"])
def test_an_expiry_by_hand_makes_no_hole_among_changelogs(producer: str) -> None:
    scene = ReadWorld(options={**DECOUPLED, "changelog-producer": producer})
    table = scene.table
    for number in range(1, 7):
        changelog = [f"+L{number}"] if producer == "input" else ()
        table.commit(f"+F{number}", *([f"-F{number - 1}"] if number > 1 else []), changelog=changelog, kind="APPEND")
    scene.expire(4)
    scene.expire(2)
    assert scene.ids() == [5, 6]
    assert scene.ids("changelog") == [1, 2, 3, 4]
    changes = {f"L{number}" for number in range(1, 7)} if producer == "input" else {f"F{n}" for n in range(1, 5)}
    assert changes <= table.present()


def test_a_changelog_keeps_its_files_when_its_tag_goes() -> None:
    """Without a changelog producer the changelog is what a snapshot added, and those files are the tag's as well."""
    scene = ReadWorld(options={**DECOUPLED, "changelog-producer": "none"})
    table = scene.table
    table.commit("+A")
    table.tag("t", snapshot=1)
    table.commit("-A", "+B", kind="APPEND")
    table.commit("-B", "+C", kind="APPEND")
    scene.expire()
    assert scene.ids("changelog") == [1, 2]
    table.remove("tag/tag-t")
    assert_all_readable(table)
    table.commit("+D")
    scene.expire()
    assert scene.ids("changelog") == [1, 2, 3]
    assert table.present() == {"A", "B", "C", "D"}


# Not an expiry's to decide.


def test_expiry_takes_no_tag_away() -> None:
    """Neither its time to live nor how many there may be: that is for the expiry of tags, by its own rules."""
    automatic = {"tag.automatic-creation": "batch", "tag.num-retained-max": "1", "tag.default-time-retained": "1 ms"}
    scene = ReadWorld(options=automatic)
    table = scene.table
    _replacements(table, "ABC")
    table.tag("over", snapshot=1, ttl=timedelta(milliseconds=1))
    table.tag("manual", snapshot=2)
    scene.expire()
    assert table.exists("tag/tag-over")
    assert table.exists("tag/tag-manual")
    assert table.present() == {"A", "B", "C"}


def test_a_rollback_to_an_expired_tag_dies_before_it_wrote_the_snapshot(scene: ReadWorld) -> None:
    """LATEST is written, all snapshots are gone: nothing is done, and the tag is there to roll back to again."""
    table = scene.table
    _replacements(table, "ABCDE")
    table.tag("t", snapshot=1)
    scene.expire(3)
    table.hint("LATEST", 1)
    for snapshot_id in (5, 4, 3):
        table.remove(f"snapshot/snapshot-{snapshot_id}")
        if snapshot_id > 3:
            assert_all_readable(table)
    scene.expire(status="nothing_to_do")
    table.rollback("t")
    table.commit("-A", "+F")
    scene.expire()
    assert scene.ids() == [2]
    assert {"A", "F"} <= table.present()


@pytest.mark.parametrize("gone", [1, 2, 3])
def test_expiry_while_such_a_rollback_is_half_way(scene: ReadWorld, gone: int) -> None:
    table = scene.table
    _replacements(table, "ABCDEFG")
    table.tag("t", snapshot=1)
    scene.expire(5)
    table.hint("LATEST", 1)
    for snapshot_id in range(7, 7 - gone, -1):
        table.remove(f"snapshot/snapshot-{snapshot_id}")
    scene.expire(on="main")
    table.rollback("t")
    assert_all_readable(table)


# Branches: what one of them needs survives the expiry of any other.


@pytest.mark.parametrize("also_on_branch", [False, True])
def test_a_branch_without_its_source_tag(scene: ReadWorld, also_on_branch: bool) -> None:
    """The tag is gone from main, and in the second case its copy from the branch too; then either side expires."""
    table = scene.table
    table.commit("+A", "+B", index={"i1": {"A": (1,)}}, statistics="s1")
    table.tag("t")
    branch = table.branch("b", from_tag="t")
    branch.commit("-A", "+X", index={"ib": {"B": (2,)}})
    table.remove("tag/tag-t")
    if also_on_branch:
        branch.remove("branch/branch-b/tag/tag-t")
    table.commit("-A", "-B", "+C", index={"i2": {}}, statistics="s2")
    table.commit("-C", "+D")
    scene.expire()
    assert table.present() >= {"A", "B", "X", "i1", "ib", "s1", "D"}
    assert "C" not in table.present()
    scene.expire(on="b")
    assert table.present() >= {"B", "X", "ib", "D"}
    assert ("A" in table.present()) is not also_on_branch


def test_a_branch_of_a_snapshot_that_was_never_tagged(scene: ReadWorld) -> None:
    """The same, and main has long moved on."""
    table = scene.table
    _replacements(table, "ABCDEF")
    table.tag("t", snapshot=3)
    table.branch("b", from_tag="t")
    table.remove("tag/tag-t")
    table.on_branch("b").remove("branch/branch-b/tag/tag-t")
    for left in (5, 3, 1):
        scene.expire(left)
    assert table.present() == {"C", "F"}


def test_a_tag_that_only_a_branch_has(scene: ReadWorld) -> None:
    table = scene.table
    table.commit("+A")
    table.tag("t")
    branch = table.branch("b", from_tag="t")
    branch.commit("+X")
    branch.tag("mine")
    branch.commit("-X", "-A", "+Y")
    branch.commit("+Z")
    table.remove("tag/tag-t")
    table.commit("-A", "+B")
    scene.expire(on="b")
    assert table.present() == {"A", "B", "X", "Y", "Z"}
    scene.expire()
    assert table.present() == {"A", "B", "X", "Y", "Z"}


@pytest.mark.parametrize("order", [("main", "b"), ("b", "main")], ids=["main_first", "branch_first"])
def test_a_fast_forwarded_branch(scene: ReadWorld, order: tuple[str, str]) -> None:
    """Two folders hold the same history; main goes on, the branch too, and either side expires."""
    table = _fast_forwarded(scene)
    branch = table.on_branch("b")
    assert scene.ids() == [1, 2, 3, 4, 5]
    assert table.live("main", 5) == branch.live("b", 5)
    table.commit("-Y", "+M")
    branch.commit("-X", "+N")
    for name in order:
        scene.expire(2, on=name)
    for name in order:
        scene.expire(1, on=name)
    assert scene.ids() == [6]
    assert table.present() >= {"M", "N", "X", "Y"}
    assert "B" not in table.present(), "only main's old snapshots held it"


def test_an_earliest_hint_that_came_with_the_branch_hides_nothing(scene: ReadWorld) -> None:
    table = _fast_forwarded(scene, earliest=3)
    assert scene.store.read("snapshot/EARLIEST").data == b"3"
    table.commit("-X", "+M")
    scene.expire()
    assert scene.ids() == [6]
    assert "B" not in table.present()


def test_a_merged_branch_shares_files_with_main(scene: ReadWorld) -> None:
    """The same file is live in both; each side rewrites and expires it, and the other still reads."""
    table = scene.table
    table.commit("+A")
    branch = table.branch("b")
    branch.commit("+X")
    branch.commit("+Y")
    table.commit("+X", "+Y")
    branch.commit("-X", "-Y", "+Z", kind="COMPACT")
    branch.commit("+W")
    scene.expire(on="b")
    assert table.present() >= {"X", "Y", "Z", "W"}
    table.commit("-X", "+M", kind="COMPACT")
    table.commit("+N")
    scene.expire()
    assert table.present() == {"A", "Y", "M", "N", "Z", "W"}


def test_two_branches_that_name_each_others_files(scene: ReadWorld) -> None:
    table = scene.table
    table.commit("+A")
    one, two = table.branch("one"), table.branch("two")
    one.commit("+X")
    two.commit("+Y")
    one.commit("+Y")
    two.commit("+X")
    one.commit("-X", "+P")
    two.commit("-Y", "+Q")
    scene.expire(on="one")
    assert table.present() == {"A", "X", "Y", "P", "Q"}
    scene.expire(on="two")
    assert table.present() == {"A", "X", "Y", "P", "Q"}
    two.commit("-X")
    scene.expire(on="two")
    assert table.present() == {"A", "Y", "P", "Q"}
    one.commit("-Y")
    scene.expire(on="one")
    assert table.present() == {"A", "P", "Q"}


# Hints.


@pytest.mark.parametrize(
    ("name", "says"),
    [("LATEST", 9999), ("LATEST", 7), ("LATEST", 2), ("LATEST", 0), ("EARLIEST", 4), ("EARLIEST", 99), ("EARLIEST", 0)],
)
@pytest.mark.parametrize("retain", [1, 3])
def test_a_hint_that_is_wrong_changes_nothing(scene: ReadWorld, name: str, says: int, retain: int) -> None:
    """What exists is listed: the same snapshots and files stay whatever a hint says."""
    table = scene.table
    _replacements(table, "ABCDEF")
    table.tag("t", snapshot=2)
    table.hint(name, says)
    scene.expire(retain)
    assert scene.ids() == list(range(7 - retain, 7))
    assert table.present() == {"B", *"ABCDEF"[-retain:]}
    scene.expire(retain, status="nothing_to_do")


# What cannot be read completely.


@pytest.mark.parametrize("damage", ["cut", "missing"])
@pytest.mark.parametrize("what", ["list", "manifest"])
@pytest.mark.parametrize("where", ["tag/tag-t", "branch/branch-b/snapshot/snapshot-2"])
def test_truncated_and_missing_metadata_keep_what_a_root_may_need(
    scene: ReadWorld, where: str, what: str, damage: str
) -> None:
    """Java stops at a truncated list and goes on with a missing manifest; here no data file goes either way."""
    table = scene.table
    table.commit("+A")
    table.commit("+B")
    table.tag("t")
    table.branch("b", from_tag="t")
    table.commit("-A", "-B", "+C")
    table.merge_manifests()
    table.commit("-C", "+D")
    # The merge left the delta of snapshot 2 to the roots of snapshot 2 alone.
    document, model = table.document(where), table.model(where)
    path = f"manifest/{document['deltaManifestList'] if what == 'list' else model.delta[0].name}"
    body = scene.store.read(path).data
    if damage == "cut":
        table.corrupt(path, body[: len(body) // 2])
    else:
        table.remove(path)
    report = Maintainer(scene.store, control=scene.control, sleep=scene.sleep).expire(1, 1)
    assert (report.status, report.to_json()["status"]) == ("done", "damaged")
    assert report.plan is not None
    assert where in report.plan.header.findings["damaged_roots"]  # type: ignore[operator]
    assert report.plan.header.kept["unreadable_root"] > 0
    assert table.present() == {"A", "B", "C", "D"}
    table.corrupt(path, body)
    assert_all_readable(table)


@pytest.mark.parametrize("damage", ["cut", "missing"])
def test_an_index_manifest_that_cannot_be_read_keeps_index_files(scene: ReadWorld, damage: str) -> None:
    """An expiring snapshot names an index file that the damaged root may need, too."""
    table = scene.table
    table.commit("+A", index={"i": b"hash"})
    table.commit("+B", index={"i": None, "j": b"more"})
    table.tag("t")
    table.commit("-A", "-B", "+C", index={})
    table.commit("-C", "+D")
    path = f"manifest/{table.document('tag/tag-t')['indexManifest']}"
    body = scene.store.read(path).data
    if damage == "cut":
        table.corrupt(path, body[: len(body) // 2])
    else:
        table.remove(path)
    report = Maintainer(scene.store, control=scene.control, sleep=scene.sleep).expire(1, 1)
    assert report.to_json()["status"] == "damaged"
    assert {"i", "j"} <= table.present()
    table.corrupt(path, body)
    assert_all_readable(table)


# A rollback meets an expiry that has already chosen a later end.


def _rollback_to_5(scene: ReadWorld) -> Iterator[None]:
    """LATEST first, then the documents from the newest down."""
    scene.table.hint("LATEST", 5)
    yield
    for snapshot_id in range(11, 5, -1):
        if scene.table.exists(f"snapshot/snapshot-{snapshot_id}"):
            scene.table.remove(f"snapshot/snapshot-{snapshot_id}")
            yield


def _run_b15(at: int, spread: int) -> tuple[ReadWorld, bool, int]:
    """Expire with E = 11 while a rollback to 5 begins before request `at` and goes on every `spread` requests."""
    scene = ReadWorld()
    _replacements(scene.table, "ABCDEFGHIJK")
    began, calls = False, 0

    def before(call: int) -> None:
        nonlocal began, calls
        calls = call
        if call == at and scene.table.exists("snapshot/snapshot-5"):
            began, scene.steps = True, _rollback_to_5(scene)
        if began and (call - at) % max(spread, 1) == 0:
            for _ in scene.steps:
                if spread:
                    break

    with contextlib.suppress(MaintenanceError):
        scene.maintainer(Interleaved(before)).expire(1, 1)
    for _ in scene.steps:
        pass
    return scene, began, calls


@pytest.mark.parametrize("spread", [0, 1, 3])
def test_a_rollback_at_every_step_of_an_expiry(spread: int) -> None:
    """If snapshot 5 existed when the rollback began, the table ends with it; it reads completely either way."""
    rollbacks, calls = 0, _run_b15(0, spread)[2]
    for at in range(1, calls + 1):
        scene, began, _ = _run_b15(at, spread)
        rollbacks += began
        where = f"rollback before call {at} of {calls}"
        needs = read_all(scene.store)
        if began:
            assert "snapshot/snapshot-5" in needs, where
            assert needs["snapshot/snapshot-5"].live == {scene.table.path("E")}, where
            assert max(scene.ids()) == 5, where
        else:
            assert scene.ids() == [11], where
    assert rollbacks > 10


def _replacements(table: TableBuilder, symbols: str) -> None:
    """Commit one file after another, each in place of the one before."""
    before = ""
    for symbol in symbols:
        table.commit(*([f"-{before}"] if before else []), f"+{symbol}")
        before = symbol


def _fast_forwarded(scene: ReadWorld, earliest: int | None = None) -> TableBuilder:
    """Main with snapshots 1 to 4, then 3 to 5 of a branch that began at 3; the tag it was made from is gone."""
    table = scene.table
    table.commit("+A")
    table.commit("+B")
    table.commit("-B", "+C")
    table.tag("t")
    branch = table.branch("b", from_tag="t")
    table.commit("+D")
    branch.commit("-A", "+X")
    branch.commit("-C", "+Y")
    if earliest is not None:
        branch.hint("EARLIEST", earliest)
    table.remove("tag/tag-t")
    branch.remove("branch/branch-b/tag/tag-t")
    table.fast_forward("b")
    assert_all_readable(table)
    return table


def _rollback_tags(table: TableBuilder) -> list[str]:
    return [root for root in table.roots() if root.startswith("tag/tag-rollback-to-as-latest-")]


def _branches_with_snapshots(table: TableBuilder) -> list[str]:
    found = {root.split("/")[1].removeprefix("branch-") for root in table.roots() if root.startswith("branch/")}
    return ["main", *sorted(found)]
