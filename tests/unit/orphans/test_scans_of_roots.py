"""What protects files.

Every file is older than the cutoff, unless a test says otherwise. What a test names as its outcome is what goes.
"""

import json
from pathlib import Path

import pytest

from lakesweep.errors import AccessDeniedError, StorageError
from lakesweep.format.orc import process as orc
from lakesweep.storage.store import Body
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.orphan_scene import DAY_MS, OrphanScene, unique
from tests.support.paged_store import PagedStore
from tests.support.reader import assert_all_readable
from tests.support.table_builder import TableBuilder

DECOUPLED = {"changelog.num-retained.max": "9", "changelog.time-retained": "1000 d"}


def two_commits(**table: object) -> OrphanScene:
    """Two snapshots, the second of which replaces the file of the first."""
    scene = OrphanScene(**table)
    scene.table.commit("+A")
    scene.table.commit("-A", "+B")
    return scene


def test_one_file_is_live_and_one_is_not() -> None:
    scene = OrphanScene()
    scene.table.commit("+A")
    orphan = scene.orphan("b")
    scene.age()
    assert scene.remove() == {orphan}
    assert scene.table.present() == {"A"}
    assert scene.remove() == set(), "nothing is left for a second run"
    assert scene.report is not None
    assert scene.report.status == "nothing_to_do"


def test_a_dry_run_says_the_same_and_changes_nothing() -> None:
    scene = OrphanScene()
    scene.table.commit("+A")
    orphan = scene.orphan("b")
    scene.age()
    before = scene.listed()
    report = scene.maintainer().run("remove-orphan-files", execute=False)
    assert report.status == "planned"
    assert report.plan is not None
    assert {delete.path for delete in report.plan.deletes} == {orphan}
    assert scene.listed() == before
    assert scene.remove(dry_run=True) == set()
    assert scene.maintainer().execute(report.plan.header.plan_id).status == "done"
    assert before - scene.listed() == {orphan}


@pytest.mark.parametrize(("before_cutoff_ms", "goes"), [(0, False), (1, True), (-1, False)])
def test_the_cutoff_itself_is_too_young(before_cutoff_ms: int, goes: bool) -> None:
    scene = OrphanScene()
    scene.table.commit("+A")
    scene.age()
    cutoff_ms = scene.now_ms - 3 * DAY_MS
    orphan = scene.orphan("b", age_ms=3 * DAY_MS + before_cutoff_ms)
    assert scene.remove(older_than=cutoff_ms) == ({orphan} if goes else set())


@pytest.mark.parametrize("hints", [False, True])
def test_without_roots_everything_would_look_dead(hints: bool) -> None:
    scene = OrphanScene()
    scene.table.commit("+A")
    scene.orphan("b")
    scene.drop("snapshot/snapshot-1", *(() if hints else ("snapshot/LATEST", "snapshot/EARLIEST")))
    scene.age()
    code, sentence = scene.refusal()
    assert code == "no_roots"
    assert "memory://bucket/db.db/t" in sentence
    assert "found none" in sentence


def test_a_tag_alone_is_a_root() -> None:
    scene = OrphanScene()
    scene.table.commit("+A")
    scene.table.tag("x")
    scene.table.remove("snapshot/snapshot-1")
    orphan = scene.orphan("b")
    scene.age()
    assert scene.remove(no_history="its snapshots were dropped") == {orphan}
    assert scene.table.present() == {"A"}


def test_two_tags_of_one_id() -> None:
    """As after a fast-forward: the tag of a branch comes to lie beside that of main, and both say snapshot 2."""
    scene = OrphanScene()
    table = scene.table
    table.commit("+A")
    table.tag("t")
    branch = table.branch("b", from_tag="t")
    table.commit("+M")
    branch.commit("+X")
    table.tag("m", snapshot=2)
    document = scene.store.read("branch/branch-b/snapshot/snapshot-2").data
    first = table.document("tag/tag-t")
    lists = {f"manifest/{first[name]}" for name in ("baseManifestList", "deltaManifestList")}
    scene.drop(*(key for key in scene.listed() if key.startswith(("branch/", "snapshot/"))), "tag/tag-t")
    scene.put("tag/tag-b", document)
    orphan = scene.orphan("b")
    scene.age()
    assert [json.loads(scene.store.read(f"tag/tag-{name}").data)["id"] for name in "mb"] == [2, 2]
    assert scene.remove(reads=False, no_history="its snapshots were dropped") == {orphan} | lists
    assert_all_readable(table)
    assert scene.table.present() == {"A", "M", "X"}


