"""How many requests compacting manifests takes, counted on a real S3 protocol.

Counts are exact, so they are asserted.
"""

import pytest

from tests.support.live_records import listed, live_records
from tests.support.overtaking import PartitionedTable
from tests.support.s3_server import fresh_bucket, moto_settings


def table_of(commits: int, **more: object) -> PartitionedTable:
    return PartitionedTable(moto_settings(), fresh_bucket(), commits=commits, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("manifests", "requests"),
    [(2, {"get": 9, "list": 6, "put": 10}), (40, {"get": 47, "list": 6, "put": 10})],
)
def test_a_compaction(manifests: int, requests: dict[str, int]) -> None:
    """What grows with the table is one read of each small manifest."""
    table = table_of(manifests)
    run = table.run("compact-manifest")
    assert run.report.status == "done", run.report.refusal
    assert run.requests == requests
    assert live_records(table.store, manifests + 1) == live_records(table.store, manifests)
    assert len(run.to_visible) <= 6, run.to_visible
    again = table.run("compact-manifest")
    assert (again.report.status, again.requests) == ("nothing_to_do", {"get": 5, "list": 2})


def test_a_manifest_with_deleted_files_is_read_twice() -> None:
    table = table_of(10)
    table.overwrite()
    run = table.run("compact-manifest")
    assert run.report.status == "done", run.report.refusal
    assert run.requests == {"get": 19, "list": 6, "put": 10}


def test_a_dry_run() -> None:
    """Each manifest is read, since only then is it known what comes out; nothing is put."""
    run = table_of(10).run("compact-manifest", execute=False)
    assert run.report.status == "planned", run.report.refusal
    assert run.requests == {"get": 15, "list": 4}
    assert not [call for call in run.calls if " put " in call]


def test_a_second_attempt_uses_what_was_written() -> None:
    """The commit that was first as base twice, its lists, and its manifest; of ours only the lists are new.

    Counted is also how the first attempt ends: it takes the lease, looks, and gives the lease back.
    """
    table = table_of(10)
    run = table.run("compact-manifest", others=table.append, when="prepared")
    assert run.report.status == "done", run.report.refusal
    assert [line["_NUM_ADDED_FILES"] for line in listed(table.store, 12)] == [50, 5]
    assert run.again == {"get": 6, "list": 7, "put": 10}
    assert live_records(table.store, 12) == live_records(table.store, 11)


def test_a_second_attempt_after_a_snapshot_was_sent() -> None:
    """Everything is prepared anew."""
    table = table_of(10)
    run = table.run("compact-manifest", others=table.append)
    assert run.report.status == "done", run.report.refusal
    assert [line["_NUM_ADDED_FILES"] for line in listed(table.store, 12)] == [55]
    assert run.again == {"get": 17, "list": 5, "put": 11}
