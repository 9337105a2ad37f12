"""`compact-manifest` on tables in memory, read back by an independent reader."""

from tests.unit.operations.manifests.manifest_world import ManifestWorld


def deleting() -> ManifestWorld:
    """Three days with a file each, of which the first is replaced."""
    world = ManifestWorld()
    world.fill("1", "2", "3")
    world.table.commit(
        "+X", "-F1", partition=("1",), statistics="S", document={"watermark": 7, "properties": {"a": "b"}}
    )
    return world


def test_the_same_files_in_one_manifest() -> None:
    world = deleting()
    before, live, keys = world.document(), world.live(), world.keys()
    report = world.compact()
    assert report.status == "done" and report.executed and report.run_id
    assert world.live() == live
    assert world.keys() >= keys
    after = world.document()
    (made,) = world.figures(report).made
    assert (made.snapshot_id, made.uuid) == (after["id"], after["uuid"]) == (before["id"] + 1, made.uuid)
    assert after["commitKind"] == "COMPACT"
    assert after["deltaRecordCount"] == 0
    carried = ("schemaId", "totalRecordCount", "watermark", "statistics", "properties", "nextRowId", "indexManifest")
    assert [after.get(key) for key in carried] == [before.get(key) for key in carried]
    assert "changelogManifestList" not in after and "operation" not in after
    (manifest,) = world.listed()
    assert (manifest["_NUM_ADDED_FILES"], manifest["_NUM_DELETED_FILES"]) == (3, 0)
    assert world.store.read("snapshot/LATEST").data == str(after["id"]).encode()


def test_the_report_says_before_and_after() -> None:
    world = deleting()
    bodies = world.bodies()
    planned = world.figures(world.compact(execute=False))
    assert world.bodies() == bodies
    done = world.figures(world.compact())
    for report in (planned, done):
        assert (report.before.manifests, report.before.entries, report.before.deleted_entries) == (4, 5, 1)
        assert report.after is not None and report.saved_requests is not None
        assert (report.after.manifests, report.after.entries, report.after.deleted_entries) == (1, 3, 0)
        assert report.after.bytes == sum(each["_FILE_SIZE"] for each in world.listed())
        assert (report.saved_requests.reader, report.saved_requests.commit) == (3, 0)


def test_a_second_compaction_finds_nothing() -> None:
    world = deleting()
    world.compact()
    ids = world.ids()
    for execute in (False, True):
        report = world.compact(execute=execute)
        assert report.status == "nothing_to_do"
        assert world.figures(report).after == world.figures(report).before
    assert world.ids() == ids


def test_a_plan_of_a_pass_reads_no_manifest() -> None:
    world = deleting()
    report = world.compact(execute=False, unattended=True)
    assert report.status == "planned"
    assert world.figures(report).after is None
    assert not [call for call in world.switch.calls if "manifest/manifest-" in call and "-list-" not in call]


def test_a_table_without_a_snapshot() -> None:
    assert ManifestWorld().compact().status == "nothing_to_do"


def test_after_an_older_version_came_back_as_the_newest() -> None:
    """Files that were deleted are added again, twice. The rewritten base list lets them live, and so do we."""
    world = deleting()
    for _ in range(2):
        world.table.rollback_as_latest(1)
        world.table.rollback_as_latest(4)
    live = world.live()
    assert world.compact().status == "done"
    assert world.live() == live
    world.table.rollback_as_latest(1)
    live = world.live()
    assert world.compact().status == "done"
    assert world.live() == live
