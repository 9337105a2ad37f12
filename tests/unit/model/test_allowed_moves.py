"""What a plan that moves a branch may write and delete: documents where they lie, and no file of the table."""

import pytest

from lakesweep.errors import RefusedError
from lakesweep.model.paths.allowed import check_action
from lakesweep.model.plan import MOVE_PHASES, Delete, Put

DELETES = (
    ("withdraw", "snapshot", "snapshot/snapshot-3"),
    ("withdraw", "snapshot", "branch/branch-b/snapshot/snapshot-3"),
    ("withdraw", "consumer", "branch/branch-b/consumer/consumer-c"),
    ("withdraw", "branch_document", "branch/branch-b/snapshot/.snapshot-3.0a.tmp"),
    ("withdraw", "branch_document", "branch/branch-b/tag/.tag-a.0a.tmp"),
    ("withdraw_changelogs", "changelog_document", "changelog/changelog-3"),
    ("withdraw_changelogs", "hint", "changelog/LATEST"),
    ("withdraw_tags", "tag", "tag/tag-a"),
    ("withdraw_tags", "tag_success", "tag/tag-success-file/a_SUCCESS"),
    ("publish_hints", "hint", "branch/branch-b/snapshot/LATEST"),
    ("clean", "schema", "schema/schema-2"),
    ("clean", "schema", "branch/branch-b/schema/schema-0"),
)
PUTS = (
    ("target", "snapshot", "snapshot/snapshot-3"),
    ("target", "hint", "snapshot/EARLIEST"),
    ("target", "tag", "branch/branch-b/tag/tag-a"),
    ("point", "hint", "snapshot/LATEST"),
    ("schemas", "schema", "branch/branch-b/schema/schema-0"),
    ("replace", "snapshot", "snapshot/snapshot-3"),
)
FORBIDDEN_DELETES = (
    *(("clean", kind, "bucket-0/data-1.parquet") for kind in ("data", "extra", "changelog", "index")),
    ("clean", "manifest", "manifest/manifest-1"),
    ("clean", "branch_document", "manifest/manifest-1"),
    ("withdraw", "schema", "schema/schema-2"),
    ("withdraw", "schema", "branch/branch-b/schema/schema-2"),
    ("withdraw", "branch_document", "snapshot/.snapshot-3.0a.tmp"),
    ("withdraw", "branch_document", "branch/branch-b/data/x"),
    ("withdraw", "branch_document", "branch/branch-b/schema/schema-2"),
    ("withdraw", "branch_document", "branch/branch-b/tag/tag-a"),
    ("withdraw", "branch_document", "branch/branch-b/tag/../../../snapshot/x"),
    ("withdraw", "snapshot", "snapshot/LATEST"),
    ("withdraw", "snapshot", "s3://bucket/table/snapshot/snapshot-1"),
    ("clean", "schema", "schema/schema-x"),
    ("documents", "schema", "schema/schema-2"),
    ("hints", "hint", "snapshot/LATEST"),
)
FORBIDDEN_PUTS = (
    ("documents", "snapshot", "snapshot/snapshot-3"),
    ("tags", "schema", "schema/schema-3"),
    ("publish", "snapshot", "snapshot/snapshot-3/x"),
    ("publish", "data", "bucket-0/data-1.parquet"),
    ("schemas", "schema", "schema/../schema/schema-1"),
)


@pytest.mark.parametrize(("phase", "kind", "path"), DELETES)
def test_documents_may_go(phase: str, kind: str, path: str) -> None:
    """Each kind of document, where it lies."""
    check_action(Delete(phase, kind, path, 1, "why"))


@pytest.mark.parametrize(("phase", "kind", "path"), PUTS)
def test_documents_may_be_written(phase: str, kind: str, path: str) -> None:
    """Each kind of document, where it lies."""
    check_action(Put(phase, kind, path, "{}", "why"))


@pytest.mark.parametrize(("phase", "kind", "path"), FORBIDDEN_DELETES)
def test_nothing_else_may_go(phase: str, kind: str, path: str) -> None:
    """No file, no schema before the end, nothing outside a branch's known folders."""
    with pytest.raises(RefusedError, match="no plan may"):
        check_action(Delete(phase, kind, path, 1, "why"))


@pytest.mark.parametrize(("phase", "kind", "path"), FORBIDDEN_PUTS)
def test_nothing_else_may_be_written(phase: str, kind: str, path: str) -> None:
    """Snapshots and schemas are written by plans that move a branch alone."""
    with pytest.raises(RefusedError, match="no plan may"):
        check_action(Put(phase, kind, path, "{}", "why"))


def test_every_phase_refuses_files() -> None:
    """There is no phase of a move in which a file may go."""
    for phase in MOVE_PHASES:
        with pytest.raises(RefusedError):
            check_action(Delete(phase, "data", "bucket-0/data-1.parquet", 1, "why"))
