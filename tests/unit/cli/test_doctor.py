"""`lakesweep doctor`: one line for each thing, and what it says of each thing that is broken."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakesweep.control.area import table_key
from lakesweep.storage.clock import wall_ms
from lakesweep.storage.local.store import LocalStore
from tests.support.s3_server import fresh_bucket, moto_client, moto_endpoint, versioned_bucket
from tests.support.table_builder import TableBuilder
from tests.unit.cli.command_line import Answer, call, contents, write_table


@pytest.fixture
def table(tmp_path: Path) -> TableBuilder:
    return write_table(
        tmp_path / "orders", options={"snapshot.num-retained.min": "2", "snapshot.num-retained.max": "3"}
    )


@pytest.fixture
def folder(table: TableBuilder, tmp_path: Path) -> Path:
    return tmp_path / "orders"


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control"


def maintain(folder: Path, control: Path) -> None:
    assert call("maintain", folder, "--control", control, "--execute").exit_code == 0


def documents(folder: Path) -> dict[str, bytes]:
    """Return everything but the document of the probe, and the locks of a local store, which stay."""
    return {path: body for path, body in contents(folder).items() if not path.endswith((".lock", "doctor.json"))}


def doctor(place: object, *more: object) -> Answer:
    return call("doctor", place, "--json", *more)


def lines(answer: Answer, subject: str) -> list[dict[str, Any]]:
    return [line for line in answer.document["lines"] if line["subject"] == subject]


def verdict(answer: Answer, subject: str) -> str:
    [line] = lines(answer, subject)
    return str(line["verdict"])


def test_a_healthy_table(folder: Path, control: Path) -> None:
    """After a pass everything is well, and nothing is left of the probe."""
    maintain(folder, control)
    before = documents(folder), documents(control)
    answer = doctor(folder, "--control", control)
    assert (answer.exit_code, answer.document["status"]) == (0, "healthy"), answer.printed
    assert {line["verdict"] for line in answer.document["lines"]} == {"ok"}
    assert {line["subject"] for line in answer.document["lines"]} >= {"control", "clock", "lease", "plans", "passes"}
    assert (documents(folder), documents(control)) == before
    text = call("doctor", folder, "--control", control)
    assert text.printed.startswith(f"{folder}: healthy\nok ") and "mend" not in text.printed


def test_without_a_control_location_it_does_not_claim_health(tmp_path: Path) -> None:
    bucket = fresh_bucket()
    copy_to_s3(write_table(tmp_path / "t"), bucket, "t")
    answer = doctor(f"s3://{bucket}/t", "--endpoint-url", moto_endpoint(), "--region", "us-east-1")
    assert (answer.exit_code, answer.document["status"]) == (4, "unknown")
    assert verdict(answer, "control") == "unknown"


def test_its_commands_name_the_same_control_location_and_policy(folder: Path, control: Path, tmp_path: Path) -> None:
    """Without `--control` the command that it names would maintain the table under another lease."""
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"version": 1, "rules": [{"tables": str(folder), "mode": "observe"}]}))
    answer = doctor(folder, "--control", control, "--policy", policy)
    assert [line["mend"] for line in answer.document["lines"] if line["mend"]] == [
        f"lakesweep maintain {folder} --execute --policy {policy} --control {control}",
        f"lakesweep policy test {folder} --policy {policy}",
    ]


def test_no_pass_is_known(folder: Path, control: Path) -> None:
    answer = doctor(folder, "--control", control)
    assert (answer.exit_code, verdict(answer, "passes")) == (0, "look")
    assert f"lakesweep maintain {folder} --execute" in lines(answer, "passes")[0]["mend"]


def test_commits_that_wait_for_a_pass(folder: Path, control: Path) -> None:
    """The last trace is of some days before the newest commit, and that is decades old."""
    maintain(folder, control)
    reports = control / "tables" / table_key(str(folder)) / "reports"
    for path in list(reports.iterdir()):
        path.rename(reports / "19700101T000001Z-00000000.json")
    answer = doctor(folder, "--control", control)
    assert verdict(answer, "passes") == "look"
    assert lines(answer, "passes")[0]["mend"].startswith("lakesweep maintain")


def test_a_damaged_state(folder: Path, control: Path) -> None:
    maintain(folder, control)
    (control / "tables" / table_key(str(folder)) / "state.json").write_text("{")
    answer = doctor(folder, "--control", control)
    assert verdict(answer, "passes") == "look"


def test_a_damaged_lease(folder: Path, control: Path) -> None:
    maintain(folder, control)
    (control / "tables" / table_key(str(folder)) / "lease.json").write_text("[]")
    answer = doctor(folder, "--control", control)
    assert (answer.exit_code, verdict(answer, "lease")) == (6, "act")


def test_a_run_of_another_version(folder: Path, control: Path) -> None:
    maintain(folder, control)
    path = max((control / "tables" / table_key(str(folder)) / "reports").iterdir())
    document = json.loads(path.read_text())
    document["by"]["version"] = "0.0.1"
    path.write_text(json.dumps(document))
    answer = doctor(folder, "--control", control)
    assert (answer.exit_code, verdict(answer, "version")) == (0, "look")


def test_a_clock_that_is_wrong(folder: Path, control: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's clock is two minutes ahead of the store's."""
    monkeypatch.setattr(LocalStore, "now_ms", lambda self: wall_ms() - 120_000)
    answer = doctor(folder, "--control", control)
    assert (answer.exit_code, verdict(answer, "clock")) == (6, "act")


