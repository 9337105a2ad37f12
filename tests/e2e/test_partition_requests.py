"""How many requests dropping and expiring partitions takes, counted on a real S3 protocol.

Counts are exact, so they are asserted.
"""

import pytest

from tests.support.overtaking import PartitionedTable
from tests.support.reader import read_all
from tests.support.s3_server import fresh_bucket, moto_settings

MOST, FEW = 25, 2
"""Of a drop with ten manifests, so few of which may name the partition."""
DAY = "2024-01-03"
MOST_TO_VISIBLE = 6
MOST_GETS_AGAIN = 6 + 1
"""Of a second attempt, after an APPEND of somebody else. The last one reads what the sweep knows, to add the commit."""
EXPIRES = {"partition.expiration-time": "365 d", "partition.timestamp-formatter": "yyyy-MM-dd"}
FUTURE = tuple(f"2924-01-{day:02}" for day in range(1, 6))


def table_of(commits: int, **more: object) -> PartitionedTable:
    return PartitionedTable(moto_settings(), fresh_bucket(), commits=commits, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("manifests", "requests"),
    [(1, {"get": 8, "list": 6, "put": 10}), (10, {"get": 17, "list": 6, "put": 10})],
)
def test_a_drop(manifests: int, requests: dict[str, int]) -> None:
    """What grows with the table is one read of each manifest that may name the partition."""
    table = table_of(manifests)
    run = table.run("drop-partition", partition=[f"dt={DAY}"])
    assert run.report.status == "done", run.report.refusal
    assert run.requests == requests
    assert sum(run.requests.values()) - manifests <= MOST - FEW
    assert len(run.to_visible) <= MOST_TO_VISIBLE, run.to_visible
    newest = read_all(table.store)[f"snapshot/snapshot-{manifests + 1}"]
    assert {path.partition("/")[0] for path in newest.live} == {f"dt={day}" for day in table.days if day != DAY}
    # Its control location knows by now that the store keeps to conditions.
    again = table.run("drop-partition", partition=["dt=2024-01-04"])
    assert again.requests == requests | {"put": requests["put"] - 1}


def test_a_manifest_that_cannot_name_the_partition_is_not_read() -> None:
    """Its statistics say so."""
    table = table_of(10)
    table.days = ("2024-02-01",)
    table.append()
    run = table.run("drop-partition", partition=["dt=2024-02-01"])
    assert run.report.status == "done", run.report.refusal
    assert run.requests == {"get": 8, "list": 6, "put": 10}


def test_a_dry_run() -> None:
    """Nothing is put. Of each root the document and two lists are read, to say which still show the partition."""
    run = table_of(10).run("drop-partition", partition=[f"dt={DAY}"], execute=False)
    assert run.report.status == "planned", run.report.refusal
    assert run.requests == {"get": 2 + 10 * 3 + 10, "list": 4}
    assert not [call for call in run.calls if " put " in call]


def test_an_expiry_that_finds_nothing_due() -> None:
    """It reads each manifest once, and puts nothing."""
    run = table_of(10, days=FUTURE, options=EXPIRES).run("expire-partitions")
    assert run.report.status == "nothing_to_do", run.report.refusal
    assert run.requests == {"get": 15, "list": 2}


def test_an_expiry() -> None:
    """All five partitions are due: one commit, with the requests of a drop."""
    table = table_of(10, options=EXPIRES)
    run = table.run("expire-partitions")
    assert run.report.status == "done", run.report.refusal
    assert run.requests == {"get": 17, "list": 6, "put": 10}
    assert not read_all(table.store)["snapshot/snapshot-11"].live


def test_a_due_partition_between_others() -> None:
    """The smallest and the largest value of a manifest say nothing about those between."""
    days = ("01-01-2924", "02-01-2020", "03-01-2924")
    options = EXPIRES | {"partition.timestamp-formatter": "dd-MM-yyyy"}
    table = table_of(2, days=days, options=options)
    run = table.run("expire-partitions")
    assert run.report.status == "done", run.report.refusal
    newest = read_all(table.store)["snapshot/snapshot-3"].live
    assert {path.partition("/")[0] for path in newest} == {f"dt={day}" for day in days if "2020" not in day}


@pytest.mark.parametrize(
    ("other", "requests"),
    [
        ("append", {"get": 7, "list": 5, "put": 11}),
        ("overwrite", {"get": 6, "list": 5, "put": 11}),
        ("compact", {"get": 6, "list": 5, "put": 11}),
    ],
)
def test_a_second_attempt(other: str, requests: dict[str, int]) -> None:
    """The commit that won, as such, as base and as base once more; its lists; and manifests that are new, if any.

    Manifests never change, so also a commit that is planned anew as a whole does not read them again.
    """
    table = table_of(10)
    run = table.run("drop-partition", partition=[f"dt={DAY}"], others=getattr(table, other))
    assert run.report.status == "done", run.report.refusal
    assert run.report.commits is not None
    assert [(commit.attempts, commit.snapshot_id) for commit in run.report.commits.made] == [(2, 12)]
    assert run.again == requests
    assert run.again["get"] <= MOST_GETS_AGAIN
    said = f"snapshot 11 ({other.upper()}) was committed meanwhile, so the commit was planned anew as a whole"
    assert run.report.warnings == (() if other == "append" else (said,))
    assert not [path for path in read_all(table.store)["snapshot/snapshot-12"].live if path.startswith(f"dt={DAY}/")]
