"""No scan of a broken table ends as a success, and no lost history is taken for orphans."""

from collections.abc import Callable

import pytest

from lakesweep.storage.store import Body, Store
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.orphan_scene import DAY_MS, OrphanScene
from tests.support.table_builder import TableBuilder

SNAPSHOT = "snapshot/snapshot-{}"


def scene_of_three() -> OrphanScene:
    """Return a table of three snapshots, of which the first one is tagged."""
    scene = OrphanScene()
    for label in "ABC":
        scene.table.commit(f"+{label}")
    scene.table.tag("t", snapshot=1)
    return scene


def manifest_of(scene: OrphanScene, root: str, name: str) -> str:
    """Return the path of a list that a root names."""
    return f"manifest/{scene.table.document(root)[name]}"


def newest_manifest(scene: OrphanScene) -> str:
    """Return the path of the manifest that the newest snapshot added."""
    return f"manifest/{scene.table.model('snapshot/snapshot-3').delta[0].name}"


def own_list_of_tag(scene: OrphanScene) -> str:
    """Leave only the tag of the first snapshot, and return the path of its list."""
    path = manifest_of(scene, "tag/tag-t", "deltaManifestList")
    scene.drop("snapshot/snapshot-1")
    return path


@pytest.mark.parametrize(
    ("victim", "root"),
    [(newest_manifest, "snapshot/snapshot-3"), (own_list_of_tag, "tag/tag-t")],
    ids=["newest manifest", "list of a tag"],
)
def test_a_scan_of_a_damaged_root_is_no_success(victim: Callable[[OrphanScene], str], root: str) -> None:
    """Nothing goes, and the report names the root and what it lacks."""
    scene = scene_of_three()
    path = victim(scene)
    scene.drop(path)
    scene.orphan("b")
    scene.age()
    assert scene.remove(reads=False) == set()
    assert scene.report is not None
    assert scene.report.to_json()["status"] == "damaged"
    assert path in scene.findings["damaged_roots"][root]


def test_a_scan_of_a_table_without_a_live_file_is_no_success() -> None:
    """The orphan goes, and the report still names the file that readers miss."""
    scene = scene_of_three()
    orphan = scene.orphan("b")
    lost = scene.table.path("B")
    scene.drop(lost)
    scene.age()
    assert scene.remove(reads=False) == {orphan}
    assert scene.report is not None
    assert (scene.report.status, scene.report.to_json()["status"]) == ("done", "damaged")
    assert scene.findings["missing"]["first"][0]["path"] == lost


def test_a_whole_table_is_not_damaged() -> None:
    scene = scene_of_three()
    orphan = scene.orphan("b")
    scene.age()
    assert scene.remove() == {orphan}
    assert scene.report is not None
    assert scene.report.to_json()["status"] == "done"


def test_a_half_expired_snapshot_is_no_damage() -> None:
    """An expiry that died took the lists of a snapshot below a gap, and left its document."""
    scene = scene_of_three()
    for label in "DE":
        scene.table.commit(f"+{label}")
    scene.drop("tag/tag-t", manifest_of(scene, "snapshot/snapshot-1", "deltaManifestList"), "snapshot/snapshot-2")
    scene.age()
    scene.remove(reads=False)
    assert scene.report is not None
    assert scene.report.to_json()["status"] in ("done", "nothing_to_do")
    assert scene.findings["damaged_roots"] == {}


@pytest.mark.parametrize("trace", ["tag", "hint", "consumer", "branch"])
def test_a_lost_history_is_not_taken_for_orphans(trace: str) -> None:
    """All snapshots of main are gone; what is left tells that there were some."""
    scene = scene_of_three()
    scene.table.branch("b", from_tag="t")
    scene.drop(*(key for key in scene.listed() if key.startswith("snapshot/") and "snapshot-" in key))
    if trace != "tag":
        scene.drop("tag/tag-t")
    if trace != "hint":
        scene.drop(*(key for key in scene.listed() if key.startswith("snapshot/")))
    if trace == "consumer":
        scene.put("consumer/consumer-x", b'{"nextSnapshot":2}')
    scene.age()
    code, sentence = scene.refusal()
    assert code == "history_missing"
    assert "branch main" in sentence
    assert "no_history" in sentence


def test_a_lost_history_of_a_branch_is_not_taken_for_orphans() -> None:
    """Its folder looks like that of a branch that never had a snapshot, so nobody can tell."""
    scene = scene_of_three()
    branch = scene.table.branch("b", from_tag="t")
    branch.commit("+X")
    scene.drop(
        *(key for key in scene.listed() if key.startswith(("branch/branch-b/snapshot/", "branch/branch-b/tag/")))
    )
    scene.age()
    code, sentence = scene.refusal()
    assert code == "history_missing"
    assert "branch b" in sentence


