"""Repairs on demand: planned by one function, committed by the other, which may write nothing but new files."""

import json

from tests.functions.committing import Committing, by_function
from tests.functions.deployment import keys_of
from tests.support.reader import read_root

REPAIR = {"operation": "remove-unexisting-files", "arguments": {}, "execute": True}
VECTORS = {"bucket": "-1", "deletion-vectors.enabled": "true"}


def test_a_lost_file_beside_a_vector() -> None:
    deployed = Committing()
    table = deployed.table("sales.db/orders", commits=0, options=VECTORS, partition_keys=["dt"])
    table.hint("LATEST", table.commit("+A", "+B", "+C", partition=("1",), index={"I": {"A": [1], "B": [2]}}))
    event = {**REPAIR, "table": deployed.location()}
    assert deployed.invoke("on_demand", event).value["status"] == "nothing_to_do"
    table.remove(table.path("B"))
    before = keys_of(deployed.store())
    event = {**event, "arguments": {"accept_loss": loss_of(deployed, event)}}
    queued = deployed.invoke("on_demand", event).value
    assert (queued["status"], queued["queued"], queued["commits"]["lost"]["rows"]) == ("planned", True, 10)
    assert by_function(deployed.run(), "CommitsMade") == 1
    assert read_root(deployed.store(), "snapshot/snapshot-2").live == {table.path("A"), table.path("C")}
    made = set(keys_of(deployed.store())) - set(before)
    assert set(keys_of(deployed.store())) > set(before)
    assert len([key for key in made if key.startswith("index/index-")]) == 1


def test_a_loss_that_nobody_accepted_is_not_queued() -> None:
    """What vanishes between the request and the commit is not given up either."""
    deployed = Committing()
    table = deployed.table("sales.db/orders", commits=0, options=VECTORS, partition_keys=["dt"])
    table.hint("LATEST", table.commit("+A", "+B", "+C", "+D", partition=("1",)))
    for symbol in "AB":
        table.remove(table.path(symbol))
    event = {**REPAIR, "table": deployed.location()}
    for given in (True, "0" * 12, None):
        refused = deployed.invoke("on_demand", {**event, "arguments": {"accept_loss": given}}).value
        assert refused["status"] == "refused" and "accept_loss" in refused["refusal"]["message"]
    assert not deployed.waiting("committer")
    deployed.invoke("on_demand", {**event, "arguments": {"accept_loss": loss_of(deployed, event)}})
    table.remove(table.path("C"))
    assert deployed.waiting("committer")
    deployed.run()
    assert not read_ids(deployed)[1:]
    deployed.invoke("on_demand", {**event, "arguments": {"accept_loss": loss_of(deployed, event)}})
    deployed.run()
    assert read_root(deployed.store(), "snapshot/snapshot-2").live == {table.path("D")}


def test_a_hint_above_the_newest_snapshot_is_confirmed() -> None:
    deployed = Committing()
    table = deployed.table("sales.db/orders", commits=2)
    table.hint("LATEST", 9)
    event = {"operation": "repair-hints", "table": deployed.location(), "arguments": {}, "execute": True}
    refused = deployed.invoke("on_demand", event).value["refusal"]
    assert refused["code"] == "confirmation_needed" and "may hide a loss" in refused["message"]
    confirmed = json.loads(refused["message"].partition("expected ")[2].partition(" and the table")[0])
    assert not deployed.run() and deployed.store().read("snapshot/LATEST").data == b"9"
    assert deployed.invoke("on_demand", {**event, **confirmed}).value["queued"]
    deployed.run()
    assert deployed.store().read("snapshot/LATEST").data == b"2"


def loss_of(deployed: Committing, event: dict[str, object]) -> object:
    """Return the id that a plan shows."""
    return deployed.invoke("on_demand", {**event, "execute": False}).value["commits"]["loss_id"]


def read_ids(deployed: Committing) -> list[str]:
    return [key for key in keys_of(deployed.store()) if key.startswith("snapshot/snapshot-")]
