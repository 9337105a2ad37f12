"""Cleaning deletion vectors on demand: planned by one function, committed by the other, also beside the data."""

import pytest

from tests.functions.committing import Committing, by_function
from tests.functions.deployment import keys_of
from tests.support.reader import read_root

VECTORS = {"bucket": "-1", "deletion-vectors.enabled": "true"}


@pytest.mark.parametrize("beside", ["false", "true"])
def test_a_vector_of_a_file_that_is_gone(beside: str) -> None:
    deployed = Committing()
    options = {**VECTORS, "index-file-in-data-file-dir": beside}
    table = deployed.table("sales.db/orders", commits=0, options=options, partition_keys=["dt"])
    table.commit("+A", "+B", partition=("1",), index={"I": {"A": [1], "B": [2]}})
    table.hint("LATEST", table.commit("-B", kind="OVERWRITE"))
    before = keys_of(deployed.store())
    event = {"operation": "clean-deletion-vectors", "table": deployed.location(), "arguments": {}, "execute": True}
    queued = deployed.invoke("on_demand", event).value
    assert (queued["status"], queued["queued"], queued["commits"]["dangling_vectors"]) == ("planned", True, 1)
    assert by_function(deployed.run(), "CommitsMade") == 1
    cleaned = read_root(deployed.store(), "snapshot/snapshot-3")
    assert cleaned.live == {table.path("A")} and table.path("I") not in cleaned.paths
    assert set(keys_of(deployed.store())) > set(before)
    assert deployed.invoke("on_demand", event).value["status"] == "nothing_to_do"
