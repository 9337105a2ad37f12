"""Every example of `--help` works on a table that has what it names: in a folder, and on embedded S3."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
import typer
from moto.core import DEFAULT_ACCOUNT_ID
from moto.s3.models import s3_backends
from pypaimon import CatalogFactory, Schema

from lakesweep.cli.main import COMMANDS, GROUPS, app
from lakesweep.format.manifest import read_manifest_list
from lakesweep.storage.local.store import LocalStore
from tests.support.metadata_files import stable_uuid
from tests.support.moto_events import show_event_bridge
from tests.support.s3_server import moto_endpoint, seed_moto, versioned_bucket
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import Answer, call, write_partitioned

EXAMPLES = [example for command in COMMANDS for example in command.examples]
EXAMPLES += [example for _, commands in GROUPS.values() for command in commands for example in command.examples]
OPERATIONS = {command.name for command in COMMANDS if command.signature} | {"execute", "undo"}
ELSEWHERE = ("--engine spark", "--engine lambda", "--stack", "lakesweep demo")
"""What needs Spark, a deployment or a minute; tests/spark, tests/functions, tests/e2e and tests/unit/aws run it."""
PARTITIONED = ("drop-partition", "truncate", "expire-partitions")
READABLE = ("read", "delete-rows", "erase", "compact")
WAITS = "--quarantine"
"""The first call with it only remembers the orphans."""
FINDINGS, PARTIAL = 6, 4
BEGAN = datetime(2026, 1, 30, 10, tzinfo=UTC)
FIRST, OLDEST, NEWEST = 16, 20, 36
"""Snapshots are committed every two hours. What is older than `OLDEST` is a changelog by now."""
OPTIONS = {
    "snapshot.num-retained.min": "5",
    "snapshot.num-retained.max": "30",
    "changelog.num-retained.max": "100",
    "changelog.time-retained": "3650 d",
    "changelog-producer": "input",
    "deletion-vectors.enabled": "true",
    "tag.automatic-creation": "process-time",
    "sink.process-time-zone": "UTC",
}
PLAN, RUN = "20260131T120000Z-1f2e3d4c", "20260131T120003Z-5a6b7c8d"
LOSS = "3f9ac2d1e0b4"
BEFORE = {
    "plans": "expire-snapshots {}",
    "execute": "expire-snapshots {}",
    "runs": "expire-snapshots {} --execute",
    "report": "expire-snapshots {} --execute",
    "undo": "delete-tag {} current --execute",
    "audit": "expire-snapshots {} --execute",
    "housekeeping": "expire-snapshots {} --execute",
    "erase": "erase {} --where-file forget.sql --catalog-type filesystem --execute",
}
"""Command -> what is run before it, so that there is a plan or a run."""
SHOWN = {
    "overview": r"^total +1 table, |\"totals\"",
    "show": r"^snapshots +17, 20 |^version +snapshot 29: |\"branch\": \"rt\"",
    "files": r"bucket-0/data-",
    "read": r"^\{\"id\": 2, .*\"eu\"|^snapshot 2, .*: 2 rows to orders",
    "explain": r"bucket-0/data-|manifest/manifest-|tag-month-end|^live ",
    "check": r"lakesweep maintain",
    "doctor": r"^ok +control ",
    "simulate": r"^present policy +|\"present policy\"",
    "tags": r"month-end",
    "branches": r"trial",
    "plans": PLAN,
    "runs": f"{RUN}|wrote 1 row",
    "report": RUN,
    "audit": r"whole|^wrote |,deleted,",
    "housekeeping": r"kept for good|kept_for_good",
    "pause": r"^pause of .*: (planned|done)$",
    "resume": r"^resume of .*: (done|nothing to do)$",
    "policy": r"^rule +|\"decides\"",
    "enable-events": r"EventBridge",
    "completion": r"lakesweep",
}
"""Command that runs no operation -> what its output has."""


def write_lake(folder: Path) -> None:
    """Write a table that has all that the examples name."""
    began_ms, tick_ms = int(BEGAN.timestamp() * 1000), 7_200_000
    table = TableBuilder(LocalStore(str(folder)), primary_keys=["id"], options=OPTIONS, start_ms=began_ms)
    for number in range(FIRST, NEWEST + 1):
        changes = [f"-F{number - 1}"] if number > FIRST else ["+G1", "+G2"]
        time_ms = began_ms + (number - FIRST) * tick_ms
        table.commit(
            *changes,
            f"+F{number}",
            changelog=[f"+C{number}"],
            index={"I": {f"F{number - 1}": [1]}} if number == NEWEST else None,  # a vector of a file that is gone
            snapshot_id=number,
            time_ms=time_ms,
            document={"watermark": time_ms},
        )
    for number in range(FIRST, OLDEST):
        table.changelog_document(number)
        table.remove(table.root(number))
    table.hint("EARLIEST", OLDEST)
    table.hint("LATEST", NEWEST)
    tags = {"current": 25, "month-end": 28, "before-load": 30, "20260129": 20, "2026-01-30": 22, "2026-01-31": 35}
    for name, number in tags.items():
        table.tag(name, number)
    for number in range(1, 8):
        table.tag(f"load-{number}", OLDEST + number, ttl=timedelta(days=1))
    for name, tag in {"reload": "month-end", "rt": "current", "trial": "month-end", "repair": "month-end"}.items():
        branch = table.branch(name, tag)
        for number in range(6):
            branch.commit(f"+{name}{number}")
    for consumer in ("search", "test-a", "test-prod"):
        table.consumer(consumer, 30)
    (folder / "bucket-0" / f"data-{stable_uuid('orphan')}-0.parquet").write_bytes(b"orphan")
    old = (BEGAN - timedelta(days=1)).timestamp()
    for path in folder.rglob("*"):
        os.utime(path, (old, old))


@pytest.fixture(scope="module")
def partitioned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("partitioned") / "orders"
    write_partitioned(folder)
    return folder


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lake") / "orders"
    write_lake(folder)
    return folder


@pytest.fixture(scope="module")
def readable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a table with rows, by pypaimon, and the tags of the examples."""
    warehouse = tmp_path_factory.mktemp("readable")
    rows = pa.table({"id": [1, 2], "price": [5, 20], "region": ["us", "eu"], "dt": ["20240101", "20240101"]})
    catalog = CatalogFactory.create({"warehouse": str(warehouse)})
    catalog.create_database("sales", True)
    options = {"bucket": "-1", "deletion-vectors.enabled": "true", "compaction.min.file-num": "2"}
    catalog.create_table("sales.orders", Schema.from_pyarrow_schema(rows.schema, ["dt"], options=options), False)
    table = catalog.get_table("sales.orders")
    for number in range(2):  # small files for `compact`
        builder = table.new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(rows.slice(number, 1))
        commit.commit(write.prepare_commit())
    for tag in ("2026-01-31", "month-end"):
        table.create_tag(tag)
    return warehouse / "sales.db" / "orders"


