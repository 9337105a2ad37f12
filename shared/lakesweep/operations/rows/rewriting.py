"""The index files of one commit: each attempt writes what no earlier attempt has written."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from lakesweep.commit.environment import Attempt
from lakesweep.errors import RefusedError
from lakesweep.model.safety import ORPHAN_AGE_MS
from lakesweep.operations.rows.engine import RowsEngine
from lakesweep.operations.rows.groups import Group
from lakesweep.operations.rows.writing import WrittenGroup
from lakesweep.runs.session import Table
from lakesweep.storage.clock import Stopwatch
from lakesweep.table.vectors import CORRUPT_VECTORS


@dataclass(frozen=True, slots=True)
class WrittenGroups:
    """The index files of one attempt."""

    groups: Sequence[WrittenGroup]
    """Of each group, in their order."""
    since: Stopwatch | None
    """Counts from before the first of these files was written; `None`: there are none."""
    is_reused: bool
    """An earlier attempt has written some of them."""

    @property
    def files(self) -> int:
        """The number of new index files."""
        return sum(len(each.entries) for each in self.groups)

    @property
    def bytes(self) -> int:
        """Their size."""
        return sum(entry.file_size for each in self.groups for entry in each.entries)


@dataclass(slots=True)
class Rewriting:
    """Writes the index files of all attempts of one commit."""

    table: Table
    engine: RowsEngine
    _written: dict[tuple[object, ...], tuple[Group, WrittenGroup]] = field(default_factory=dict)
    """What earlier attempts have written, and `_since` when."""
    _since: Stopwatch = field(default_factory=Stopwatch)

    def write(self, attempt: Attempt, groups: Sequence[Group], rows: int) -> WrittenGroups:
        """Write index files, or use those of an earlier attempt.

        Args:
            attempt: The snapshot to build on.
            groups: What this attempt needs.
            rows: By how many rows the vectors must change.

        Raises:
            RefusedError: Vectors changed by another number of rows (`corrupt_vectors`).
            MaintenanceError: As `RowsEngine.write`.
        """
        is_late = self._since.elapsed_ms() > ORPHAN_AGE_MS // 2
        if not attempt.may_reuse or attempt.base.is_restart or is_late:
            self._written = {}
        if not self._written:
            self._since = Stopwatch()
        schema = attempt.base.schema
        keys = [(schema.id, group.partition, group.bucket, group.former, tuple(group.positions)) for group in groups]
        fresh = [
            (key, group)
            for key, group in zip(keys, groups, strict=True)
            if group.writes and (key not in self._written or self._written[key][0] != group)
        ]
        made = self.engine.write(schema, [group for _, group in fresh]) if fresh else ()
        for (key, group), written in zip(fresh, made, strict=True):
            self._written[key] = group, written
        all_written = [
            self._written[key][1] if group.writes else WrittenGroup() for key, group in zip(keys, groups, strict=True)
        ]
        changed = sum(each.changed_rows for each in all_written)
        if changed != rows:
            raise RefusedError(
                f"table {self.table.ref}: expected that deletion vectors change by {rows} rows, found {changed}; "
                "nothing is committed",
                code=CORRUPT_VECTORS,
            )
        has_files = any(each.entries for each in all_written)
        is_reused = len(fresh) < sum(group.writes for group in groups)
        return WrittenGroups(all_written, self._since if has_files else None, is_reused)
