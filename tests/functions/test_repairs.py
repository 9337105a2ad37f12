"""Repairs on demand: planned by one function, committed by the other, which may write nothing but new files."""

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
    queued = deployed.invoke("on_demand", event).value
    assert (queued["status"], queued["queued"], queued["commits"]["lost"]["rows"]) == ("planned", True, 10)
    assert by_function(deployed.run(), "CommitsMade") == 1
    assert read_root(deployed.store(), "snapshot/snapshot-2").live == {table.path("A"), table.path("C")}
    made = set(keys_of(deployed.store())) - set(before)
    assert set(keys_of(deployed.store())) > set(before)
    assert len([key for key in made if key.startswith("index/index-")]) == 1


def test_what_has_to_be_accepted_is_not_queued_without_that() -> None:
    deployed = Committing()
    table = deployed.table("sales.db/orders", commits=0, options=VECTORS, partition_keys=["dt"])
    table.hint("LATEST", table.commit("+A", "+B", "+C", partition=("1",)))
    for symbol in "AB":
        table.remove(table.path(symbol))
    event = {**REPAIR, "table": deployed.location()}
    refused = deployed.invoke("on_demand", event).value
    assert refused["status"] == "refused" and "accept_loss" in refused["refusal"]["message"]
    assert not deployed.waiting("committer")
    deployed.invoke("on_demand", {**event, "arguments": {"accept_loss": True}})
    deployed.run()
    assert read_root(deployed.store(), "snapshot/snapshot-2").live == {table.path("C")}
