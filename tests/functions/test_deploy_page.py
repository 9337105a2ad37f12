"""docs/deploy.md, followed literally as far as moto goes."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from samcli.commands.deploy.guided_config import GuidedConfig
from samcli.lib.config.samconfig import SamConfig

from lakesweep.aws import bucket_events
from lakesweep.storage.open import _client
from tests.functions.deployment import Deployment, moto_client
from tests.support.moto_events import show_event_bridge
from tests.support.s3_server import moto_endpoint
from tests.support.stack import TEMPLATE, load_template
from tests.unit.cli.command_line import Answer, call

PAGE = (TEMPLATE.parent / "docs" / "deploy.md").read_text(encoding="utf-8")
SHELL = "\n".join(re.findall(r"^```sh\n(.*?)^```", PAGE, flags=re.MULTILINE | re.DOTALL))
COMMANDS = [line.partition("#")[0].strip() for line in SHELL.splitlines() if line.startswith("lakesweep ")]


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Deployment]:
    """A deployment that observes, and a person's laptop."""
    show_event_bridge(monkeypatch)
    monkeypatch.setattr(bucket_events.time, "sleep", lambda _: None)
    made = Deployment(mode="observe", extra={"LAKESWEEP_MIN_INTERVAL": "1 ms"})
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_endpoint())
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("LAKESWEEP_CONTROL", f"s3://{made.control_bucket}/lakesweep")
    yield made
    _client.cache_clear()


def test_every_command_of_the_page_works_in_its_order(deployed: Deployment, tmp_path: Path) -> None:
    """Events, plans while nothing is deleted, deletion, and the policy."""
    todo, table = iter(COMMANDS), deployed.table()
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"version": 1, "rules": [{"tables": deployed.location(), "mode": "delete"}]}))

    def follow(beginning: str, run_id: str = "", plan_id: str = "") -> Answer:
        line = next(todo)
        assert line.startswith(beginning), line
        words = {
            "lake": deployed.bucket,
            "$TABLE": deployed.location(),
            "RUN_ID": run_id,
            "PLAN_ID": plan_id,
            "policy.json": str(policy),
        }
        answer = call(*(words.get(word, word) for word in shlex.split(line)[1:]))
        assert answer.exit_code == 0, (line, answer.printed, answer.messages)
        return answer

    follow("lakesweep enable-events")
    follow("lakesweep enable-events")
    configured = moto_client().get_bucket_notification_configuration(Bucket=deployed.bucket)
    assert "EventBridgeConfiguration" in configured

    asked = re.search(r'--payload "(.*)" answer.json', PAGE)
    assert asked is not None
    payload = json.loads(asked[1].replace('\\"', '"').replace("$TABLE", deployed.location()))
    answer = deployed.invoke("on_demand", payload).value
    assert (answer["status"], answer["table"]) == ("planned", deployed.location())
    for line in deployed.run(deployed.commit_event(6)):
        assert line.metrics.get("RunsSkipped", 1) == 1
    follow("lakesweep show")
    planned = {step["plan_id"] for step in answer["steps"]} - {None}
    assert planned
    shown = follow("lakesweep plans").printed
    assert [plan_id for plan_id in planned if plan_id not in shown] == []
    assert "yes, if executed now" in follow("lakesweep plans", plan_id=max(planned)).printed
    follow("lakesweep maintain")
    assert deployed.snapshots() == [1, 2, 3, 4, 5, 6]

    deployed.mode = "delete"
    deployed._modules.clear()
    table.hint("LATEST", table.commit("+F7", "-F6"))
    deployed.run(deployed.commit_event(7))
    assert deployed.snapshots() == [6, 7]
    follow("lakesweep runs")
    (run,) = json.loads(call("runs", deployed.location(), "--json").printed)["runs"]
    follow("lakesweep report", run["run_id"])
    assert "delete" in follow("lakesweep policy test").printed
    assert list(todo) == []


def test_the_line_that_turns_deletion_on_finds_what_sam_wrote(tmp_path: Path) -> None:
    """`sam deploy --guided` keeps the answers; the page's `sed` changes one of them."""
    (line,) = (line for line in SHELL.splitlines() if line.startswith("sed "))
    config = SamConfig(str(tmp_path))
    asked: dict[str, Any] = {"TableBuckets": "lake", "Mode": "observe", "PolicyLocation": ""}
    guided = GuidedConfig(template_file=str(TEMPLATE), section="parameters")
    guided._save_parameter_overrides(["deploy"], "default", asked, config)
    config.flush()
    subprocess.run(["/bin/sh", "-c", line], cwd=tmp_path, check=True, stderr=sys.stderr)
    kept = SamConfig(str(tmp_path)).get_all(["deploy"], "parameters")
    assert kept["parameter_overrides"] == 'TableBuckets="lake" Mode="delete" PolicyLocation=""'


def test_parameters_and_outputs_of_the_page_exist() -> None:
    template = load_template()
    outputs = set(re.findall(r"output `?([A-Z]\w+)`?", PAGE))
    assert outputs and outputs <= template["Outputs"].keys()
    rows = re.findall(r"^\| ((?:`[A-Z]\w+`(?:, )?)+) \|", PAGE, flags=re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"\w+", row)}
    assert len(named) > 15 and named <= template["Parameters"].keys()