@dataclass(frozen=True)
class Scene:
    """One copy of the lake, and what the words of the examples mean there."""

    meanings: Mapping[str, str]
    words: tuple[str, ...] = ()
    """What every command line needs to reach the store."""

    def run(self, line: str, ids: Mapping[str, str]) -> Answer:
        words = []
        for word in shlex.split(line)[1:]:
            place = next((each for each in self.meanings if word.startswith(each)), "")
            words.append(ids.get(word) or self.meanings.get(place, "") + word.removeprefix(place))
        return call(*words, *self.words)


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.long)])
def scene(
    request: pytest.FixtureRequest,
    example: str,
    written: Path,
    partitioned: Path,
    readable: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    """Copy the lake for one example; a folder stands for the buckets, since that is quicker."""
    _, command, name, *_ = [*shlex.split(example), ""]
    folder = tmp_path / "lake" / "sales.db" / "orders"
    source = partitioned if command in PARTITIONED else readable if command in READABLE else written
    shutil.copytree(source, folder, copy_function=os.link)  # no command changes a file in place
    if command in ("create-tag", "create-branch"):  # what they make is not there yet
        name = shlex.split(example)[3]
        (folder / f"tag/tag-{name}").unlink(missing_ok=True)
        shutil.rmtree(folder / f"branch/branch-{name}", ignore_errors=True)
    lose(folder, command)
    meanings = {
        "dt=2026-01-31/bucket-0/data-5b0c.parquet": next(folder.rglob("data-*")).relative_to(folder).as_posix(),
        "manifest/manifest-8c1f-0": next(folder.glob("manifest/manifest-????????-*")).relative_to(folder).as_posix(),
        "/data/orders": str(folder),
        "s3://lake": str(tmp_path / "lake"),
        "s3://ops": str(tmp_path / "ops"),
    }
    words: tuple[str, ...] = ()
    (tmp_path / "ops").mkdir()
    (tmp_path / "forget.sql").write_text("id = 2")
    (tmp_path / "tables.txt").write_text(str(folder))
    is_on_s3 = any(word.startswith("s3://") for word in shlex.split(example))
    if request.param == "s3" and not is_on_s3:
        pytest.skip("the example is of a table in a folder")
    monkeypatch.chdir(tmp_path)  # `--to orders.csv` writes there
    show_event_bridge(monkeypatch)
    if request.param == "s3" or command == "enable-events":
        lake, ops = versioned_bucket(), versioned_bucket()
        meanings |= {"s3://lake": f"s3://{lake}", "s3://ops": f"s3://{ops}", "lake": lake}
        words = ("--endpoint-url", moto_endpoint(), "--region", "us-east-1")
    monkeypatch.setenv("LAKESWEEP_CONTROL", f"{meanings['s3://ops']}/lakesweep")
    policy = json.dumps({"version": 1, "rules": [{"tables": f"{meanings['s3://lake']}/", "mode": "delete"}]})
    (tmp_path / "ops" / "policy.json").write_text(policy)
    if request.param == "s3":
        for bucket, place in ((lake, "lake"), (ops, "ops")):
            for path in (tmp_path / place).rglob("*"):
                if path.is_file():
                    key = path.relative_to(tmp_path / place).as_posix()
                    seed_moto(bucket, [key], path.read_bytes())
                    made = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].get_object(bucket, key)
                    made.last_modified = BEGAN.replace(tzinfo=None) - timedelta(days=1)
    return Scene(meanings, words)


