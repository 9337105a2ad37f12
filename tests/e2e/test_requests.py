"""How many requests an expiry takes, counted on a real S3 protocol. Counts are exact, so they are asserted."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.model.report import RunReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.maintenance.maintain import MaintainArguments, maintain
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import Table
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.wrappers.remembering import MetadataCache
from tests.differential.engine import Engine
from tests.e2e.live_table import KEEP_50, PARTITIONS, LiveTable
from tests.support.memory_store import MemoryStore
from tests.support.reader import read_all
from tests.support.s3_server import fresh_bucket, moto_settings, seed_moto
from tests.support.table_builder import TableBuilder

COLD_REQUESTS = 420
"""50 of 100 snapshots, 20 dead files each: table, control location, looks and ledger together."""


WARM_REQUESTS = 300
"""The same, when a dry run has read the table before."""


@pytest.mark.parametrize("warm", [False, True])
def test_expire_50_of_100_snapshots_with_20_dead_files_each(warm: bool) -> None:
    """The same shape without the engine: manifests merge every 30 commits, as the engine's do."""
    memory = MemoryStore("memory://bucket/p1")
    table = TableBuilder(memory, partition_keys=("dt",), options=KEEP_50)
    for number in range(1, 101):
        gone = [f"-F{number - 1}x{index}" for index in range(20)] if number > 1 else []
        new = [f"F{number}x{index}" for index in range(20)]
        table.commit(
            *gone,
            *[f"+{name}" for name in new],
            partition={name: (PARTITIONS[index],) for index, name in enumerate(new)},
            kind="OVERWRITE",
            merge_base=number % 30 == 0,
        )
    objects = [(entry.key, memory.read(entry.key).data) for entry in memory.list("")]
    report, counter = expire_on_s3(objects, warm=warm)
    assert_p1(report, counter, manifests=range(25, 55), at_most=WARM_REQUESTS if warm else COLD_REQUESTS)


@pytest.mark.differential
@pytest.mark.long
@pytest.mark.parametrize("warm", [False, True])
def test_expire_50_of_100_snapshots_that_the_engine_wrote(engine_classpath: str, tmp_path: Path, warm: bool) -> None:
    """As above, for the shape that the one above imitates."""
    with Engine(tmp_path / "engine", engine_classpath) as engine:
        warehouse = tmp_path / "warehouse"
        engine("open", warehouse=str(warehouse))
        keep = {"snapshot.num-retained.min": "1000", "snapshot.num-retained.max": "1000"}
        engine(
            "create",
            table="db.p1",
            columns=[["dt", "STRING"], ["id", "INT"], ["v", "STRING"]],
            partition_keys=["dt"],
            options={**keep, "file.format": "avro", "write-only": "true", "bucket": "-1"},
        )
        engine("write", table="db.p1", n=200, commits=100, seed=1, parts=[[day] for day in PARTITIONS], overwrite={})
        engine("alter", table="db.p1", set=KEEP_50)
    root = warehouse / "db.db" / "p1"
    objects = [(str(path.relative_to(root)), path.read_bytes()) for path in root.rglob("*") if path.is_file()]
    report, counter = expire_on_s3(objects, warm=warm)
    assert_p1(report, counter, manifests=range(30, 31), at_most=WARM_REQUESTS if warm else COLD_REQUESTS)


def expire_on_s3(objects: Iterable[tuple[str, bytes]], *, warm: bool = False) -> tuple[RunReport, RequestCounter]:
    """Put a table into S3 and run its retention once, with nothing known about it, or after a dry run."""
    bucket, control = fresh_bucket(), fresh_bucket()
    for key, data in objects:
        seed_moto(bucket, [f"db.db/p1/{key}"], data)
    counter = RequestCounter()
    settings = moto_settings()
    store = open_store(f"s3://{bucket}/db.db/p1", counter=counter, settings=settings)
    area = ControlArea(open_store(f"s3://{control}/lakesweep", counter=counter, settings=settings), store.location)
    table = Table(
        ref=TableRef(store.location),
        store=store,
        area=area,
        open_store=lambda location: open_store(location, counter=counter, settings=settings),
        counter=counter,
    )
    if warm:
        assert maintain(table, MaintainArguments(), execute=False).status == "planned"
        # Another process: all that it knows is in the control location.
        counter = RequestCounter()
        store = open_store(f"s3://{bucket}/db.db/p1", counter=counter, settings=settings)
        area = ControlArea(open_store(f"s3://{control}/lakesweep", counter=counter, settings=settings), store.location)
        table = replace(table, store=store, area=area, counter=counter, memory=MetadataCache())
    report = maintain(table, MaintainArguments(), execute=True)
    assert len(read_all(open_store(store.location, settings=settings))) == 50
    return report, counter


def assert_p1(report: RunReport, counter: RequestCounter, manifests: range, at_most: int) -> None:
    document = report.to_json()
    assert report.status == "done", document["refusal"]
    by_kind = document["delete"]["by_kind"]  # type: ignore[index]
    assert (by_kind["data"], by_kind["manifest_list"], by_kind["snapshot"]) == (1000, 100, 50)
    assert by_kind["manifest"] in manifests
    requests = counter.snapshot()
    print(f"requests: {sum(requests.values())} {requests}")
    assert sum(requests.values()) <= at_most, requests
    assert requests["delete"] <= 4
    assert requests == document["requests"]


