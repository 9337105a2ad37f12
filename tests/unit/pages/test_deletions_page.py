"""The pages of runs and plans: sums by partition, kind and reason, and a size that does not grow with the plan."""

import json
from typing import Any

import pytest

from lakesweep.model.outcome import FailedDelete, Outcome
from lakesweep.pages.deletions import SHOWN, actions_of, deletions_of, partition_of, plan_page, run_page
from tests.unit.pages.deletions import action, planned, report, stored
from tests.unit.pages.elements import Elements


def data_of(page: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(Elements(page).texts["script"][1])
    return data


@pytest.mark.parametrize(
    ("path", "kind", "partition"),
    [
        ("dt=2026-01-31/bucket-0/data-1.parquet", "data", "dt=2026-01-31"),
        ("dt=1/hour=2/bucket-postpone/data-1.orc", "data", "dt=1/hour=2"),
        ("s3://cold/files/dt=1/bucket-0/data-1.orc", "data", "dt=1"),
        ("data/dt=1/bucket-0/data-1.orc", "data", "dt=1"),
        ("bucket-0/data-1.parquet", "data", "no partition"),
        ("s3://cold/a=b.parquet", "data", "no partition"),
        ("manifest/manifest-1", "manifest", "metadata and documents"),
        ("snapshot/snapshot-1", "snapshot", "metadata and documents"),
    ],
)
def test_partition_of(path: str, kind: str, partition: str) -> None:
    assert partition_of(path, kind) == partition


def test_sums() -> None:
    """Objects of unknown size count, and their bytes are not taken for 0."""
    found = deletions_of(
        [
            action("dt=1/bucket-0/a"),
            action("dt=1/bucket-0/b", None, reason="left the table at snapshot 31"),
            action(
                "snapshot/snapshot-1", 7, "snapshot", "the successor was committed before 2026-01-31T11:00:00.000+00:00"
            ),
            {"action": "write", "kind": "hint", "path": "snapshot/EARLIEST", "size_bytes": 1, "reason": "first"},
        ]
    )
    assert (found.total.count, found.total.bytes, found.total.unsized) == (3, 17, 1)
    assert {name: (each.count, each.bytes) for name, each in found.reasons.items()} == {
        "left the table at snapshot …": (2, 10),
        "the successor was committed before …": (1, 7),
    }
    assert found.partitions["dt=1"]["data"].unsized == 1
    assert found.writes == {"hint": 1}


def test_actions_of_steps_count_once() -> None:
    """A report of all branches has the actions of its steps, too."""
    step = report(action("dt=1/bucket-0/a"))
    assert list(actions_of({**report(*step["actions"]), "steps": [step, report(action("b"))]})) == [
        action("dt=1/bucket-0/a"), action("b"),
    ]  # fmt: skip


def test_the_page_of_a_run_says_what_failed() -> None:
    outcome = Outcome(deleted=1, failed=(FailedDelete("dt=1/bucket-0/<b>", "AccessDenied"),), deleted_bytes=10)
    run = report(
        action("dt=1/bucket-0/a"),
        action("dt=1/bucket-0/<b>"),
        outcome=None,
        kept={"live": 4},
        kept_bytes={"live": 2048},
    )
    failed = [{"path": each.path, "code": each.code} for each in outcome.failed]
    run["outcome"] = {"deleted": 1, "already_gone": 0, "failed": failed, "kept_by_recheck": 0, "bytes": 10}
    page = run_page(stored(run), ["a line of text", "\u202e"])
    assert "dt=1/bucket-0/&lt;b&gt;" in page
    assert "AccessDenied" in page
    assert "2.0 KiB" in page
    assert "\\u202e" in page
    assert data_of(page) == {"kinds": ["data"], "bars": [["dt=1", {"data": [20, 2]}]]}


def test_a_plan_of_many_partitions_stays_small() -> None:
    """The page has the largest partitions and reasons, and sums of the others."""
    rows = [
        action(f"dt={number}/bucket-0/a", number, reason=f"{'x' * (number % 500)} is gone") for number in range(50_000)
    ]
    page = plan_page(planned(report(*rows)), iter(rows), ["text"])
    assert len(page.encode()) < 750_000
    assert f"{50_000 - SHOWN} more partitions" in page
    assert f"{500 - SHOWN} more reasons" in page
    bars = data_of(page)["bars"]
    assert len(bars) == 21
    assert sum(each["data"][0] for _, each in bars) == sum(range(50_000))


def test_a_report_without_its_objects_says_so() -> None:
    """A large run stores no actions. Its page has the kinds, and does not say that nothing went."""
    run = report(delete={"count": 200_000, "bytes": 5 << 30, "by_kind": {"data": 200_000}})
    page = run_page(stored(run), [])
    assert "too large to name its objects" in page
    assert "5.0 GiB" in page
    assert "200\u202f000" in page


def test_a_plan_that_does_not_hold_says_why() -> None:
    recheck = {"holds": False, "code": "expired", "message": "the plan <expired>", "kept": 0}
    page = plan_page(planned(report(action("a")), recheck=recheck, status="expired"), [action("a")], [])
    assert "does not hold: the plan &lt;expired&gt;" in page
