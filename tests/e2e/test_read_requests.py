"""How many requests it takes to read rows, counted on a real S3 protocol; the rows are those of a local folder."""

from pathlib import Path

import pytest

from lakesweep.model.roots import TableRef
from lakesweep.operations.reading.plan import plan_read
from lakesweep.operations.reading.read import write_rows
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.location import parse_location
from lakesweep.storage.open import open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store
from tests.support.s3_server import fresh_bucket, moto_settings
from tests.support.table_builder import TableBuilder


def write(store: Store) -> None:
    """Twelve files in two partitions, two of them with vectors in one index file."""
    options = {"deletion-vectors.enabled": "true", "source.split.target-size": "8 mb"}
    table = TableBuilder(store, real_rows=True, partition_keys=("dt",), types={"n": "INT"}, options=options)
    names = [f"F{number}" for number in range(12)]
    table.commit(*(f"+{name}" for name in names), partition={name: (f"d{int(name[1:]) % 2}",) for name in names})
    table.commit(index={"I": {"F0": [0, 7], "F2": [9]}}, partition=("d0",))


@pytest.mark.parametrize(("where", "reads"), [(None, 38), ("dt = 'd1'", 18), ("dt = 'd0' AND n < 0", 14)])
def test_a_read(tmp_path: Path, where: str | None, reads: int) -> None:
    """The plan reads metadata alone. A file takes three reads: whether it is there, its end, and its columns.

    Files of other partitions take none. Row groups without rows of the condition take none for columns. A split takes
    one for the vectors in an index file.
    """
    counter = RequestCounter()
    remote = open_store(parse_location(f"s3://{fresh_bucket()}/t"), counter=counter, settings=moto_settings())
    local = LocalStore(str(tmp_path / "t"))
    texts: list[str] = []
    counts = []
    for store in (local, remote):
        write(store)
        table = Table(TableRef(store.location, "main"), store, None, LocalStore)
        lines: list[str] = []
        before = counter.snapshot()
        plan = plan_read(table, Version(), where=where)
        between = counter.snapshot()
        found = write_rows(table, plan, "-", emit=lines.append)
        counts = [_grown(before, between), _grown(between, counter.snapshot())]
        texts.append("".join(sorted("".join(lines).splitlines(keepends=True))))
        assert found.rows == len(texts[-1].splitlines())
    assert texts[0] == texts[1]
    assert counts == [{"get": 6, "list": 4}, {"get": reads}]


def _grown(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {name: count - before.get(name, 0) for name, count in after.items() if count != before.get(name, 0)}
