"""The manifests of a table's first snapshot, if the second commit merged them."""

from tests.support.world import ReadWorld


def test_a_merged_first_manifest_goes_with_its_snapshot() -> None:
    """The base list of the first snapshot is empty, so the next list shows nothing about its delta."""
    world = ReadWorld()
    world.table.commit("+A")
    first = {key for key in world.keys("manifest/") if "-list-" not in key}
    world.table.merge_manifests()
    world.table.commit("+B")
    assert len(first) == 1
    world.expire(1)
    assert not first & world.keys("manifest/")
