"""The part of a report about rows that a run deletes, and the commit that does.

In a table with deletion vectors no data file is rewritten. Older snapshots, tags and branches may still show the rows,
as long as they live.
"""

import json
from dataclasses import dataclass, field

from lakesweep.model.commits.report import CommitsReport
from lakesweep.model.commits.shown import ShownBy

SHOWN = 10_000
"""A document lists partitions up to this number; counts are of all of them."""


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The rows that one partition loses."""

    partition: str
    """As its folder, such as `dt=20240101/hr=08`; "" without partition keys."""
    rows: int
    files: int
    """Data files with such rows."""
    whole_files: int
    """Those of which every row goes, so that they leave the table."""
    loses_all: bool = False
    """No data file is left in it."""

    def to_json(self) -> dict[str, object]:
        """Return the partition as it appears under `commits`."""
        return {
            "partition": self.partition,
            "rows": self.rows,
            "files": self.files,
            "whole_files": self.whole_files,
            "loses_all": self.loses_all,
        }


@dataclass(frozen=True, slots=True)
class RewrittenFiles:
    """The data files that are rewritten without the rows, in a table whose readers apply no deletion vectors."""

    files: int = 0
    bytes: int = 0
    """Their size."""
    kept_rows: int = 0
    """Rows of the new files."""
    written_files: int = 0
    """New data files."""
    written_bytes: int = 0

    def to_json(self) -> dict[str, object]:
        """Return the files as they appear under `commits`."""
        return {
            "files": self.files,
            "bytes": self.bytes,
            "kept_rows": self.kept_rows,
            "written": {"files": self.written_files, "bytes": self.written_bytes},
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsReport(CommitsReport):
    """The rows that a run deletes, or would."""

    condition: str = ""
    """What the condition looks at, without its values; its text if the caller asked for that."""
    zone: str | None = None
    """The zone of times in the condition; `None`: it has none that depend on one."""
    partitions: tuple[PartitionRows, ...] = ()
    """Those with such rows."""
    base_uuid: str | None = None
    """The uuid of the snapshot that was searched, and that the commit is built on; `None`: its writer gave none."""
    all_files: int = 0
    """Data files of the snapshot."""
    searched_files: int = 0
    """Data files that were opened. Metadata rule out such rows in the others, or tell them all."""
    index_files: int = 0
    """The index files that the new snapshot does not name any more."""
    written_files: int = 0
    """New index files."""
    written_bytes: int = 0
    rewritten: RewrittenFiles | None = None
    """`None`: the table has deletion vectors."""
    shown_by: tuple[ShownBy, ...] | None = None
    """Who still shows such rows after the commit, or may show some; `None`: nobody looked."""
    sample: tuple[str, ...] = field(default=(), repr=False)
    """A few of the rows as JSON, for a dry run that asks for them. They are never stored."""
    reused_attempt: bool = False
    """What an earlier attempt had found was used again, though another writer had committed meanwhile."""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(each.rows for each in self.partitions)

    @property
    def files(self) -> int:
        """The number of data files with such rows."""
        return sum(each.files for each in self.partitions)

    @property
    def whole_files(self) -> int:
        """The number of data files that leave the table."""
        return sum(each.whole_files for each in self.partitions)

    def to_json(self) -> dict[str, object]:
        """Return the document that a report has under `commits`."""
        return {
            "condition": self.condition,
            "time_zone": self.zone,
            "base_uuid": self.base_uuid,
            "rows": self.rows,
            "files": self.files,
            "whole_files": self.whole_files,
            "all_files": self.all_files,
            "searched_files": self.searched_files,
            "partition_count": len(self.partitions),
            "partitions": [each.to_json() for each in self.partitions[:SHOWN]],
            "index_files": self.index_files,
            "written": {"index_files": self.written_files, "bytes": self.written_bytes},
            "rewritten": None if self.rewritten is None else self.rewritten.to_json(),
            "shown_by": None if self.shown_by is None else [each.to_json() for each in self.shown_by],
            "reused_attempt": self.reused_attempt,
            **({"sample": [json.loads(row) for row in self.sample]} if self.sample else {}),
            **CommitsReport.to_json(self),
        }