def test_a_file_of_a_branch_alone() -> None:
    scene = OrphanScene()
    scene.table.commit("+A")
    scene.table.tag("t")
    scene.table.branch("b", from_tag="t").commit("+B")
    scene.table.commit("+M")
    orphan = scene.orphan("b")
    scene.age()
    assert scene.remove() == {orphan}
    assert scene.table.present() == {"A", "B", "M"}


def test_a_branch_without_a_schema() -> None:
    """That is how one looks while it is made, or when its removal was cut short."""
    scene = OrphanScene()
    scene.table.commit("+A")
    scene.table.tag("t")
    scene.table.branch("b", from_tag="t").commit("+B")
    scene.drop("branch/branch-b/schema/schema-0")
    orphan = scene.orphan("b")
    scene.age()
    assert scene.remove(reads=False) == {orphan}
    for root in scene.table.roots():
        assert scene.table.referenced(root) <= scene.listed()


def test_what_a_dropped_branch_left() -> None:
    scene = OrphanScene()
    scene.table.commit("+A")
    scene.table.tag("t")
    before = scene.listed()
    scene.table.branch("b", from_tag="t").commit("+B", index={"i": b"\0\0\0\1"}, statistics="s")
    left = {key for key in scene.listed() - before if not key.startswith("branch/")}
    scene.drop(*(key for key in scene.listed() if key.startswith("branch/")))
    scene.age()
    assert {key.split("/")[0] for key in left} == {"dt=v00000", "manifest", "index", "statistics"}
    assert scene.remove(reads=False) == left
    assert_all_readable(scene.table)


def test_a_changelog_without_its_base_list() -> None:
    """Expiry takes base and delta of the snapshot with it; what the changelog itself names stays."""
    scene = OrphanScene(options=DECOUPLED | {"changelog-producer": "input"})
    table = scene.table
    for number in range(1, 5):
        table.commit(*([f"-F{number - 1}"] if number > 1 else []), f"+F{number}", changelog=[f"+L{number}"])
    path = table.changelog_document(3)
    table.remove("snapshot/snapshot-3")
    document = table.document(path)
    scene.drop(f"manifest/{document['baseManifestList']}", f"manifest/{document['deltaManifestList']}")
    for number in (1, 2):
        table.remove(f"snapshot/snapshot-{number}")
    scene.age()
    needed = table.referenced(path)
    gone = scene.remove()
    assert gone, "what snapshots 1 and 2 alone needed"
    assert needed <= scene.listed()
    assert "L3" in table.present()
    assert scene.findings["damaged_roots"] == {}
    assert scene.report is not None
    assert scene.report.plan is not None
    assert scene.report.plan.header.warnings == ()


def test_a_changelog_that_is_a_delta() -> None:
    """Without a producer a changelog consists of new data files, which no snapshot may know any more."""
    scene = OrphanScene(options=DECOUPLED)
    table = scene.table
    for number in range(1, 5):
        table.commit(*([f"-F{number - 1}"] if number > 1 else []), f"+F{number}")
    path = table.changelog_document(2)
    for number in (1, 2, 3):
        table.remove(f"snapshot/snapshot-{number}")
    scene.age()
    assert scene.remove()
    assert table.referenced(path) <= scene.listed()
    assert "F2" in table.present()


def test_a_tag_whose_changelog_went() -> None:
    """Expiry takes the changelog list of a tagged snapshot."""
    scene = OrphanScene(options={"changelog-producer": "input"})
    table = scene.table
    table.commit("+A", changelog=["+L1"])
    table.tag("t")
    table.commit("-A", "+B", changelog=["+L2"])
    table.remove("snapshot/snapshot-1")
    model = table.model("tag/tag-t")
    scene.drop(f"manifest/{model.document['changelogManifestList']}", table.path("L1"))
    scene.drop(*(f"manifest/{manifest.name}" for manifest in model.changelog))
    orphan = scene.orphan("b")
    scene.age()
    assert scene.remove() == {orphan}
    assert scene.findings["damaged_roots"] == {}
    assert list(scene.findings["incomplete_roots"]) == ["tag/tag-t"]


