"""What settings of buckets, clocks and times of passes mean: at the boundaries."""

from datetime import UTC, datetime
from typing import Any

import pytest

from lakesweep.model.bucket_settings import BucketSettings, LifecycleRule, noncurrent_days_of
from lakesweep.model.diagnosis import SUBJECTS, Diagnosis, Line
from lakesweep.operations.diagnosis.rules.bucket import control_lines, table_lines
from lakesweep.operations.diagnosis.rules.times import CLOCK_ACT_MS, CLOCK_LOOK_MS, LATE_MS, clock_line, is_late
from lakesweep.storage.lifecycle import rules_of, versioning_of

TABLE = "warehouse/sales.db/orders/"
OLD_VERSIONS = LifecycleRule("old", "", noncurrent_days=30)


def settings(*rules: LifecycleRule, versioning: Any = "on", prefix: str = TABLE) -> BucketSettings:
    return BucketSettings("lake", prefix, versioning, rules)


def verdicts(found: BucketSettings) -> list[str]:
    return [line.verdict for line in table_lines(found)]


@pytest.mark.parametrize(
    "rule",
    [
        LifecycleRule("a", "", expires="30 days after they were written"),
        LifecycleRule("a", "warehouse/", expires="30 days after they were written"),
        LifecycleRule("a", TABLE + "bucket-0/", expires="on 2027-01-01"),
        LifecycleRule("a", "warehouse/", archives="GLACIER"),
        LifecycleRule("a", "", is_narrowed=True, archives="DEEP_ARCHIVE"),
    ],
)
def test_a_rule_that_takes_live_files_asks_for_action(rule: LifecycleRule) -> None:
    """Whether it covers the table or lies inside it."""
    [danger, versions] = table_lines(settings(rule, OLD_VERSIONS))
    assert (danger.verdict, versions.verdict) == ("act", "ok")
    assert "'a'" in danger.says and danger.mend is not None and "get-bucket-lifecycle" in danger.mend
    some = rule.is_narrowed or rule.prefix.startswith(TABLE)
    assert ("some objects" if some else "every object") in danger.says


@pytest.mark.parametrize(
    "rule",
    [
        LifecycleRule("a", "other/", expires="1 days after they were written"),
        LifecycleRule("a", "warehouse/sales.db/orders_new/", expires="1 days after they were written"),
        LifecycleRule("a", "warehouse/sales.db/orders/x", noncurrent_days=9),
        LifecycleRule("a", ""),
    ],
)
def test_other_rules_do_not(rule: LifecycleRule) -> None:
    assert "act" not in verdicts(settings(rule, OLD_VERSIONS))


def test_versions() -> None:
    """Undo needs them, and old ones cost money."""
    assert verdicts(settings(versioning="off")) == ["look"]
    assert verdicts(settings(versioning="suspended")) == ["look"]
    assert verdicts(settings()) == ["look"]  # kept for ever
    assert verdicts(settings(LifecycleRule("a", "", noncurrent_days=2))) == ["look"]
    assert verdicts(settings(LifecycleRule("a", "", noncurrent_days=3))) == ["ok"]
    assert (
        noncurrent_days_of(
            [LifecycleRule("a", "", noncurrent_days=9), LifecycleRule("b", TABLE, noncurrent_days=4)], TABLE
        )
        == 4
    )


def test_rules_of_a_control_location() -> None:
    """Parts of scans may go. Leases, plans and the ledger may not."""
    scans = LifecycleRule("scans", "ops/scans/", expires="7 days after they were written")
    found = settings(scans, prefix="ops/")
    assert not list(control_lines(found, ["tables/"]))
    whole = settings(LifecycleRule("all", "ops/", expires="7 days after they were written"), prefix="ops/")
    assert [line.verdict for line in control_lines(whole, ["tables/"])] == ["act"]
    assert whole.rules[0].concerns("ops/tables/")


def test_answers_of_s3() -> None:
    """The three places of a prefix, disabled rules, dates, and storage classes that can be read at once."""
    rules = [
        {"ID": "one", "Status": "Enabled", "Filter": {"Prefix": "a/"}, "Expiration": {"Days": 3}},
        {"ID": "two", "Status": "Disabled", "Prefix": "", "Expiration": {"Days": 1}},
        {"Status": "Enabled", "Prefix": "b/", "Expiration": {"Date": datetime(2027, 1, 2, tzinfo=UTC)}},
        {
            "ID": "four",
            "Status": "Enabled",
            "Filter": {"And": {"Prefix": "c/", "Tags": [{"Key": "k", "Value": "v"}]}},
            "Transitions": [{"Days": 1, "StorageClass": "STANDARD_IA"}, {"Days": 9, "StorageClass": "GLACIER"}],
            "NoncurrentVersionExpiration": {"NoncurrentDays": 5},
        },
        {"ID": "five", "Status": "Enabled", "Filter": {}, "Transitions": [{"StorageClass": "GLACIER_IR"}]},
        {"ID": "six", "Status": "Enabled", "Filter": {}, "Expiration": {"ExpiredObjectDeleteMarker": True}},
    ]
    assert list(rules_of({"Rules": rules})) == [
        LifecycleRule("one", "a/", expires="3 days after they were written"),
        LifecycleRule("number 3", "b/", expires="on 2027-01-02"),
        LifecycleRule("four", "c/", is_narrowed=True, noncurrent_days=5, archives="GLACIER"),
        LifecycleRule("five", ""),
        LifecycleRule("six", ""),
    ]
    assert [versioning_of(each) for each in ({}, {"Status": "Enabled"}, {"Status": "Suspended"})] == [
        *("off", "on", "suspended"),
    ]


@pytest.mark.parametrize("sign", [1, -1])
def test_clocks(sign: int) -> None:
    now = 1_800_000_000_000

    def verdict(off_ms: int) -> str:
        return clock_line("S3", now, now + sign * off_ms).verdict

    assert [verdict(0), verdict(CLOCK_LOOK_MS), verdict(CLOCK_LOOK_MS + 1)] == ["ok", "ok", "look"]
    assert [verdict(CLOCK_ACT_MS), verdict(CLOCK_ACT_MS + 1)] == ["look", "act"]
    assert ("ahead of" if sign > 0 else "behind") in clock_line("S3", now, now + sign * 90_000).says


def test_when_commits_wait_too_long() -> None:
    day = 24 * 3_600_000
    assert not is_late(newest_ms=0, pass_ms=0, now_ms=10 * day)  # nothing was committed since
    assert not is_late(newest_ms=5 * day, pass_ms=6 * day, now_ms=100 * day)
    assert not is_late(newest_ms=5 * day, pass_ms=4 * day, now_ms=5 * day + LATE_MS)
    assert is_late(newest_ms=5 * day, pass_ms=4 * day, now_ms=5 * day + LATE_MS + 1)


def test_the_status_is_the_worst() -> None:
    """Never healthy while something is unknown."""

    def status(*verdicts: Any) -> str:
        return Diagnosis("t", None, tuple(Line("lease", each, "x") for each in verdicts)).status

    assert status("ok", "look") == "healthy"
    assert status("ok", "unknown") == "unknown"
    assert status("unknown", "act") == "findings"
    document = Diagnosis("t", None, (Line("queues", "ok", "x"), Line("clock", "ok", "y"))).to_json()
    assert [line["subject"] for line in document["lines"]] == ["clock", "queues"]  # type: ignore[attr-defined]
    assert len(set(SUBJECTS)) == len(SUBJECTS)
