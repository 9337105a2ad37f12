"""What a deployment says to its functions: read whole, or not at all."""

import pytest

from lakesweep.aws.settings import load_settings
from lakesweep.errors import UsageError

LEAST = {"LAKESWEEP_TABLES": "lake/warehouse", "LAKESWEEP_CONTROL": "s3://control/lakesweep"}


def test_what_nobody_says() -> None:
    settings = load_settings(LEAST)
    assert (settings.may_delete, settings.queues, settings.emr) == (False, {}, None)
    assert (settings.orphan_interval_ms, settings.scan_workers) == (7 * 86_400_000, 10)


@pytest.mark.parametrize(
    ("name", "value", "found"),
    [
        ("ORPHAN_INTERVAL", "1 d", 86_400_000),
        ("ORPHAN_INTERVAL", "36 h", 36 * 3_600_000),
        ("SCAN_WORKERS", "1000", 1000),
    ],
)
def test_what_somebody_says(name: str, value: str, found: int) -> None:
    settings = load_settings({**LEAST, f"LAKESWEEP_{name}": value})
    assert found in (settings.orphan_interval_ms, settings.scan_workers)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *[("MIN_INTERVAL", each) for each in ("60", "4 h")],
        *[("ORPHAN_INTERVAL", each) for each in ("23 h", "0 d", "7", "weekly", "-7 d")],
        *[("SCAN_WORKERS", each) for each in ("0", "1001", "-1", "ten", "1.5", "9" * 30)],
        ("CONTROL", "/tmp/control"),
        ("TABLES", ""),
    ],
)
def test_what_means_nothing_stops_a_function(name: str, value: str) -> None:
    with pytest.raises(UsageError, match=f"LAKESWEEP_{name}") as found:
        load_settings({**LEAST, f"LAKESWEEP_{name}": value})
    assert found.value.code in ("bad_setting", "bad_argument")


def test_queues_by_their_names() -> None:
    names = ("COMMITS", "EXPIRE", "EXECUTE", "SWEEP", "TAGS", "SPARK", "SCAN", "ORPHAN", "COMMITTER")
    found = load_settings({**LEAST, **{f"LAKESWEEP_{name}_QUEUE": f"https://sqs/{name}" for name in names}}).queues
    assert found == {name.lower(): f"https://sqs/{name}" for name in names}


def test_where_files_outside_tables_may_be_deleted() -> None:
    assert load_settings(LEAST).external_roots == ()
    found = load_settings({**LEAST, "LAKESWEEP_EXTERNAL_ROOTS": "outside/files, s3a://other/x/,"}).external_roots
    assert found == ("s3://outside/files", "s3://other/x")


@pytest.mark.parametrize("value", ["/home", "file:///home", "a/../b", "s3://", "hdfs://n/p"])
def test_a_root_that_means_nothing_stops_a_function(value: str) -> None:
    with pytest.raises(UsageError, match="LAKESWEEP_EXTERNAL_ROOTS"):
        load_settings({**LEAST, "LAKESWEEP_EXTERNAL_ROOTS": value})