def test_a_live_snapshot_without_its_base_list() -> None:
    """Nobody knows what it needs, so that only what can be nobody's goes: temporary files."""
    scene = two_commits()
    scene.drop(f"manifest/{scene.table.document('snapshot/snapshot-2')['baseManifestList']}")
    orphans = {scene.orphan("b"), scene.put(f"manifest/manifest-{unique('m')}-0")}
    temp = scene.put(f"snapshot/.snapshot-9.{unique('t')}.tmp")
    scene.age()
    assert scene.remove(reads=False) == {temp}
    assert list(scene.findings["damaged_roots"]) == ["snapshot/snapshot-2"]
    assert scene.kept["damaged_root"] == len(orphans)
    assert len(scene.sleeps) > 1, "it was waited for"
    assert scene.report is not None
    assert scene.report.plan is not None
    (warning,) = scene.report.plan.header.warnings  # which names the missing list, so that nothing else has to
    assert scene.findings["missing"]["count"] == 1
    assert "snapshot/snapshot-2: manifest/" in warning
    assert "does not exist" in warning


def test_a_live_tag_without_a_manifest() -> None:
    scene = two_commits()
    scene.table.tag("t", snapshot=1)
    (manifest,) = scene.table.model("tag/tag-t").delta
    scene.drop(f"manifest/{manifest.name}")
    scene.orphan("b")
    scene.age()
    assert scene.remove(reads=False) == set()
    assert set(scene.findings["damaged_roots"]) == {"snapshot/snapshot-1", "tag/tag-t", "snapshot/snapshot-2"}


def test_a_hollow_snapshot_that_goes() -> None:
    """Another engine's expiry takes files first and the document last; until then the snapshot looks damaged."""
    scene = two_commits()
    model = scene.table.model("snapshot/snapshot-1")
    scene.drop(scene.table.path("A"), f"manifest/{model.document['baseManifestList']}")
    scene.drop(f"manifest/{model.document['deltaManifestList']}")
    left = scene.orphan("b")
    scene.age()

    def goes() -> None:
        if len(scene.sleeps) == 2:
            scene.table.remove("snapshot/snapshot-1")

    scene.on_sleep = goes
    assert scene.remove() == {left}
    assert scene.findings["damaged_roots"] == {}
    assert len(scene.sleeps) == 2


def test_a_manifest_that_is_denied() -> None:
    class Denying(WrappingStore):
        def read(self, key: str, max_bytes: int | None = None) -> Body:
            if key.startswith("manifest/manifest-list-"):
                return super().read(key, max_bytes)
            if key.startswith("manifest/"):
                raise AccessDeniedError(f"read {self.location}/{key}: permission denied")
            return super().read(key, max_bytes)

    scene = two_commits()
    scene.orphan("b")
    scene.age()
    before = scene.listed()
    with pytest.raises(AccessDeniedError, match="permission denied"):
        scene.remove(wrap=Denying)
    assert scene.listed() == before


@pytest.mark.parametrize("kind", ["baseManifestList", "manifest", "indexManifest"])
@pytest.mark.parametrize("body", [b"", b"Obj\x01", b"\0\1\2", None], ids=["empty", "magic", "garbage", "cut"])
def test_a_manifest_that_does_not_decode(kind: str, body: bytes | None) -> None:
    """It is there, so it is not missing: what it says cannot be known, and nothing goes, temporary files included."""
    scene = OrphanScene()
    scene.table.commit("+A", index={"i": b"\0\0\0\1"})
    scene.table.commit("-A", "+B")
    model = scene.table.model("snapshot/snapshot-2")
    path = f"manifest/{model.delta[0].name if kind == 'manifest' else model.document[kind]}"
    scene.put(path, scene.store.read(path).data[:-9] if body is None else body)
    scene.orphan("b")
    scene.put(f"snapshot/.snapshot-9.{unique('t')}.tmp")
    scene.age()
    code, sentence = scene.refusal()
    assert code == "unreadable_root"
    assert path in sentence


