"""Tables that something else broke: no operation of ours ends as a success of them."""

from collections.abc import Callable

import pytest

from lakesweep.aws.recording import status_metric
from lakesweep.format.manifest import read_manifest_list
from tests.support.memory_store import MemoryStore
from tests.support.orphan_scene import OrphanScene
from tests.support.table_builder import TableBuilder


def lost() -> OrphanScene:
    """Return a table whose snapshots were deleted by somebody, and whose tag is still there."""
    scene = OrphanScene(options={"snapshot.num-retained.max": "2", "snapshot.num-retained.min": "1"})
    for label in "ABC":
        scene.table.commit(f"+{label}")
    scene.table.tag("t", snapshot=1)
    scene.drop(*(key for key in scene.listed() if key.startswith("snapshot/")))
    scene.age()
    return scene


@pytest.mark.parametrize("operation", ["expire-snapshots", "expire-changelogs", "expire-tags", "maintain"])
def test_expiry_of_a_lost_history_is_no_success(operation: str) -> None:
    scene = lost()
    before = scene.listed()
    report = scene.maintainer().run(operation)
    assert report.to_json()["status"] == "damaged"
    assert any("lost its history" in sentence for sentence in report.all_warnings())
    assert scene.listed() == before


def test_deleting_the_last_tag_of_a_lost_history_keeps_its_files() -> None:
    scene = lost()
    before = scene.listed()
    report = scene.maintainer().run("delete-tag", tag=["t"])
    assert report.to_json()["status"] == "damaged"
    assert before - scene.listed() == {"tag/tag-t"}


def test_a_pass_over_a_damaged_tag_is_no_success() -> None:
    """The snapshot goes, whatever the tag may need stays, and the report names the tag."""
    scene = OrphanScene(options={"snapshot.num-retained.max": "1", "snapshot.num-retained.min": "1"})
    scene.table.commit("+A")
    scene.table.tag("t")
    for label in "BC":
        scene.table.commit(f"+{label}", "-A" if label == "B" else "-B")
    scene.drop(f"manifest/{scene.table.document('tag/tag-t')['deltaManifestList']}")
    scene.age()
    report = scene.maintainer().run("maintain")
    document = report.to_json()
    assert document["status"] == "damaged"
    (step,) = [step for step in report.steps or () if step.operation == "expire-snapshots"]
    assert step.plan is not None
    assert "tag/tag-t" in step.plan.header.findings["damaged_roots"]  # type: ignore[operator]
    assert scene.table.exists(scene.table.path("A"))


def test_expiry_of_tags_notices_a_lost_history_that_has_no_tag() -> None:
    scene = lost()
    scene.drop("tag/tag-t")
    scene.table.hint("LATEST", 3)
    assert scene.maintainer().run("expire-tags").to_json()["status"] == "damaged"


def test_no_changelog_goes_below_a_newest_snapshot_without_its_index_manifest() -> None:
    scene = OrphanScene(options={"changelog-producer": "input"})
    for label in "ABC":
        scene.table.commit(f"+{label}", changelog=[f"+L{label}"], index={"i": {"C": (0,)}} if label == "C" else None)
    for number in (1, 2):
        scene.table.changelog_document(number)
        scene.drop(f"snapshot/snapshot-{number}")
    scene.table.hint("EARLIEST", 1, folder="changelog")
    scene.drop(path := f"manifest/{scene.table.document('snapshot/snapshot-3')['indexManifest']}")
    before = scene.listed()
    document = scene.maintainer().run("expire-changelogs", retain_max=1).to_json()
    assert document["status"] == "refused"
    assert f"{path} does not exist" in str(document)
    assert scene.listed() == before


@pytest.mark.parametrize("operation", ["expire-snapshots", "maintain"])
@pytest.mark.parametrize("is_remembered", [False, True])
def test_nothing_older_goes_below_a_newest_snapshot_without_its_index_manifest(
    operation: str, is_remembered: bool
) -> None:
    """The plan frees no index file, so it asks for the index manifest of the newest snapshot alone."""
    scene = OrphanScene(options={"snapshot.num-retained.max": "2", "snapshot.num-retained.min": "1"})
    for label in "ABC":
        scene.table.commit(f"+{label}", index={"i": {"C": (0,)}} if label == "C" else None)
    if is_remembered:
        assert scene.maintainer().run(operation).to_json()["status"] == "done"
        scene.table.commit("+D")
    scene.drop(path := f"manifest/{scene.table.document('snapshot/snapshot-3')['indexManifest']}")
    before = {key for key in scene.listed() if "/snapshot-" in key}
    document = scene.maintainer().run(operation).to_json()
    assert document["status"] == "refused"
    assert f"{path} does not exist" in str(document)
    assert {key for key in scene.listed() if "/snapshot-" in key} == before


def newest_manifest(scene: OrphanScene) -> str:
    """Return the path of a manifest that only the newest snapshot has."""
    number = max(int(key.rpartition("-")[2]) for key in scene.listed() if key.startswith("snapshot/snapshot-"))
    path = f"manifest/{scene.table.document(f'snapshot/snapshot-{number}')['deltaManifestList']}"
    (meta,) = read_manifest_list(scene.store.read(path).data, path)
    return f"manifest/{meta.file_name}"


