"""`remove-orphan-files --engine`: what is said, what is printed, and what is not there."""

import os
from pathlib import Path

import pytest

from lakesweep.api.engines import with_backends
from lakesweep.api.opening import open_table
from lakesweep.cli.options import Place
from lakesweep.storage.open import StoreSettings
from lakesweep.storage.requests import RequestCounter
from tests.support.metadata_files import stable_uuid
from tests.unit.cli.command_line import Answer, call, write_table

OLD_S = 1_700_000_000
QUEUE = "https://sqs.eu-central-1.amazonaws.com/111122223333/lakesweep-scan"


@pytest.fixture(autouse=True)
def no_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKESWEEP_SCAN_QUEUE", raising=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return an old table with one orphan."""
    folder = tmp_path / "orders"
    write_table(folder)
    (folder / f"bucket-0/data-{stable_uuid('orphan')}-0.parquet").write_bytes(b"orphan")
    for path in folder.rglob("*"):
        os.utime(path, (OLD_S, OLD_S))
    return folder


def run(folder: Path, *argv: object) -> Answer:
    return call("remove-orphan-files", folder, "--control", folder.parent / "control", *argv)


def test_auto_says_where_why_and_what_it_took(folder: Path) -> None:
    """Sentences on standard error, the same in the document; text on standard output is as ever."""
    answer = run(folder, "--engine", "auto", "--json")
    assert answer.exit_code == 0
    before, after = answer.sentences
    engine = answer.document["engine"]
    assert (engine["name"], engine["estimate"]["usd"], engine["happened"]["usd"]) == ("local", 0, 0)
    assert before.startswith(f"lakesweep: engine local: {engine['reason']}; estimated ")
    assert after.startswith("lakesweep: engine local: estimated ")
    assert "counted" in after
    again = run(folder, "--engine", "auto")
    assert "objects (by the last scan)" in again.messages
    assert "engine" not in again.printed


def test_the_default_is_this_process(folder: Path) -> None:
    """Nothing is chosen, and nothing said."""
    answer = run(folder, "--json")
    assert answer.messages == ""
    assert "engine" not in answer.document
    named = run(folder, "--engine", "local", "--json")
    assert named.document["engine"]["name"] == "local"
    assert named.document["engine"]["estimate"] is None
    assert named.messages == ""


@pytest.mark.parametrize("execute", [[], ["--execute"]])
def test_functions_that_nobody_named(folder: Path, execute: list[str]) -> None:
    """A queue has to be known."""
    answer = run(folder, "--engine", "lambda", "--json", *execute)
    assert answer.exit_code == 2
    assert answer.document["refusal"]["code"] == "no_functions"
    assert answer.sentences == [
        "lakesweep: --engine lambda: it has no queue of a deployment; expected --scan-queue or $LAKESWEEP_SCAN_QUEUE"
    ]


def test_functions_reach_no_folder(folder: Path) -> None:
    """They run elsewhere."""
    answer = run(folder, "--engine", "lambda", "--scan-queue", QUEUE, "--json")
    assert (answer.exit_code, answer.document["refusal"]["code"]) == (2, "bad_argument")
    assert "functions can only reach tables on S3" in answer.messages


@pytest.mark.parametrize("engine", ["Lambda", "", "fan-out"])
def test_other_words(folder: Path, engine: str) -> None:
    """All four are named."""
    answer = run(folder, "--engine", engine, "--json")
    assert answer.exit_code == 2
    assert "expected auto, local, lambda, spark" in answer.messages


def test_what_is_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Functions need a queue, a control location and a table on S3."""

    def fan_out(**words: str) -> bool:
        place = Place(**{"table": "s3://lake/t", "engine": "auto", "control": "s3://ops/x", **words})
        opened = open_table(place, RequestCounter(), lambda done, total: None)
        assert opened.available is not None
        assert opened.available.has_fan_out <= ("lambda" in opened.scan_backends)
        return opened.available.has_fan_out

    assert not fan_out()
    assert fan_out(scan_queue=QUEUE)
    assert not fan_out(scan_queue=QUEUE, table=str(tmp_path))
    monkeypatch.setenv("LAKESWEEP_SCAN_QUEUE", QUEUE)
    assert fan_out()
    plain = open_table(Place("s3://lake/t"), RequestCounter(), lambda done, total: None)
    assert (plain.available, dict(plain.scan_backends)) == (None, {})
    without = with_backends(plain, Place("s3://lake/t", engine="auto"), StoreSettings())
    assert without.available is not None
    assert not without.available.has_fan_out
    assert without.available.local.memory_mib > 256
