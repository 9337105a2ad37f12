"""An older version committed on top: a person asks, and the function that commits does it, and deletes nothing."""

from typing import Any

from tests.functions.committing import Committing, by_function
from tests.support.iam import recorded
from tests.support.reader import read_root
from tests.support.table_builder import TableBuilder


def _live(deployed: Committing, table: TableBuilder) -> set[str]:
    return table.symbols(read_root(deployed.store(), f"snapshot/snapshot-{deployed.snapshots()[-1]}").live)


def test_a_rollback_as_latest_by_hand() -> None:
    deployed = Committing()
    table = deployed.table("sales.db/orders", commits=0)
    for entries in (["+A", "+B"], ["-A", "+C"]):
        table.hint("LATEST", table.commit(*entries))
    event: dict[str, Any] = {
        "operation": "rollback",
        "table": deployed.location(),
        "arguments": {"snapshot": 1, "as_latest": True},
    }
    planned = deployed.invoke("on_demand", event).value
    assert (planned["status"], planned["queued"], planned["commits"]["back"]["files"]) == ("planned", False, 1)
    queued = deployed.invoke("on_demand", {**event, "execute": True}).value
    assert (queued["status"], queued["queued"]) == ("planned", True)
    (message,) = deployed.waiting("committer")
    assert _live(deployed, table) == {"B", "C"}
    with recorded() as calls:
        answer = deployed.send("committer", message)
    assert (answer.failed, answer.metrics["CommitsMade"], answer.metrics.get("PartitionsDropped", 0)) == ([], 1, 0), (
        answer.text
    )
    assert not [call for call in calls if call.action.startswith("s3:Delete")]
    assert _live(deployed, table) == {"A", "B"}
    tags = [entry.key for entry in deployed.store().list("tag/")]
    assert [tag.startswith("tag/tag-rollback-to-as-latest-") for tag in tags] == [True, True]

    table.commit("+D", snapshot_id=4)
    answer = deployed.send("committer", message)
    assert by_function([answer], "CommitsMade") == 0, "a message that comes twice is carried out once"