def bare_changelogs() -> OrphanScene:
    """Return a table with changelogs of commits without changes, so that their deletion frees no file."""
    scene = OrphanScene(options={"changelog-producer": "input"})
    for label in "ABCD":
        scene.table.commit(f"+{label}")
    for number in (1, 2, 3):
        document = scene.table.document(f"snapshot/snapshot-{number}")
        scene.table.changelog_document(number)
        scene.drop(*(f"manifest/{document[name]}" for name in ("baseManifestList", "deltaManifestList")))
        scene.drop(f"snapshot/snapshot-{number}")
    return scene


def changelogs_with_files() -> OrphanScene:
    """Return a table with changelogs that hold files of their own."""
    scene = OrphanScene(options={"changelog-producer": "input"})
    for label in "ABCD":
        scene.table.commit(f"+{label}", changelog=[f"+L{label}"])
    for number in (1, 2, 3):
        scene.table.changelog_document(number)
        scene.drop(f"snapshot/snapshot-{number}")
    return scene


def tags_without_files() -> OrphanScene:
    """Return a table with tags of expired snapshots whose data files the newest snapshot has as well."""
    scene = OrphanScene()
    for number, label in enumerate("ABC", 1):
        scene.table.commit(f"+{label}")
        scene.table.tag(f"t{number}", snapshot=number)
    scene.table.commit("+D")
    assert scene.maintainer().run("expire-snapshots", retain_max=1, retain_min=1).status == "done"
    return scene


def tags_with_files() -> OrphanScene:
    """Return a table with tags of expired snapshots that hold files of their own."""
    scene = OrphanScene()
    for number, label in enumerate("ABC", 1):
        scene.table.commit(f"+{label}", *(f"-{each}" for each in "ABC"[number - 2 : number - 1] if number > 1))
        scene.table.tag(f"t{number}", snapshot=number)
    scene.table.commit("-C", "+D")
    assert scene.maintainer().run("expire-snapshots", retain_max=1, retain_min=1).status == "done"
    return scene


CALLS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "expire-changelogs": ({"retain_max": 3, "retain_min": 1}, {"retain_max": 2, "retain_min": 1}),
    "delete-tag": ({"tag": ["t1"]}, {"tag": ["t2"]}),
}
"""Two calls of each operation, one after the other."""


@pytest.mark.parametrize("is_remembered", [False, True])
@pytest.mark.parametrize(
    ("operation", "make"),
    [
        ("expire-changelogs", bare_changelogs),
        ("expire-changelogs", changelogs_with_files),
        ("delete-tag", tags_without_files),
        ("delete-tag", tags_with_files),
    ],
)
def test_no_root_is_deleted_while_the_newest_snapshot_lacks_a_manifest(
    operation: str, make: Callable[[], OrphanScene], is_remembered: bool
) -> None:
    """This holds if the deletion frees no file, and if an earlier run has cached the manifest."""
    scene = make()
    first, second = CALLS[operation]
    if is_remembered:
        assert scene.maintainer().run(operation, **first).to_json()["status"] == "done"
    scene.drop(path := newest_manifest(scene))
    before = scene.listed()
    document = scene.maintainer().run(operation, **second if is_remembered else first).to_json()
    assert document["status"] == "refused"
    assert f"{path} does not exist" in str(document)
    assert scene.listed() == before


def test_lost_statistics_of_the_newest_snapshot_are_no_damage() -> None:
    """Readers do without them."""
    scene = OrphanScene(options={"snapshot.num-retained.max": "1", "snapshot.num-retained.min": "1"})
    scene.table.commit("+A")
    scene.table.commit("+B", statistics="s")
    scene.drop(f"statistics/{scene.table.document('snapshot/snapshot-2')['statistics']}")
    assert scene.maintainer().run("expire-snapshots").to_json()["status"] == "done"


def test_damage_is_counted_where_another_step_of_the_pass_is_skipped() -> None:
    """A table that states no retention is skipped, and its broken tag raises the alarm all the same."""
    scene = OrphanScene(options={"tag.time-expire-enabled": "true"})
    scene.table.commit("+A")
    scene.table.tag("t")
    scene.table.store.put("tag/tag-t", b"{")
    report = scene.maintainer().run("maintain")
    assert report.refusal is not None
    assert (report.refusal.code, report.is_damaged) == ("retention_not_stated", True)
    assert status_metric(report) == "RunsDamaged"


@pytest.mark.parametrize("left", ["schema/", "snapshot/", "tag/", "changelog/", "branch/"])
def test_a_damaged_table_in_the_folder_of_another_keeps_its_files(left: str) -> None:
    """It lies where a partition of the outer table would, and only some of its documents are left."""
    inner = TableBuilder(MemoryStore("memory://bucket/inner"))
    inner.commit("+Inner")
    inner.tag("t")
    inner.changelog_document(1)
    inner.branch("b", from_tag="t")
    scene = OrphanScene()
    scene.table.commit("+A")
    orphan = scene.orphan("outer")
    for entry in inner.store.list(""):
        if entry.key.startswith((left, "manifest/", "bucket-0/")):
            scene.put(f"dt=1/{entry.key}", inner.store.read(entry.key).data)
    scene.age()
    judged = scene.maintainer().run("remove-orphan-files", execute=False)
    assert judged.plan is not None
    assert scene.remove() == {orphan}
