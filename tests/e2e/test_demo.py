"""The demo as a user runs it, and a demo whose table is damaged before it is read again."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from lakesweep.cli.demo import demo
from lakesweep.demo.local_aws import LocalAws, local_aws
from lakesweep.demo.main import MIN_COMMITS, PACKAGES, run
from lakesweep.demo.orders import Orders
from lakesweep.demo.proof import prove
from lakesweep.demo.story import TAG, Story, tell
from lakesweep.errors import MaintenanceError, StorageError, UsageError
from tests.support.sampling import is_sampled

MAX_SECONDS = 300
"""A demo that takes so long hangs."""


def in_a_bare_process(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python with nothing of the user's: no home, no AWS settings but a profile that is not there."""
    home, temp, cwd = folder / "home", folder / "temp", folder / "cwd"
    for path in (home, temp, cwd):
        path.mkdir()
    env = {"HOME": str(home), "TMPDIR": str(temp), "AWS_PROFILE": "missing", "HTTP_PROXY": "http://127.0.0.1:9"}
    process = subprocess.run(
        [sys.executable, *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        cwd=cwd,
        env=env,
    )
    left = [path for place in (home, temp, cwd) for path in place.rglob("*")]
    assert left == [], "the demo leaves no file anywhere"
    return process


@pytest.mark.slow
def test_the_demo_proves_itself(tmp_path: Path) -> None:
    """Forty commits, half of them in a sample: what expired is gone, what must be readable is."""
    commits = signature(demo).parameters["commits"].default
    stated = []
    if is_sampled():
        commits //= 2
        stated = ["--commits", str(commits)]
    page = tmp_path / "demo.html"
    process = in_a_bare_process(["-m", "lakesweep", "demo", "--json", "--html", str(page), *stated], tmp_path)
    assert process.returncode == 0, process.stdout + process.stderr
    assert process.stderr == ""
    assert "warehouse/sales.db/orders" in page.read_text(encoding="utf-8")

    found: dict[str, Any] = json.loads(process.stdout)
    assert (found["operation"], found["status"], found["problems"]) == ("demo", "done", [])
    newest = commits + 1
    assert (found["commits"], found["events"], sum(found["runs"].values())) == (commits, newest, newest)
    assert found["runs"]["done"] > commits // 2
    assert found["snapshots"] == list(range(newest + 1 - len(found["snapshots"]), newest + 1))
    assert 3 <= len(found["snapshots"]) <= 5

    dropped, (table, latest, before, *_) = found["dropped"], found["read"]
    assert (dropped["partition"], dropped["snapshots"]) == ("region=north", [newest])
    assert before["rows"] - dropped["rows"] == table["rows"] == latest["rows"], "an independent reader agrees"
    assert dropped["rows"] > 0

    removed, kept = found["removed"], found["kept"]
    assert removed["by_kind"]["snapshot"] == newest - len(found["snapshots"])
    assert removed["by_kind"]["data"] > commits * 3 // 4
    assert removed["by_kind"]["manifest_list"] > commits * 5 // 4
    assert removed["count"] == sum(removed["by_kind"].values()) == sum(removed["by_reason"].values())
    assert kept["count"] == sum(kept["by_kind"].values()) == sum(kept["by_reason"].values())
    assert kept["by_reason"]["tagged"] > 0
    assert kept["by_kind"]["tag"] == 1 + len(found["scheduled_tags"])
    assert found["bytes"] == {"before": removed["bytes"] + kept["bytes"], "after": kept["bytes"]}
    assert found["bytes"]["after"] < found["bytes"]["before"] / 2
    assert all(found["requests"][kind] > 0 for kind in ("get", "list", "put", "delete"))

    tags = [found["tag"], *found["scheduled_tags"]]
    versions = [
        "the table",
        *(f"snapshot {i}" for i in reversed(found["snapshots"])),
        *(f"tag {t['name']}" for t in tags),
    ]
    assert [reading["version"] for reading in found["read"]] == versions
    assert all(reading["equal"] and reading["rows"] > 0 for reading in found["read"])
    assert found["tag"]["snapshot"] < found["snapshots"][0]
    yesterday = found["scheduled_tags"][0]
    assert yesterday["snapshot"] == 1, "made on schedule, and read again though its snapshot has expired"
    assert date.fromisoformat(yesterday["name"]) < datetime.now(UTC).date()


DAMAGE = f"""
import sys
from lakesweep.demo.main import run

def damage(aws, orders):
    newest = orders.read_snapshot({MIN_COMMITS})
    key = min(path for path in newest.files if path.endswith(".parquet"))
    aws.s3.delete_object(Bucket=aws.bucket, Key=f"{{orders.folder}}/{{key}}")

sys.exit(run({MIN_COMMITS}, before_reading=damage))
"""


@pytest.mark.long
@pytest.mark.slow
def test_a_lost_data_file_fails_the_demo(tmp_path: Path) -> None:
    """Had retention removed one live file, the demo would say so in plain lines and exit with 1."""
    process = in_a_bare_process(["-c", DAMAGE], tmp_path)
    assert process.returncode == 1, process.stdout + process.stderr
    assert "This is wrong:" in process.stdout
    assert f"snapshot {MIN_COMMITS} cannot be read" in process.stdout
    assert "vanished without a report" in process.stdout
    assert "Every needed object is there" not in process.stdout
    assert f"commit 10 of {MIN_COMMITS}\n" in process.stdout
    assert "\x1b" not in process.stdout


@dataclass(frozen=True)
class Told:
    """A finished story whose server still runs."""

    aws: LocalAws
    orders: Orders
    story: Story
    left: dict[str, int]

    def problems(self, story: Story | None = None, left: dict[str, int] | None = None) -> tuple[str, ...]:
        return prove(self.orders, story or self.story, self.left if left is None else left).problems


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    with local_aws() as aws:
        orders = Orders(aws)
        story = tell(aws, orders, MIN_COMMITS, lambda commit: None)
        yield Told(aws, orders, story, aws.sizes(orders.folder))


@pytest.mark.slow
class TestProof:
    """What the proof notices."""

    def test_nothing_when_all_is_well(self, told: Told) -> None:
        """The story as it was told has no problem."""
        assert told.problems() == ()

    def test_an_object_that_nothing_needs(self, told: Told) -> None:
        """Garbage that was left behind is named."""
        stray = "region=north/bucket-0/data-stray-0.parquet"
        assert told.problems(left={**told.left, stray: 9}) == (f"{stray} is left over: nothing needs it",)

    def test_a_snapshot_that_should_be_gone(self, told: Told) -> None:
        """Retention that did not happen is named, and so is the deletion that was reported and did not happen."""
        key = f"snapshot/snapshot-{told.story.tagged_id}"
        problems = told.problems(left={**told.left, key: told.story.written[key]})
        assert any("are left; expected the newest 3 to 5" in problem for problem in problems)
        assert any("which is tagged, is left" in problem for problem in problems)
        assert f"{key} was reported as deleted, but exists" in problems

    def test_a_partition_that_still_shows(self, told: Told) -> None:
        """A dropped partition whose rows a reader finds would be named, and so is a drop that was not made."""
        expected = told.orders.expected
        assert {row[1] for row in expected[-1]} == {"south"}
        told.orders.expected = [*expected[:-1], expected[-2]]
        try:
            problems = told.problems()
        finally:
            told.orders.expected = expected
        assert problems[0].startswith(f"the table holds {len(expected[-1])} rows")
        drop = replace(told.story.drop, status="gave_up", commits=None)
        problems = told.problems(story=replace(told.story, drop=drop))
        assert problems == (
            "the drop of a partition ended as gave_up",
            f"the drop of a partition committed snapshots []; expected snapshot {MIN_COMMITS + 1}",
        )

    def test_a_deletion_without_a_report(self, told: Told) -> None:
        """Every object that is gone is accounted for."""
        problems = told.problems(story=replace(told.story, reports=told.story.reports[:-1]))
        assert problems
        assert all(problem.endswith("vanished without a report") for problem in problems)

    def test_rows_that_differ(self, told: Told) -> None:
        """A reader that finds other rows than were written is believed."""
        expected = told.orders.expected
        changed = [*expected[:-1], expected[-1][1:]]
        told.orders.expected = changed
        try:
            problems = told.problems()
        finally:
            told.orders.expected = expected
        assert problems[0].startswith("the table holds")
        assert problems[1].startswith(f"snapshot {MIN_COMMITS + 1} holds")

    def test_a_scheduled_tag_that_was_not_made(self, told: Told) -> None:
        """The first pass makes the tag of yesterday."""
        reports = tuple(replace(report, steps=()) for report in told.story.reports)
        problems = told.problems(story=replace(told.story, reports=reports))
        assert any("snapshot 1 has no tag" in problem for problem in problems)

    def test_a_tag_that_lost_a_file(self, told: Told) -> None:
        """A tag is read by itself, since the newest snapshot says nothing about it."""
        version = told.orders.read_tag(TAG)
        path = min(path for path in version.files if path.endswith(".parquet"))
        key = f"{told.orders.folder}/{path}"
        body = told.aws.s3.get_object(Bucket=told.aws.bucket, Key=key)["Body"].read()
        told.aws.s3.delete_object(Bucket=told.aws.bucket, Key=key)
        try:
            problems = told.problems()
        finally:
            told.aws.s3.put_object(Bucket=told.aws.bucket, Key=key, Body=body)
        assert any(problem.startswith(f"tag {TAG} cannot be read") for problem in problems)

    def test_an_event_that_never_comes(self, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without an event nothing is maintained, and the demo does not wait for ever."""
        monkeypatch.setattr("lakesweep.demo.local_aws.EVENT_WAIT_SECONDS", 0.1)
        with pytest.raises(StorageError, match="expected the event of a commit"):
            told.aws.commit_hints()


@pytest.mark.parametrize("package", PACKAGES)
def test_a_missing_package_is_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence says what to install."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MaintenanceError, match=rf"the demo needs {package}; expected: pip install 'lakesweep\[demo\]'"):
        run()


def test_too_few_commits_are_refused() -> None:
    """A demo in which nothing can expire would show nothing."""
    with pytest.raises(UsageError, match="expected at least 12"):
        run(MIN_COMMITS - 1)
