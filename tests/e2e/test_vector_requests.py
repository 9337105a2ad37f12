"""How many requests cleaning deletion vectors takes, counted on a real S3 protocol.

Counts are exact, so they are asserted.
"""

import pytest

from tests.support.live_records import live_records
from tests.support.overtaking import PartitionedTable
from tests.support.s3_server import fresh_bucket, moto_settings

VECTORS = {"deletion-vectors.enabled": "true"}


def table_of(files: int, *, rewritten: int = 0, left: int = 0, gone: bool = True) -> PartitionedTable:
    """Return a table with a manifest for each file, and index files of which some lose vectors.

    Args:
        files: Its number of commits, before one that deletes the first file.
        rewritten: Index files with a vector of that file and one of a live file.
        left: Index files with a vector of that file alone.
        gone: The first file is deleted.
    """
    table = PartitionedTable(moto_settings(), fresh_bucket(), commits=files, days=("2024-01-01",), options=VECTORS)
    index = {f"R{number}": {"F0": [number], f"F{number + 1}": [1]} for number in range(rewritten)}
    index |= {f"L{number}": {"F0": [100 + number]} for number in range(left)} | {"K": {f"F{files - 1}": [2]}}
    table.builder.commit(*(("-F0",) if gone else ()), index=index, kind="OVERWRITE", partition=("2024-01-01",))
    return table


@pytest.mark.parametrize(
    ("files", "rewritten", "left", "requests"),
    [
        (10, 0, 1, {"get": 19, "list": 6, "put": 10}),
        (10, 0, 5, {"get": 19, "list": 6, "put": 10}),
        (40, 0, 1, {"get": 49, "list": 6, "put": 10}),
        (10, 1, 0, {"get": 20, "list": 6, "put": 11}),
        (10, 5, 0, {"get": 24, "list": 6, "put": 15}),
    ],
)
def test_a_cleaning(files: int, rewritten: int, left: int, requests: dict[str, int]) -> None:
    """What grows is one read of each manifest, and of each rewritten index file a read and a put."""
    table = table_of(files, rewritten=rewritten, left=left)
    run = table.run("clean-deletion-vectors")
    assert run.report.status == "done", run.report.refusal
    assert run.requests == requests
    assert live_records(table.store, files + 2) == live_records(table.store, files + 1)
    assert len(run.to_visible) <= 6, run.to_visible


def test_a_dry_run() -> None:
    """It reads what an execution reads, and puts nothing."""
    run = table_of(10, rewritten=2).run("clean-deletion-vectors", execute=False)
    assert run.report.status == "planned", run.report.refusal
    assert run.requests == {"get": 19, "list": 4}
    assert not [call for call in run.calls if " put " in call]


def test_nothing_to_do() -> None:
    """Without vectors no manifest is read."""
    assert table_of(10, gone=False).run("clean-deletion-vectors").requests == {"get": 16, "list": 2}
    table = PartitionedTable(moto_settings(), fresh_bucket(), commits=10, options=VECTORS)
    assert table.run("clean-deletion-vectors").requests == {"get": 3, "list": 2}


def test_a_second_attempt() -> None:
    """The other commit's snapshot twice, its lists and its manifest; what was rewritten is used again."""
    table = table_of(10, rewritten=5)
    run = table.run("clean-deletion-vectors", others=table.append, when="prepared")
    assert run.report.status == "done", run.report.refusal
    assert run.again == {"get": 7, "list": 7, "put": 11}