def lose(folder: Path, command: str) -> None:
    """Take away what a repair is for."""
    if command == "remove-unexisting-files":
        (folder / "bucket-0" / f"data-{stable_uuid(f'F{NEWEST}')}-0.parquet").unlink()
    elif command == "remove-unexisting-manifests":
        newest = json.loads((folder / "snapshot" / f"snapshot-{NEWEST}").read_text())["deltaManifestList"]
        (record, *_) = read_manifest_list((folder / "manifest" / newest).read_bytes(), newest)
        (folder / "manifest" / record.file_name).unlink()
    elif command == "repair-hints":
        for hint in (folder / "snapshot" / "EARLIEST", folder / "branch" / "branch-trial" / "snapshot" / "EARLIEST"):
            hint.unlink(missing_ok=True)  # other copies of the lake have the same file
            hint.write_text("1")


def prepared(scene: Scene, example: str, command: str) -> dict[str, str]:
    """Make the plan and the run that an example names; return the ids that it shows, with the real ones."""
    table = "/data/orders" if "/data/orders" in example else "s3://lake/sales.db/orders"
    if LOSS in example:
        return {LOSS: scene.run(f"lakesweep {command} {table} --json", {}).document["commits"]["loss_id"]}
    before = scene.run(f"lakesweep {BEFORE[command].format(table)}", {})
    assert before.exit_code == (PARTIAL if command == "erase" else 0), before.messages
    found = re.findall(r"\d{8}T\d{6}Z-[0-9a-f]{8}", before.printed)[-1]
    return {PLAN: found, RUN: found}


@pytest.mark.parametrize("example", [e for e in EXAMPLES if not any(word in e for word in ELSEWHERE)])
def test_an_example_does_what_it_shows(example: str, scene: Scene) -> None:
    """The exit code is 0; an operation is planned, or done with `--execute`; others print what they are for."""
    command = shlex.split(example)[1]
    is_of_run = command in BEFORE and (command != "erase" or PLAN in example)
    ids = prepared(scene, example, command) if is_of_run or LOSS in example else {}
    answer = scene.run(example, ids)
    is_done = "--execute" in example or command == "execute"
    remains = command == "erase" and (is_done or "--proof" in example)  # the snapshots before have the row
    expected = FINDINGS if command == "check" else PARTIAL if remains else 0
    assert answer.exit_code == expected, answer.messages
    if "--proof" in example:
        assert answer.document["state"] == "rows_remain"
    elif command in OPERATIONS:
        wanted = "nothing to do" if WAITS in example else "partial" if remains else "done" if is_done else "planned"
        assert status_of(answer, example) == wanted, answer.printed + answer.messages
    else:
        shown = SHOWN[command]
        for word, meaning in ids.items():
            shown = shown.replace(word, meaning)
        assert re.search(shown, answer.printed, re.MULTILINE), answer.printed


def status_of(answer: Answer, example: str) -> str:
    """Return the status that a command printed; `execute` prints the plan first."""
    if "--json" in shlex.split(example):
        return str(answer.document["status"])
    found = re.findall(r"^[a-z][a-z_-]* of .*: ([a-z ]+)$", answer.printed, re.MULTILINE)
    return str(found[-1 if shlex.split(example)[1] == "execute" else 0])


@pytest.mark.parametrize("example", [e for e in EXAMPLES if any(word in e for word in ELSEWHERE)])
def test_the_parser_takes_the_other_examples(example: str) -> None:
    """Their options exist; what they do is tested elsewhere."""
    _, command, *words = shlex.split(example)
    parser = typer.main.get_command(app())
    with parser.make_context("lakesweep", [command, *words]) as context:
        found = parser.get_command(context, command)  # type: ignore[attr-defined]
        found.make_context(command, words, parent=context)


def test_every_command_has_an_example() -> None:
    """The first word of each example is its command."""
    for command in COMMANDS:
        assert command.examples, command.name
        assert {shlex.split(example)[1] for example in command.examples} == {command.name}
