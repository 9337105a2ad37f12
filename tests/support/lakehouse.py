"""A warehouse of small tables in a folder, and the overview of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lakesweep.api.warehouse import PlaceOpening
from lakesweep.cli.options import Place
from lakesweep.errors import AccessDeniedError
from lakesweep.model.overview import Overview, TableOverview
from lakesweep.model.progress import Progress
from lakesweep.operations.overview.warehouse import Choices, overview
from lakesweep.runs.session import Table
from lakesweep.storage.local.store import LocalStore
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store
from lakesweep.storage.wrappers.wrapping import WrappingStore
from tests.support.table_builder import TableBuilder

LONG = "x" * 200


class DeniedStore(WrappingStore):
    """Refuses every listing."""

    def list(self, prefix: str) -> Any:
        raise AccessDeniedError(f"list {self.location}/{prefix}: access denied")

    def list_range(self, prefix: str, after: str = "", until: str | None = None) -> Any:
        return self.list(prefix)

    def folders(self, prefix: str) -> Any:
        return self.list(prefix)

    def folders_among(self, names: Sequence[str]) -> Any:
        return self.list("")


class DeniedBelow(WrappingStore):
    """Refuses to list some folders."""

    def __init__(self, store: Store, denied: frozenset[str]) -> None:
        super().__init__(store)
        self._denied = denied

    def folders(self, prefix: str) -> Any:
        if f"{self.location}/{prefix}".rstrip("/") in self._denied:
            raise AccessDeniedError(f"list {self.location}/{prefix}: access denied")
        return super().folders(prefix)


@dataclass(frozen=True)
class DenyingOpening(PlaceOpening):
    """Opens places, some of which may not be listed."""

    denied: frozenset[str] = frozenset()

    def store(self, location: str, counter: RequestCounter) -> Store:
        return DeniedBelow(super().store(location, counter), self.denied)

    def table(self, location: str, counter: RequestCounter, progress: Progress) -> Table:
        table = super().table(location, counter, progress)
        return replace(table, store=DeniedStore(table.store)) if location in self.denied else table


@dataclass
class Lakehouse:
    """Tables in `warehouse/<database>.db/<table>`."""

    folder: Path
    tables: dict[str, TableBuilder] = field(default_factory=dict)

    @property
    def location(self) -> str:
        return str(self.folder / "warehouse")

    @property
    def control(self) -> Path:
        return self.folder / "control"

    def add(self, name: str, *, commits: int = 3, **details: Any) -> TableBuilder:
        """Write a table, each commit of which replaces one file by another."""
        table = TableBuilder(LocalStore(f"{self.location}/{name}"), **details)
        table.commit("+F1")
        for number in range(2, commits + 1):
            table.commit(f"-F{number - 1}", f"+F{number}")
        self.tables[name] = table
        return table

    def opening(self, denied: Sequence[str] = (), *, control: bool = True) -> PlaceOpening:
        place = Place("", control=str(self.control) if control else None)
        if not denied:
            return PlaceOpening(place)
        return DenyingOpening(place, frozenset(f"{self.location}/{name}" for name in denied))

    def overview(self, *places: str, denied: Sequence[str] = (), **choices: Any) -> Overview:
        """Return the overview of some places below the warehouse, by default of all of it."""
        named = [f"{self.location}/{place}" for place in places] or [self.location]
        return overview(self.opening(denied), named, Choices(**choices))


def by_name(found: Overview) -> Mapping[str, TableOverview]:
    """Return the rows by their names."""
    return {table.name: table for table in found.tables}


def figures(found: Overview) -> Mapping[str, TableOverview]:
    """Return the rows without what tells when they were measured."""
    return {table.table: replace(table, measured_ms=0, is_remembered=False) for table in found.tables}