def test_a_lost_history_is_told_before_the_quarantine_is_over() -> None:
    scene = scene_of_three()
    scene.drop(*(key for key in scene.listed() if key.startswith("snapshot/")))
    scene.age()
    code, _ = scene.refusal(quarantine="1 d")
    assert code == "history_missing"


def test_a_branch_that_never_had_a_snapshot_stops_no_scan_that_finds_nothing() -> None:
    scene = scene_of_three()
    scene.put("branch/branch-e/schema/schema-0", scene.store.read("schema/schema-0").data)
    temp = scene.put("snapshot/.snapshot-9.0c1d2e3f-0000-4000-8000-000000000001.tmp")
    scene.age()
    assert scene.remove() == {temp}
    assert scene.report is not None
    assert scene.report.to_json()["status"] == "done"


def test_a_reason_lets_a_scan_go_on_without_a_history() -> None:
    scene = scene_of_three()
    scene.put("branch/branch-e/schema/schema-0", scene.store.read("schema/schema-0").data)
    orphan = scene.orphan("b", age_ms=2 * DAY_MS)
    scene.age()
    assert scene.refusal()[0] == "history_missing"
    assert scene.remove(no_history="nobody has written to e yet") == {orphan}
    assert scene.report is not None
    assert scene.report.plan is not None
    assert scene.report.plan.header.arguments["no_history"] == "nobody has written to e yet"


def test_a_lost_history_is_damage_even_where_nothing_would_go() -> None:
    scene = OrphanScene()
    scene.table.commit("+A")
    scene.table.tag("t")
    scene.drop("snapshot/snapshot-1")
    scene.age()
    assert scene.remove(reads=False) == set()
    assert scene.report is not None
    assert scene.report.to_json()["status"] == "damaged"
    assert "tag/tag-t" in scene.findings["lost_histories"]["main"]


@pytest.mark.parametrize("branch", ["main", "b"])
def test_lost_newest_snapshots_are_not_taken_for_orphans(branch: str) -> None:
    """LATEST names a snapshot that is gone, as no operation of Paimon leaves it. Its files look like orphans."""
    scene, (table, path) = scene_with_lost_snapshots(branch)
    code, sentence = scene.refusal()
    assert code == "history_missing"
    for said in (f"branch {branch} has lost snapshots", "LATEST names snapshot 4", "snapshot 3 is the newest"):
        assert said in sentence
    assert scene.refusal(quarantine="1 d")[0] == "history_missing"
    assert path in scene.remove(no_history="the hint is wrong", reads=False)
    assert table.path("C") in scene.listed()


def test_lost_newest_snapshots_are_damage_even_where_nothing_would_go() -> None:
    """The report says why it is damaged."""
    scene = scene_of_three()
    scene.table.hint("LATEST", 4)
    assert scene.remove() == set()
    assert scene.report is not None
    assert scene.report.to_json()["status"] == "damaged"
    assert "LATEST names snapshot 4" in scene.findings["lost_histories"]["main"]
    assert any("branch main has lost its history: LATEST" in each for each in scene.report.all_warnings())


def test_a_commit_between_the_listing_and_the_look_at_the_hint_is_no_loss() -> None:
    scene = scene_of_three()
    orphan = scene.orphan("b")
    scene.table.hint("LATEST", 3)
    scene.age()
    assert scene.remove(wrap=lambda store: CommitAtHint(store, scene)) == {orphan}
    assert "snapshot/snapshot-4" in scene.listed()
    assert scene.report is not None
    assert scene.report.to_json()["status"] == "done"


class CommitAtHint(WrappingStore):
    """Somebody commits right before LATEST is read."""

    def __init__(self, store: Store, scene: OrphanScene) -> None:
        super().__init__(store)
        self._scene: OrphanScene | None = scene

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        if key == "snapshot/LATEST" and self._scene is not None:
            scene, self._scene = self._scene, None
            scene.table.hint("LATEST", scene.table.commit("+D"))
        return super().read(key, max_bytes)


def scene_with_lost_snapshots(branch: str) -> tuple[OrphanScene, tuple[TableBuilder, str]]:
    """Return a table of which the newest snapshot of a branch is gone, and a file that only that had."""
    scene = scene_of_three()
    scene.table.tag("x")
    table = scene.table if branch == "main" else scene.table.branch("b", from_tag="x")
    newest = table.commit("+N")
    table.hint("LATEST", newest)
    scene.drop(table.root(newest))
    scene.age()
    return scene, (table, table.path("N"))