@pytest.mark.parametrize("ignored", ["if_absent", "if_match"])
def test_a_store_that_ignores_conditions(
    folder: Path, control: Path, monkeypatch: pytest.MonkeyPatch, ignored: str
) -> None:
    """Two maintainers could hold one lease there."""
    put: Callable[..., str] = LocalStore.put

    def careless(self: LocalStore, key: str, data: bytes, **words: Any) -> str:
        return put(self, key, data, **{name: value for name, value in words.items() if name != ignored})

    monkeypatch.setattr(LocalStore, "put", careless)
    answer = doctor(folder, "--control", control)
    assert (answer.exit_code, verdict(answer, "control")) == (6, "act")


def test_nothing_is_written_if_asked(folder: Path, control: Path) -> None:
    maintain(folder, control)
    answer = doctor(folder, "--control", control, "--no-probe")
    assert (answer.exit_code, verdict(answer, "control")) == (4, "unknown")


def test_a_control_location_that_cannot_be_written(
    folder: Path, control: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakesweep.errors import AccessDeniedError

    def denied(self: LocalStore, key: str, data: bytes, **words: Any) -> str:
        raise AccessDeniedError("no")

    maintain(folder, control)
    monkeypatch.setattr(LocalStore, "put", denied)
    answer = doctor(folder, "--control", control)
    assert (answer.exit_code, verdict(answer, "control")) == (4, "unknown")


def test_no_table(tmp_path: Path, control: Path) -> None:
    (tmp_path / "empty").mkdir()
    answer = doctor(tmp_path / "empty", "--control", control)
    assert (answer.exit_code, answer.document["error"]["code"]) == (3, "not_a_table")


def test_an_invalid_policy(folder: Path, control: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text("{")
    answer = doctor(folder, "--control", control, "--policy", tmp_path / "policy.json")
    assert (answer.exit_code, verdict(answer, "policy")) == (6, "act")


def test_a_policy_that_observes(folder: Path, control: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_text(
        json.dumps({"version": 1, "rules": [{"tables": str(folder), "mode": "observe"}]})
    )
    answer = doctor(folder, "--control", control, "--policy", tmp_path / "policy.json")
    assert verdict(answer, "policy") == "look"


def copy_to_s3(table: TableBuilder, bucket: str, prefix: str) -> None:
    client = moto_client()
    for entry in table.store.list(""):
        client.put_object(Bucket=bucket, Key=f"{prefix}/{entry.key}", Body=table.store.read(entry.key).data)


def on_s3(tmp_path: Path, bucket: str) -> list[object]:
    copy_to_s3(
        write_table(tmp_path / "t", options={"snapshot.num-retained.max": "3", "snapshot.num-retained.min": "1"}),
        bucket,
        "lake/t",
    )
    return [
        f"s3://{bucket}/lake/t",
        "--control",
        f"s3://{bucket}/ops",
        "--endpoint-url",
        moto_endpoint(),
        "--region",
        "us-east-1",
    ]


def test_a_bucket_with_versions(tmp_path: Path) -> None:
    bucket = versioned_bucket()
    place = on_s3(tmp_path, bucket)
    answer = doctor(*place)
    assert "for ever" in lines(answer, "bucket")[0]["says"]
    rules = [{"ID": "old", "Status": "Enabled", "Filter": {}, "NoncurrentVersionExpiration": {"NoncurrentDays": 10}}]
    moto_client().put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    answer = doctor(*place)
    assert (verdict(answer, "bucket"), answer.exit_code) == ("ok", 0)


def test_a_rule_that_deletes_live_files(tmp_path: Path) -> None:
    """The worst that a lifecycle rule can do: of the table, and of the control location."""
    bucket = fresh_bucket()
    place = on_s3(tmp_path, bucket)
    rules = [{"ID": "tidy", "Status": "Enabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 30}}]
    moto_client().put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": rules})
    answer = doctor(*place)
    assert answer.exit_code == 6
    assert [line["verdict"] for line in lines(answer, "bucket")] == ["act", "act", "look"]


def test_the_probe_is_one_document(tmp_path: Path) -> None:
    """Written once, whoever asks how often."""
    bucket = fresh_bucket()
    place = on_s3(tmp_path, bucket)
    for _ in range(2):
        assert verdict(doctor(*place), "control") == "ok"
    keys = [each["Key"] for each in moto_client().list_objects_v2(Bucket=bucket)["Contents"]]
    assert [key for key in keys if key.startswith("ops/")] == ["ops/doctor.json"]


def test_a_table_that_is_gone_is_an_error(folder: Path, control: Path) -> None:
    shutil.rmtree(folder)
    assert doctor(folder, "--control", control).exit_code != 0