def test_a_manifest_in_orc_without_its_reader(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    scene = two_commits()
    (manifest,) = scene.table.model("snapshot/snapshot-2").delta
    size = len(scene.store.read(f"manifest/{manifest.name}").data)
    scene.put(f"manifest/{manifest.name}", b"ORC".ljust(size, b"."))
    scene.orphan("b")
    scene.age()
    (tmp_path / "pyarrow.py").write_text("raise ImportError")
    orc._process.end()
    try:
        with monkeypatch.context() as patch:
            patch.syspath_prepend(tmp_path)
            code, sentence = scene.refusal()
    finally:
        orc._process.end()
    assert code == "orc_needs_pyarrow"
    assert "lakesweep[orc]" in sentence


def test_a_request_that_fails() -> None:
    """Whatever fails, once or for ever: nothing is concluded from it."""
    scene = two_commits()
    scene.orphan("b")
    scene.age()
    before, calls = scene.listed(), 0

    def count(name: str) -> None:
        nonlocal calls
        calls += 1

    scene.maintainer(PagedStore(scene.store, count)).run("remove-orphan-files", execute=False)
    for at in range(1, calls + 1):
        made = 0

        def fail(name: str, at: int = at) -> None:
            nonlocal made
            made += 1
            if made == at:
                raise StorageError(f"{name}: broken on purpose", code="broken")

        with pytest.raises(StorageError, match="broken on purpose"):
            scene.maintainer(PagedStore(scene.store, fail)).run("remove-orphan-files")
        assert scene.listed() == before
    assert calls > 30


@pytest.mark.parametrize("first", [9, 99, 4958])
def test_a_table_that_keeps_one_snapshot(first: int) -> None:
    """The only snapshot is replaced by its successor, at each request in turn, and again two requests later.

    Names of snapshots sort as text: 10 comes before 9, so that a listing of several pages may show neither.
    """
    at, ended = 0, False
    while not ended:
        at += 1
        scene = OrphanScene()
        table = scene.table
        table.commit("+F0", snapshot_id=first)
        orphan = scene.orphan("b")
        scene.age()
        calls = 0

        def before(name: str, scene: OrphanScene = scene, table: TableBuilder = table, at: int = at) -> None:
            nonlocal calls
            calls += 1
            if calls in (at, at + 2):
                number = table.ids("snapshot")[-1]
                table.commit(f"-F{number - first}", f"+F{number - first + 1}")
                model = table.model(f"snapshot/snapshot-{number}")
                for path in table.referenced(f"snapshot/snapshot-{number}") - table.referenced(table.root(number + 1)):
                    if path != f"snapshot/snapshot-{number}":
                        scene.drop(path)
                assert model.id == number
                table.remove(f"snapshot/snapshot-{number}")

        gone = scene.remove(wrap=lambda store, before=before: PagedStore(store, before, 1))
        assert gone <= {orphan} | {key for key in gone if key.startswith("manifest/")}, (at, gone)
        ended = calls < at
        assert scene.report is not None
        assert scene.report.status == "done" or not gone, (at, scene.report)
    assert at > 40


@pytest.mark.parametrize("name", ["b", "A"])
def test_a_tag_is_moved_while_roots_are_collected(name: str) -> None:
    """Its copy is made, then it goes; the new name may sort before or after the old one."""
    at, ended = 0, False
    while not ended:
        at += 1
        scene = OrphanScene()
        table = scene.table
        table.commit("+A")
        table.tag("a")
        table.commit("-A", "+B")
        table.remove("snapshot/snapshot-1")
        orphan = scene.orphan("b")
        scene.age()
        calls = 0

        def before(request: str, table: TableBuilder = table, at: int = at) -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                table.tag(name, snapshot=1)
            elif calls == at + 1:
                table.remove("tag/tag-a")

        gone = scene.remove(wrap=lambda store, before=before: PagedStore(store, before, 1), reads=False)
        assert gone <= {orphan}, at
        assert_all_readable(table)
        ended = calls < at
    assert at > 40


def test_a_branch_becomes_main_and_goes() -> None:
    """Fast-forward, then the branch is dropped, at each request in turn; its files are needed all the time."""
    at, ended = 0, False
    while not ended:
        at += 1
        scene = OrphanScene()
        table = scene.table
        table.commit("+A")
        table.tag("t")
        table.branch("b", from_tag="t").commit("+X", "+Y")
        table.on_branch("b").tag("of-b", snapshot=2)
        table.commit("+M")
        orphan = scene.orphan("b")
        scene.age()
        calls = 0

        def before(request: str, scene: OrphanScene = scene, table: TableBuilder = table, at: int = at) -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                table.fast_forward("b")
            elif calls == at + 1:
                for root in [root for root in table.roots() if root.startswith("branch/")]:
                    table.remove(root)
                scene.drop(*(entry.key for entry in scene.store.list("branch/")))

        gone = scene.remove(wrap=lambda store, before=before: PagedStore(store, before, 2), reads=False)
        assert_all_readable(table)
        assert not {table.path("X"), table.path("Y")} & gone, at
        assert orphan in gone or not gone, at
        ended = calls < at
    assert at > 40


def test_snapshots_below_a_gap_may_be_hollow() -> None:
    scene = OrphanScene()
    table = scene.table
    for number in range(1, 7):
        table.commit(f"+F{number}", *([f"-F{number - 1}"] if number > 1 else []))
    for number in (3, 4):
        table.remove(f"snapshot/snapshot-{number}")
    table.hint("EARLIEST", 5)
    _incomplete(scene, 1)
    orphan = scene.orphan("b")
    scene.age()
    needed = table.referenced("snapshot/snapshot-2")
    gone = scene.remove(reads=False)
    assert orphan in gone
    assert needed <= scene.listed(), "what can be read of those below the gap stays"
    assert scene.findings["damaged_roots"] == {}
    assert list(scene.findings["incomplete_roots"]) == ["snapshot/snapshot-1"]


def test_snapshots_below_the_earliest_may_be_hollow() -> None:
    """An expiry that could not delete two documents, or a fast-forward, leaves them without a gap."""
    scene = OrphanScene()
    table = scene.table
    for number in range(1, 7):
        table.commit(f"+F{number}", *([f"-F{number - 1}"] if number > 1 else []))
    table.hint("EARLIEST", 3)
    _incomplete(scene, 1)
    orphan = scene.orphan("b")
    scene.age()
    assert orphan in scene.remove(reads=False)
    assert scene.findings["damaged_roots"] == {}
    assert list(scene.findings["incomplete_roots"]) == ["snapshot/snapshot-1"]


def _incomplete(scene: OrphanScene, number: int) -> None:
    """Take what only this snapshot and its successor need of its lists, as a killed expiry does."""
    document = scene.table.document(f"snapshot/snapshot-{number}")
    scene.drop(f"manifest/{document['baseManifestList']}", f"manifest/{document['deltaManifestList']}")


def test_a_manifest_of_many_roots_is_read_once() -> None:
    scene = OrphanScene()
    table = scene.table
    table.commit(manifests=[[f"+F{number}"] for number in range(300)])
    table.tag("t")
    for name in ("b", "c"):
        table.branch(name, from_tag="t").commit(f"+{name}")
    orphan = scene.orphan("b")
    scene.age()
    reads: list[str] = []
    assert scene.remove(wrap=lambda store: PagedStore(store, reads.append, 1000)) == {orphan}
    manifests = [name for name in reads if name.startswith("read manifest/manifest-") and "-list-" not in name]
    assert len(manifests) == len(set(manifests)) == 302
    assert scene.findings["manifests"] == 302


def test_a_snapshot_that_a_rollback_makes_of_a_tag() -> None:
    """Its changelog went by expiry, like that of the tag, and it appears while roots are collected."""
    at, ended = 0, False
    while not ended:
        at += 1
        scene = OrphanScene(options={"changelog-producer": "input"})
        table = scene.table
        table.commit("+A", changelog=["+L1"])
        table.tag("t")
        table.commit("-A", "+B", changelog=["+L2"])
        table.remove("snapshot/snapshot-1")
        model = table.model("tag/tag-t")
        scene.drop(f"manifest/{model.document['changelogManifestList']}", table.path("L1"))
        orphan = scene.orphan("b")
        scene.age()
        calls = 0

        def before(request: str, table: TableBuilder = table, at: int = at) -> None:
            nonlocal calls
            calls += 1
            if calls == at:
                table.rollback("t")

        gone = scene.remove(wrap=lambda store, before=before: PagedStore(store, before, 2), reads=False)
        ended = calls < at
        assert scene.findings["damaged_roots"] == {}, at
        assert scene.report is not None
        assert orphan in gone or scene.report.status == "stale", (at, scene.report)
    assert at > 40
