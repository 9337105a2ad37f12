"""A control location that other maintainers cannot see, that is new to a table, or that is one of two."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from moto import mock_aws

from tests.unit.cli.command_line import call, contents, write_table

RULES = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
TABLE = "s3://lake/sales/orders"
PLAN = "20260101T000000Z-00000000"


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A table in S3."""
    monkeypatch.delenv("LAKESWEEP_CONTROL", raising=False)
    write_table(tmp_path / "written", options=RULES)
    with mock_aws():
        client = boto3.client("s3")
        for name in ("lake", "ops", "other"):
            client.create_bucket(Bucket=name)
        for path, body in contents(tmp_path / "written").items():
            client.put_object(Bucket="lake", Key=f"sales/orders/{path}", Body=body)
        yield client


COMMANDS = (
    ("maintain", TABLE, "--execute"),
    *((name, TABLE) for name in ("maintain", "check", "explain", "plans", "runs", "branches")),
    *((name, TABLE, PLAN) for name in ("execute", "report", "undo", "create-tag")),
    ("audit", "verify", TABLE),
)


def test_a_control_location_on_this_machine_is_refused_for_a_table_in_s3(bucket: Any, tmp_path: Path) -> None:
    for words in COMMANDS:
        answer = call(*words, "--control", tmp_path / "control", "--json")
        document = answer.document.get("error") or answer.document["refusal"]
        assert (answer.exit_code, document["code"]) == (2, "local_control")
        assert str(document["message"]).startswith(
            f"control location {tmp_path}/control is on this machine and table {TABLE} is in S3: maintainers on other "
            "machines do not see the lease there; expected --control s3://bucket/prefix"
        )
    assert not (tmp_path / "control").exists()


def test_local_control_accepts_it_and_the_next_command_says_it_again(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(tmp_path / "control"))
    assert call("expire-snapshots", TABLE).exit_code == 2
    monkeypatch.delenv("LAKESWEEP_CONTROL")
    planned = call("expire-snapshots", TABLE, "--control", tmp_path / "control", "--local-control")
    command = planned.printed.splitlines()[-1].split("lakesweep ")[1]
    assert command.endswith(f"--control {tmp_path}/control --local-control")
    done = call(*command.split(), "--json")
    assert (done.exit_code, done.document["status"]) == (0, "done")
    (run,) = call("runs", tmp_path / "control", "--json").document["runs"]
    assert run["table"] == TABLE


def test_commands_without_a_control_location_accept_any(
    bucket: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(tmp_path / "control"))
    for command in ("show", "files", "tags"):
        assert call(command, TABLE, "--json").exit_code == 0
