"""What an overview remembers of earlier ones, and keeps for later ones while it works."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from lakesweep.control.area import ControlArea
from lakesweep.control.overviews import Remembered, merged, read_overviews, write_overviews
from lakesweep.errors import MaintenanceError
from lakesweep.operations.overview.measured import Measured
from lakesweep.operations.overview.opening import Opening
from lakesweep.operations.overview.tables import FoundTable, folder_of
from lakesweep.storage.clock import monotonic_s
from lakesweep.storage.requests import RequestCounter

PARALLEL = 8
SAVED_AFTER_S = 5.0
"""What was measured is stored as often as this, so that not much is lost if the process is killed."""
MOST_SAVING = 0.05
"""The share of time that storing may take."""
_DAY_MS = 24 * 3600 * 1000
_AHEAD_MS = 60_000
"""A row that was measured later than this from now on comes from a wrong clock."""


class Memory:
    """The rows of the tables of an overview. Nothing that goes wrong here stops it: the warnings say so."""

    def __init__(self, opening: Opening, tables: Sequence[FoundTable], counter: RequestCounter, now_ms: int) -> None:
        self.warnings: list[str] = []
        self._now_ms = now_ms
        self._areas: dict[str, ControlArea] = {}
        for folder in dict.fromkeys(folder_of(table.location) for table in tables):
            if (area := opening.area(folder, counter)) is not None:
                self._areas[folder] = area
        self._rows: dict[str, dict[str, Remembered]] = {}
        self._new: dict[str, dict[str, Remembered]] = {}
        self._save_at_s = monotonic_s() + SAVED_AFTER_S

    @property
    def is_kept(self) -> bool:
        """Tell whether anything is remembered at all."""
        return bool(self._areas)

    def read(self) -> None:
        """Read what earlier overviews measured."""

        def rows(area: ControlArea) -> dict[str, Remembered]:
            try:
                return read_overviews(area)
            except MaintenanceError as error:
                self._warn(f"what earlier overviews measured cannot be read: {error}")
                return {}

        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="memory") as pool:
            self._rows = dict(zip(self._areas, pool.map(rows, self._areas.values()), strict=True))

    def of(self, table: FoundTable) -> Measured | None:
        """Return what is remembered of a table and may still hold."""
        row = self._rows.get(folder_of(table.location), {}).get(table.location)
        if row is None or not row.overview.measured_ms <= self._now_ms + _AHEAD_MS < row.holds_until_ms + _AHEAD_MS:
            return None
        return Measured(replace(row.overview, name=table.name), row.fingerprint, row.holds_until_ms)

    def hold(self, table: FoundTable, measured: Measured) -> None:
        """Note that a row still holds, so that it is not forgotten. Once a day is enough."""
        row = self._rows[folder_of(table.location)][table.location]
        if self._now_ms - row.seen_ms >= _DAY_MS:
            self._note(table, self._row(measured))

    def keep(self, table: FoundTable, measured: Measured) -> None:
        """Keep what was measured. From time to time, store it."""
        self._note(table, self._row(measured))
        if monotonic_s() >= self._save_at_s:
            self.save()

    def _row(self, measured: Measured) -> Remembered:
        overview = replace(measured.overview, is_remembered=False)
        return Remembered(measured.fingerprint, measured.holds_until_ms, self._now_ms, overview)

    def _note(self, table: FoundTable, row: Remembered) -> None:
        folder = folder_of(table.location)
        if folder in self._areas:
            self._new.setdefault(folder, {})[table.location] = row

    def save(self) -> None:
        """Store everything that was kept since the last time, beside what other overviews have stored meanwhile."""
        new, self._new = self._new, {}
        began_s = monotonic_s()
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="memory") as pool:
            list(pool.map(lambda folder: self._save(self._areas[folder], new[folder]), new))
        now_s = monotonic_s()
        self._save_at_s = now_s + max(SAVED_AFTER_S, (now_s - began_s) / MOST_SAVING)

    def _save(self, area: ControlArea, rows: dict[str, Remembered]) -> None:
        try:
            write_overviews(area, merged(read_overviews(area), rows, self._now_ms))
        except MaintenanceError as error:
            self._warn(f"what this overview measured cannot be stored: {error}")

    def _warn(self, sentence: str) -> None:
        if not self.warnings:  # one sentence is enough: the cause is mostly the same
            self.warnings.append(sentence)