def test_a_second_run_reads_only_what_is_new() -> None:
    """50 snapshots expire with 20 dead files each, and 365 tags are what they were in the run before."""
    live = LiveTable(KEEP_50)
    for number in range(1, 101):
        live.commit()
        for tag in range(365 // 45 + (number <= 365 % 45) if number <= 45 else 0):
            live.table.tag(f"t{number}-{tag}")
    live.upload()
    first, _, _ = live.maintain()
    assert first.status == "done"
    for _ in range(50):
        live.commit()
    live.upload()
    report, requests, calls = live.maintain()
    assert report.status == "done", report.refusal
    by_kind = report.to_json()["delete"]["by_kind"]  # type: ignore[index]
    assert (by_kind["snapshot"], by_kind["data"]) == (50, 1000)
    print(f"requests: {requests}")
    assert requests["get"] <= 260, requests
    assert requests["delete"] <= 4, requests
    assert not [call for call in calls if call.startswith("table read tag/")]
    assert calls.count("table list tag/") == calls.count("table list snapshot/"), "one a look"
    assert calls.count("table list tag/") <= 4
    live.check(tags=365)


def test_a_commit_of_the_steady_state() -> None:
    """A snapshot expires for every commit. The 400 tags of the table are known."""
    live = LiveTable({**KEEP_50, "snapshot.num-retained.min": "10", "snapshot.num-retained.max": "10"})
    for _ in range(25):
        live.commit()
        for tag in range(20 if live.commits <= 20 else 0):
            live.table.tag(f"t{live.commits}-{tag}")
    live.upload()
    first, _, _ = live.maintain()
    assert first.status == "done"
    totals = []
    for _ in range(12):  # one of them merges manifests
        live.commit()
        live.upload()
        report, requests, calls = live.maintain()
        assert report.status == "done", report.refusal
        totals.append(sum(requests.values()))
        assert totals[-1] <= 25, (live.commits, requests, calls)
    print(f"requests by commit: {totals}")
    live.check(tags=400)


def test_manifests_that_the_writer_merges_cost_one_look() -> None:
    """With a declared catalog a pass asks for nothing more, but the one that looks at the list for the first time.

    The first pass has looked at data files, so there is a state, which needs not be asked for twice.
    """
    totals = []
    for catalog in (Catalog(), Catalog("filesystem")):
        live = LiveTable({**KEEP_50, "snapshot.num-retained.min": "10", "snapshot.num-retained.max": "10"})
        for _ in range(25):
            live.commit()
        live.upload()
        live.maintain(catalog=catalog)
        spent = []
        for _ in range(12):
            live.commit()
            live.upload()
            report, requests, calls = live.maintain(catalog=catalog)
            assert report.status == "done", report.refusal
            assert [each.operation for each in report.steps or ()] == ["expire-snapshots"], calls
            spent.append(sum(requests.values()))
        totals.append(spent)
    print(f"requests by commit: {totals}")
    more = [declared - before for before, declared in zip(*totals, strict=True)]
    looked = 32 - 26  # by then, there may be 31 manifests
    assert more[looked] == 4 and not any(more[:looked] + more[looked + 1 :]), more


AUTOMATIC = {
    "tag.automatic-creation": "process-time",
    "tag.creation-period": "hourly",
    "tag.default-time-retained": "3650 d",
    "tag.num-retained-max": "2000",
    "sink.process-time-zone": "UTC",
}


LONG = timedelta(days=3650)


@pytest.mark.parametrize(
    ("options", "tags"),
    [
        pytest.param({}, 1000, marks=pytest.mark.long),
        pytest.param(AUTOMATIC, 1000, marks=pytest.mark.long),
        (AUTOMATIC, 200),
    ],
    ids=["manual", "automatic", "some automatic"],
)
def test_tags_that_are_what_they_were(options: Mapping[str, str], tags: int) -> None:
    """Tags with a time to live: a pass that finds nothing lists them once, and reads them the first time only."""
    live = LiveTable({**KEEP_50, **options})
    hour = datetime(2026, 1, 31, 12, tzinfo=UTC)
    now_ms = round(hour.timestamp() * 1000) + 60_000
    for number in range(20):
        live.commit(now_ms - number)
    for number in range(tags):
        live.table.tag(f"{hour - timedelta(hours=tags + 1 - number):%Y-%m-%d %H}", 1 + number * 19 // tags, ttl=LONG)
    live.upload()
    made, _, calls = live.maintain(is_due=True, at_ms=now_ms)
    assert made.status == ("done" if options else "nothing_to_do"), made.refusal
    assert len([call for call in calls if call.startswith("table read tag/tag-")]) == tags + bool(options)
    for is_due in (True, True, False):
        now_ms += 1000
        live.commit(now_ms)
        live.upload()
        report, requests, calls = live.maintain(is_due=is_due, at_ms=now_ms)
        assert report.status == "nothing_to_do", report.refusal
        print(f"requests: {sum(requests.values())} {requests}")
        assert not [call for call in calls if call.startswith("table read tag/")], calls
        assert calls.count("table list tag/") == calls.count("table list snapshot/") == is_due
        assert sum(requests.values()) <= (14 if is_due else 4), calls
    live.check(tags=tags + bool(options))
