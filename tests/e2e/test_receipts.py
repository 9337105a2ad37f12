"""Receipts against a counting proxy in front of an S3 server: the same requests by kind, and USD within rounding."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.control.receipts import receipts_of
from lakesweep.format.codec import to_json
from lakesweep.model.prices import GB
from lakesweep.storage.open import open_store
from tests.support.counting import REPOSITORY, Door, counted, door_to, until
from tests.support.deleting import DeletingTable
from tests.support.s3_server import S3Server, moto_endpoint
from tests.support.versitygw import shared_versitygw
from tests.unit.cli.command_line import Answer, call

KINDS = ("get", "head", "list", "put", "delete")
PRICES = {
    name: price["usd"] / price["per"]
    for name, price in json.loads((REPOSITORY / "docs" / "prices.json").read_text())["prices"].items()
}
RETENTION = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
CATALOG = ("--catalog-type", "filesystem", "--catalog-lock")


@dataclass(frozen=True)
class Lake:
    """A table and a control location behind a counting proxy."""

    server: S3Server
    door: Door
    bucket: str

    @property
    def control(self) -> str:
        return f"s3://{self.bucket}/control"

    @property
    def table(self) -> str:
        return f"s3://{self.bucket}/db.db/t"

    def area(self) -> ControlArea:
        return ControlArea(open_store(self.control, settings=self.server.settings), self.table)

    def call(
        self, command: str, *words: str, control: str | None = None
    ) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """Run a command; return its document and what came through the door."""
        self.door.reset()
        answer = self._call(command, *words, "--json", control=control)
        log = self.door.log()
        return answer.document, log

    def text(self, command: str, *words: str) -> str:
        return self._call(command, *words).printed

    def _call(self, command: str, *words: str, control: str | None = None) -> Answer:
        places = ("--control", control or self.control, "--endpoint-url", self.door.endpoint, "--region", "us-east-1")
        answer = call(command, self.table, *words, *places)
        assert answer.exit_code == 0, (command, answer.messages, answer.printed[:2000])
        return answer


@pytest.fixture(scope="module", params=["moto", "versitygw"])
def server(request: pytest.FixtureRequest) -> S3Server:
    return S3Server("moto", moto_endpoint()) if request.param == "moto" else shared_versitygw()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six commits to two partitions, by the engine's Python client."""
    made = DeletingTable(tmp_path_factory.mktemp("receipts"), options=RETENTION)
    for number in range(6):
        made.add("ab"[number % 2], range(number * 10, number * 10 + 10))
    return made.folder / "db.db" / "t"


@pytest.fixture
def lake(server: S3Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Lake]:
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", server.secret_key)
    bucket = server.bucket(versioned=True)
    files = {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    server.seed(bucket, {f"db.db/t/{key}": data for key, data in files.items()})
    server.seed(bucket, {"db.db/t/dt=a/bucket-0/data-5b0c5b0c-5b0c-4b0c-8b0c-5b0c5b0c5b0c-0.parquet": b"x" * 1000})
    with door_to(server) as door:
        yield Lake(server, door, bucket)


def check(receipt: dict[str, Any], log: list[tuple[str, str]], freed: int) -> None:
    """Hold a receipt against what the proxy saw, and against the prices on the page."""
    found = counted(log)
    assert receipt["requests"] == {kind: found.get(kind, 0) for kind in KINDS}
    usd = (found.get("get", 0) + found.get("head", 0)) * PRICES["s3_get"]
    usd += (found.get("put", 0) + found.get("list", 0)) * PRICES["s3_put_list"]
    assert receipt["usd"] == receipt["requests_usd"] == pytest.approx(usd, abs=1e-9)
    assert receipt["freed_bytes"] == freed
    assert receipt["freed_usd_month"] == pytest.approx(freed / GB * PRICES["s3_storage"], abs=1e-9)


def test_what_calls_and_runs_cost(lake: Lake) -> None:
    """Each call's receipt has all requests; each stored one those up to the run's last put, in whatever order."""
    sums: list[tuple[str, str]] = []
    freed = runs = 0

    def run(command: str, *words: str, has_lease: bool = True) -> dict[str, Any]:
        nonlocal freed, runs
        document, log = lake.call(command, *words, "--execute")
        assert document["status"] == "done", document
        deleted = sum(
            (step["outcome"] or {}).get("bytes", 0) for step in document["steps"] or [document] if step["executed"]
        )
        check(document["receipt"], log, deleted)
        stored, _ = lake.call("report", document["run_id"])
        own = stored["report"]["receipt"]
        is_last = not has_lease or command == "undo" or "commits" in stored["report"]  # the report follows the release
        ends = ("/reports/",) if is_last else ("/lease.json",)
        check(own, until(log, *ends), (stored["report"]["outcome"] or {}).get("bytes", 0))
        if has_lease:
            sums.extend(until(log, "/lease.json"))
            freed, runs = freed + deleted, runs + 1
        return document

    planned, log = lake.call("expire-snapshots", "--retain-max", "3")
    assert planned["status"] == "planned"
    check(planned["receipt"], log, 0)
    run("create-tag", "kept", "--snapshot", "2", has_lease=False)
    run("compact", "--full", *CATALOG)
    run("drop-partition", "--partition", "dt=b", *CATALOG)
    expired = run("expire-snapshots", "--retain-max", "4", "--retain-min", "1")
    assert expired["receipt"]["freed_bytes"] > 0
    run("undo", expired["run_id"])
    run("maintain")
    young = ("--older-than", "0 s", "--no-writers", "the table is at rest")
    planned, log = lake.call("remove-orphan-files", *young)
    assert planned["delete"]["count"] > 0
    check(planned["receipt"], log, 0)
    run("remove-orphan-files", *young)
    nothing, log = lake.call("maintain", "--execute")
    check(nothing["receipt"], log, 0)
    (receipt,) = receipts_of(lake.area()) or ()
    found = counted(sums)
    assert receipt.requests == {kind: found.get(kind, 0) for kind in KINDS}
    assert (receipt.runs, receipt.freed_bytes, receipt.unknown) == (runs, freed, 0)
    assert receipt.since_ms is not None, "earlier runs of this month may not have counted"
    places = ("--control", lake.control, "--endpoint-url", lake.server.endpoint, "--region", "us-east-1")
    overview = call("overview", f"s3://{lake.bucket}/db.db", *places, "--json").document
    (table,) = overview["tables"]
    assert table["receipts"] == overview["totals"]["receipts"] == [to_json(receipt)]
