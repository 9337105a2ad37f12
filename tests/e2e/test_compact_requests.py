"""How many requests a compaction takes, counted on a real S3 protocol. Counts are exact, so they are asserted."""

from pathlib import Path

from lakesweep.control.area import area_of
from lakesweep.model.commits.compaction import CompactionReport
from lakesweep.model.roots import TableRef
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.runs.session import Table
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store
from tests.support.deleting import DECLARED, DeletingTable
from tests.support.rows_read import read_rows
from tests.support.s3_server import fresh_bucket, moto_settings

FILES = 6
GETS_OF_METADATA = 9
"""Documents, lists, the index manifest and the vectors, whatever the number of manifests and data files."""


def nowhere(location: str) -> Store:
    raise AssertionError(f"{location} is not needed")


def test_each_small_file_and_each_manifest_is_read_with_one_request(tmp_path: Path) -> None:
    """Each commit left a manifest."""
    made = DeletingTable(tmp_path, partition_keys=())
    for number in range(FILES):
        made.add("a", range(number * 10, number * 10 + 10))
    made.delete("id IN (3, 14, 15)")
    rows = sorted(map(str, made.rows()))
    bucket, counter = fresh_bucket(), RequestCounter()
    store = open_store(f"s3://{bucket}/db.db/t", settings=moto_settings(), counter=counter)
    control = open_store(f"s3://{bucket}/control", settings=moto_settings(), counter=counter)
    for key in sorted(made.keys()):
        store.put(key, made.store.read(key).data)
    table = Table(TableRef(store.location), store, area_of(control, store), nowhere, counter=counter)
    counter.add("put", -counter.snapshot()["put"])
    report = compact(table, CompactArguments(DECLARED), execute=True)
    assert report.status == "done" and isinstance(report.commits, CompactionReport), report
    assert (report.commits.files, report.commits.written_files) == (FILES, 1)
    requests = {kind: count for kind, count in counter.snapshot().items() if count}
    assert requests == {"get": GETS_OF_METADATA + FILES + FILES, "list": 6, "put": 13}
    assert sorted(map(str, read_rows(store))) == rows
