"""What the sweep tells of tables all of whose passes are refused, and of a deployment that finds no table."""

import json
from typing import Any

import pytest

from tests.functions.deployment import PREFIX, STATED, Answer, Deployment
from tests.support.s3_server import fresh_bucket
from tests.support.table_builder import TableBuilder

SWEEP: dict[str, object] = {"format_version": 1, "kind": "sweep", "cursor": None, "hop": 0}
DAY_S = 86_400
NAMED = "every pass over the branch is refused"


def swept(deployed: Deployment) -> Answer:
    """Sweep, and do what the sweep asks for."""
    answer = deployed.send("sweep", SWEEP)
    assert answer.failed == []
    deployed.run()
    return answer


def named(answer: Answer) -> list[dict[str, Any]]:
    return [line for line in answer.lines if line.get("message") == NAMED]


def noted_ms(deployed: Deployment) -> int:
    """Return since when passes are refused, as the state says."""
    return int(states(deployed)["branches"]["main"]["refused_ms"])


def states(deployed: Deployment) -> dict[str, Any]:
    (key,) = (key for key in deployed.control_keys() if key.endswith("state.json"))
    document: dict[str, Any] = json.loads(deployed.control().read(key).data)
    return document


def make_older(deployed: Deployment, seconds: int) -> None:
    (key,) = (key for key in deployed.control_keys() if key.endswith("state.json"))
    document = states(deployed)
    document["branches"]["main"]["refused_ms"] -= seconds * 1000
    deployed.control().put(key, json.dumps(document).encode())


def damaged(deployed: Deployment) -> tuple[TableBuilder, bytes]:
    """Write a table whose newest root cannot be read; return the root as it was."""
    table = deployed.table()
    root = table.root(6)
    whole = table.store.read(root).data
    table.corrupt(root)
    return table, whole


@pytest.mark.parametrize("mode", ["delete", "observe"])
def test_a_table_whose_every_pass_is_refused_is_named_after_a_day(mode: str) -> None:
    """Also one that was never maintained, whose lag nobody knows. A pass that works ends it."""
    deployed = Deployment(mode=mode)
    table, whole = damaged(deployed)
    answers = deployed.run(deployed.commit_event(6))
    assert answers[-1].metrics["RunsRefused"] == 1
    first_ms = noted_ms(deployed)

    answer = swept(deployed)
    assert 0 <= answer.metrics["MaxRefusedSeconds"] < 600
    assert answer.metrics["MaxLagSeconds"] == 0
    assert named(answer) == []
    assert noted_ms(deployed) == first_ms, "the first refusal counts"

    make_older(deployed, DAY_S + 60)
    answer = swept(deployed)
    assert DAY_S < answer.metrics["MaxRefusedSeconds"] < DAY_S + 600
    (line,) = named(answer)
    assert (line["table"], line["branch"], line["hours"]) == (deployed.location(), "main", 24)

    table.store.put(table.root(6), whole)
    swept(deployed)
    assert noted_ms(deployed) == 0
    answer = swept(deployed)
    assert (answer.metrics["MaxRefusedSeconds"], named(answer)) == (0, [])


def test_a_refusal_that_follows_from_a_choice_ends_the_count() -> None:
    """A table that states no retention any more is skipped, not refused."""
    deployed = Deployment()
    table, whole = damaged(deployed)
    deployed.run(deployed.commit_event(6))
    assert noted_ms(deployed) > 0
    table.store.put(table.root(6), whole)
    schema = json.loads(table.store.read("schema/schema-0").data)
    schema["options"] = {name: value for name, value in schema["options"].items() if name not in STATED}
    table.store.put("schema/schema-0", json.dumps(schema).encode())
    answers = deployed.run(deployed.commit_event(6))
    assert answers[-1].metrics["RunsSkipped"] == 1
    assert noted_ms(deployed) == 0


def test_a_wrong_prefix_finds_no_table() -> None:
    deployed = Deployment()
    deployed.table()
    deployed.extra = {"LAKESWEEP_TABLES": f"{deployed.bucket}/{PREFIX}s"}
    assert swept(deployed).metrics["TablesSwept"] == 0
    deployed.extra = {"LAKESWEEP_TABLES": fresh_bucket()}
    deployed._modules.clear()
    assert swept(deployed).metrics["TablesSwept"] == 0


def test_the_last_part_of_a_sweep_may_find_no_table() -> None:
    """It says nothing about the whole sweep, so it writes no zero."""
    deployed = Deployment()
    deployed.table()
    after = {**SWEEP, "cursor": f"s3://{deployed.bucket}/{PREFIX}/zzz"}
    assert "TablesSwept" not in deployed.send("sweep", after).metrics
    assert deployed.send("sweep", SWEEP).metrics["TablesSwept"] == 1
