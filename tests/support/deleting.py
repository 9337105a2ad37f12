"""A small append table with deletion vectors, written by pypaimon into a folder, and calls of `delete-rows`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lakesweep.control.area import area_of
from lakesweep.format.manifest import IndexEntry
from lakesweep.model.commits.rows import RowsReport
from lakesweep.model.report import RunReport
from lakesweep.model.roots import Root, TableRef
from lakesweep.operations.rows.arguments import DeleteRowsArguments
from lakesweep.operations.rows.delete_rows import delete_rows
from lakesweep.operations.rows.engine import RowsEngine
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from lakesweep.table.documents import read_roots, read_schema
from lakesweep.table.reach.row_files import row_files
from lakesweep.table.vectors import vector_entries
from tests.support.rows_read import read_rows

OPTIONS = {"bucket": "-1", "deletion-vectors.enabled": "true"}
DECLARED = Catalog("filesystem", has_lock=True)


@dataclass
class DeletingTable:
    """The table. Its columns are `dt` (a partition key, unless told otherwise), `id` and `price`."""

    folder: Path
    options: Mapping[str, str] = field(default_factory=dict)
    partition_keys: Sequence[str] = ("dt",)
    primary_keys: Sequence[str] = ()
    columns: Any = None

    def __post_init__(self) -> None:
        import pyarrow as pa
        from pypaimon import CatalogFactory, Schema

        plain = pa.schema([("dt", pa.string()), ("id", pa.int64()), ("price", pa.float64())])
        self.columns = self.columns or plain
        self.catalog = CatalogFactory.create({"warehouse": str(self.folder)})
        self.catalog.create_database("db", ignore_if_exists=True)
        options = {**OPTIONS, **({"bucket": "1"} if self.primary_keys else {}), **self.options}
        made = Schema.from_pyarrow_schema(
            self.columns,
            partition_keys=list(self.partition_keys),
            primary_keys=list(self.primary_keys),
            options=options,
        )
        self.catalog.create_table("db.t", made, ignore_if_exists=False)
        self.store: Store = LocalStore(str(self.folder / "db.db" / "t"))
        self.control: Store = LocalStore(str(self.folder / "control"))

    def append(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows by pypaimon: one data file for each partition."""
        import pyarrow as pa

        builder = self.catalog.get_table("db.t").new_batch_write_builder()
        write, commit = builder.new_write(), builder.new_commit()
        write.write_arrow(pa.Table.from_pylist(list(map(dict, rows)), self.columns))
        commit.commit(write.prepare_commit())
        write.close()
        commit.close()

    def add(self, dt: str, ids: Iterable[int]) -> None:
        """Append rows to one partition; the price is the id, and null for each seventh one."""
        self.append({"dt": dt, "id": each, "price": float(each) if each % 7 else None} for each in ids)

    def table(self, store: Store | None = None, *, branch: str = "main", **changes: Any) -> Table:
        """Return the opened table."""
        store = store or self.store
        area = area_of(self.control, store)
        return replace(Table(TableRef(store.location, branch), store, area, _none, sleep=_at_once), **changes)

    def delete(
        self,
        where: str,
        store: Store | None = None,
        *,
        execute: bool = True,
        engine: RowsEngine | None = None,
        table: Table | None = None,
        **arguments: Any,
    ) -> RunReport:
        """Delete rows, by default with all that a commit has to be told."""
        given = {"catalog": DECLARED, **arguments}
        return delete_rows(
            table or self.table(store), DeleteRowsArguments(where, **given), execute=execute, engine=engine
        )

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the newest version, as Lakesweep reads them."""
        return read_rows(self.store)

    def ids(self) -> list[int]:
        """Return the ids of these rows, ascending."""
        return sorted(row["id"] for row in self.rows())

    def rows_of_pypaimon(self) -> list[dict[str, Any]]:
        """Return the rows of the newest version, as pypaimon reads them."""
        builder = self.catalog.get_table("db.t").new_read_builder()
        splits = builder.new_scan().plan().splits()
        found: list[dict[str, Any]] = builder.new_read().to_arrow(splits).to_pylist() if splits else []
        return found

    def newest(self) -> Root:
        """Return the newest snapshot."""
        return read_roots(self.store, discover(self.store).branches["main"].snapshots[-1:]).roots[0]

    def index_files(self) -> tuple[IndexEntry, ...]:
        """Return the index files of the newest snapshot."""
        schema = read_schema(self.store, discover(self.store).branches["main"])
        return vector_entries(self.store, schema, self.newest())

    def data_files(self) -> list[str]:
        """Return the names of the live data files, ascending."""
        return sorted(each.entry.file_name for each in row_files(self.store, self.newest(), with_stats=False))

    def keys(self) -> set[str]:
        """Return all objects below the table."""
        return {each.key for each in self.store.list("")}


def rows_of(report: RunReport) -> RowsReport:
    """Return what a report says of the rows."""
    assert isinstance(report.commits, RowsReport), report.refusal
    return report.commits


def _none(location: str) -> Store:
    raise AssertionError(f"{location} is not needed")


def _at_once(seconds: float) -> None:
    """Wait no time."""
