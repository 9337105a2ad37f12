"""A small table with a primary key, written by pypaimon, and a model of what its readers have to see."""

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from lakesweep.control.area import area_of
from lakesweep.model.commits.compaction import CompactionReport
from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.arguments import CompactArguments
from lakesweep.operations.compaction.compact import compact
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Store
from tests.support.deleting import DECLARED, DeletingTable

WITH_VECTORS = {"bucket": "2", "write-only": "true", "deletion-vectors.enabled": "true"}
WITHOUT_VECTORS = {**WITH_VECTORS, "deletion-vectors.enabled": "false"}


class KeyedTable(DeletingTable):
    """The key is `dt` and `id`, of which `dt` is a partition key; `price` is the value."""

    def __init__(self, folder: Path, options: Mapping[str, str] | None = None, seed: int = 1) -> None:
        """Make an empty table."""
        super().__init__(
            folder, options={**WITH_VECTORS, **(options or {})}, primary_keys=("dt", "id"), columns=_columns()
        )
        self.model: dict[tuple[str, int], float] = {}
        """Partition and id -> price, of all that was written."""
        self._random = Random(seed)

    def upsert(self, count: int = 40, most: int = 100) -> None:
        """Write rows with random keys, new ones and such that replace others."""
        draw = self._random.randrange
        rows = {(draw(2), draw(most)): float(draw(1_000_000)) for _ in range(count)}
        self.put({("ab"[place], number): price for (place, number), price in rows.items()})

    def put(self, rows: Mapping[tuple[str, int], float]) -> None:
        """Write rows: one file of level 0 for each bucket that they are in."""
        self.append({"dt": dt, "id": number, "price": price} for (dt, number), price in rows.items())
        self.model |= rows

    def compact(
        self,
        store: Store | None = None,
        *,
        execute: bool = True,
        table: Table | None = None,
        engine: Any = None,
        **arguments: Any,
    ) -> RunReport:
        """Compact, by default with all that a commit has to be told."""
        given = CompactArguments(**{"catalog": DECLARED, **arguments})
        return compact(table or self.table(store), given, execute=execute, engine=engine)

    def compact_copy(self, folder: Path, **arguments: Any) -> RunReport:
        """Compact a copy of the table, in this process."""
        return self.compact(LocalStore(str(folder)), **arguments)

    def rival(self, **arguments: Any) -> None:
        """Compact as somebody else does, who knows nothing of Lakesweep's lease."""
        control = LocalStore(str(self.folder / "control-of-another"))
        report = self.compact(table=self.table(area=area_of(control, self.store)), **arguments)
        assert report.status == "done", report.refusal

    def check(self) -> None:
        """Readers see the newest row of each key once."""
        wanted = sorted((dt, number, price) for (dt, number), price in self.model.items())
        for rows in (self.rows(), self.rows_of_pypaimon()):
            assert sorted((row["dt"], row["id"], row["price"]) for row in rows) == wanted


def merged(report: RunReport) -> CompactionReport:
    """Return what a report says of the data files."""
    assert isinstance(report.commits, CompactionReport), report.refusal
    return report.commits


def _columns() -> Any:
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("dt", pa.string(), nullable=False),
            pa.field("id", pa.int64(), nullable=False),
            pa.field("price", pa.float64()),
        ]
    )
