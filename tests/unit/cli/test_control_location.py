"""A control location that other maintainers cannot see, that is new to a table, or that is one of two."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import boto3
import pytest

from lakesweep.control.noticed import NoticingStore
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.mocked_aws import mocked_aws
from tests.unit.cli.command_line import Answer, contents, write_table
from tests.unit.cli.command_line import call_as_it_is as call

RULES = {"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
TABLE = "s3://lake/sales/orders"
PLAN = "20260101T000000Z-00000000"


@pytest.fixture
def bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A table in S3."""
    monkeypatch.delenv("LAKESWEEP_CONTROL", raising=False)
    write_table(tmp_path / "written", options=RULES)
    with mocked_aws():
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
            f"control location {tmp_path}/control is on this machine and table {TABLE} is in S3, so maintainers on "
            "other machines do not see the lease there; expected --control s3://bucket/prefix"
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


NEW = "has not seen this table before; all maintainers of a table must name the same one"
OPS, OTHER = ("--control", "s3://ops/lakesweep"), ("--control", "s3://other/lakesweep")


def warnings(answer: Answer) -> list[str]:
    """Return the warnings of a document, which standard error repeats."""
    found: list[str] = answer.document.get("warnings", [])
    assert all(f"lakesweep: warning: {each}" in answer.messages for each in found)
    return [each for each in found if "control location" in each]


@pytest.mark.parametrize("first", [[], ["--execute"]])
def test_the_first_call_from_a_control_location_says_that_it_is_new_to_the_table(
    tmp_path: Path, first: list[str]
) -> None:
    table, control = tmp_path / "orders", tmp_path / "control"
    write_table(table, options=RULES)
    words = ("expire-snapshots", table, "--control", control, "--json")
    assert warnings(call("expire-snapshots", table, "--retain-min", 9, *words[2:])) == []  # there is nothing to do
    assert warnings(call(*words, "--retain-max", 3, *first)) == [f"control location {control} {NEW}"]
    assert warnings(call(*words, "--retain-max", 2)) == []
    (control / "tables").rename(control / "lost")
    assert warnings(call("create-tag", table, "t", *words[2:], "--execute")) == [f"control location {control} {NEW}"]
    assert warnings(call("create-tag", table, "u", *words[2:], "--execute")) == []


def test_a_second_control_location_is_noticed_by_runs_check_and_show(
    bucket: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("expire-snapshots", TABLE, "--json", "--retain-max", "6", "--retain-min")
    assert warnings(call(*words, "4", *OPS, "--execute")) == [f"control location s3://ops/lakesweep {NEW}"]
    assert warnings(call("check", TABLE, *OPS, "--json")) == []
    says = "control location 's3://ops/lakesweep' was used by the last maintainer of this table, as snapshot/EARLIEST"
    (new, second) = warnings(call(*words, "2", *OTHER))
    assert new.startswith("control location s3://other/lakesweep has not seen")
    assert second.startswith(f"{says} says, and this call uses s3://other/lakesweep; neither sees the lease")
    (again,) = warnings(call(*words, "2", *OTHER, "--execute"))
    assert again == second
    (back,) = warnings(call("check", TABLE, *OPS, "--json"))
    assert back.startswith("control location 's3://other/lakesweep' was used by the last maintainer")
    monkeypatch.setenv("LAKESWEEP_CONTROL", "s3://ops/lakesweep")
    assert warnings(call("show", TABLE, "--json")) == [back]
    assert [
        each["Key"] for each in bucket.list_objects_v2(Bucket="lake")["Contents"] if "lakesweep" in each["Key"]
    ] == []


@pytest.mark.parametrize(
    ("mark", "shown"),
    [
        (None, None),
        ("s3://ops/lakesweep", None),
        ("a%0A%1B%5B31mlakesweep:%20all%20is%20well", r"'a\n\x1b[31mlakesweep: all is well'"),
        ("https://me:secret@host/x", "'https://***@host/x'"),
        ("x" * 1900, f"'{'x' * 200}'"),
        ("%00%E2%80%AEx", r"'\x00\u202ex'"),
    ],
)
def test_the_name_in_a_table_is_only_shown(bucket: Any, mark: str | None, shown: str | None) -> None:
    """Paimon overwrites the hint without a name; others may write any."""
    named = {} if mark is None else {"lakesweep-control": mark}
    bucket.put_object(Bucket="lake", Key="sales/orders/snapshot/EARLIEST", Body=b"1", Metadata=named)
    answer = call("expire-snapshots", TABLE, *OPS, "--json", "--execute")
    assert (answer.exit_code, answer.document["status"]) == (0, "done")
    found = [each for each in warnings(answer) if NEW not in each]
    assert [each.split(" was used")[0] for each in found] == ([] if shown is None else [f"control location {shown}"])
    assert "secret" not in answer.printed + answer.messages


def test_a_call_that_finds_its_documents_asks_for_the_hint_alone(bucket: Any) -> None:
    """A call without work asks nothing."""
    words = ("expire-snapshots", TABLE, *OPS, "--json", "--execute", "--retain-max", "6", "--retain-min")
    call(*words, "4")
    idle = call(*words, "4").document["requests"]
    with patch.object(NoticingStore, "put", WrappingStore.put):
        unnoticed = call(*words, "3").document["requests"]
    noticed = call(*words, "2").document["requests"]
    assert noticed["get"] == unnoticed["get"] + 1, (noticed, unnoticed)
    assert idle["put"] == 0
