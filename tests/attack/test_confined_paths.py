"""Paths of a plan that leave the place of their kind inside the table."""

import pytest

from lakesweep.errors import RefusedError
from lakesweep.model.paths.allowed import check_action, may_delete
from lakesweep.model.plan import PHASES, Delete

KINDS = {
    "data": ("data", "bucket-0/data-1.parquet"),
    "extra": ("data", "dt=1/bucket-0/data-1.parquet.index"),
    "changelog": ("changelog", "bucket-0/changelog-1.parquet"),
    "index": ("index", "index/index-1"),
    "manifest": ("manifest", "manifest/manifest-1"),
    "manifest_list": ("manifest_list", "manifest/manifest-list-1"),
    "index_manifest": ("index", "manifest/index-manifest-1"),
    "statistics": ("statistics", "statistics/stat-1"),
}
"""Kind -> phase and a path where such a file may lie."""
ELSEWHERE = (
    *("snapshot/snapshot-1", "schema/schema-0", "tag/tag-a", "consumer/consumer-a", "branch/branch-b/schema/schema-0"),
    *("snapshot/bucket-0/data-1.parquet", "schema/bucket-0/data-1.parquet", "branch/bucket-0/data-1.parquet"),
    *("../other/bucket-0/data-1.parquet", "bucket-0/../../other/snapshot/snapshot-1", "bucket-0/..", "bucket-0/."),
    *("manifest/../snapshot/snapshot-1", "index/../schema/schema-0", "statistics/../tag/tag-a", "manifest/", "index/"),
    *("bucket-0//data-1.parquet", "./bucket-0/data-1.parquet", "bucket-0/data-1.parquet/", "bucket-x/data-1.parquet"),
    *("bucket-0/a\0b", "", "/", "~/.ssh/authorized_keys", "FILE:/etc/passwd", "manifest/x/y", "index/x/y"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_each_kind_has_its_place(kind: str) -> None:
    phase, path = KINDS[kind]
    assert phase in PHASES
    check_action(Delete(phase, kind, path, 1, "it may"))


@pytest.mark.parametrize("path", ELSEWHERE)
@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_leaves_it(kind: str, path: str) -> None:
    """A planner keeps such a file, and a stored plan that names it is refused whole."""
    assert not may_delete(kind, path)
    with pytest.raises(RefusedError) as raised:
        check_action(Delete(KINDS[kind][0], kind, path, 1, "it may not"))
    assert raised.value.code == "forbidden_action"


OF_THE_TABLE = ("manifest", "manifest_list", "index_manifest", "statistics", "snapshot", "tag", "temp")


@pytest.mark.parametrize("root", ["/", "/ext/", "s3://lake/ext/", "file:/"])
@pytest.mark.parametrize("kind", OF_THE_TABLE)
def test_only_files_of_data_may_lie_outside(kind: str, root: str) -> None:
    for name in ("manifest/manifest-1", "bucket-0/data-1.parquet", "snapshot/snapshot-1", "x"):
        assert not may_delete(kind, root + name)
