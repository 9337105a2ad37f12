"""The part of a report about rows that the undo of `delete-rows` brings back, and the commit that does.

No data file is written. Positions leave the deletion vectors of data files that are still there.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Literal

from lakesweep.model.commits.report import CommitsReport

SHOWN = 10_000
"""A document lists files up to this number; counts are of all of them."""

Why = Literal["left_whole", "gone", "unclear"]
"""Why rows do not come back. `left_whole`: all rows of the file went, so the run itself took it out of the table.
`gone`: the file was compacted, dropped or overwritten since. `unclear`: the rows may have come back meanwhile, and
somebody else may have deleted them again. Snapshots in between have expired, or show fewer deleted rows."""


@dataclass(frozen=True, slots=True)
class FileLeft:
    """A data file whose rows do not come back."""

    name: str
    rows: int
    why: Why

    def to_json(self) -> dict[str, object]:
        """Return the file as it appears under `commits`."""
        return {"file": self.name, "rows": self.rows, "why": self.why}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnedReport(CommitsReport):
    """The rows that an undo brings back, or would."""

    run_id: str = ""
    """The run that is undone."""
    snapshot_id: int = 0
    """What that run committed."""
    rows: int = 0
    files: int = 0
    """Data files that get rows back."""
    left: tuple[FileLeft, ...] = ()
    """Data files whose rows do not come back."""
    there_already: int = 0
    """Rows that came back before."""
    index_files: int = 0
    """The index files that the new snapshot does not name any more."""
    written_files: int = 0
    """New index files."""
    written_bytes: int = 0
    reused_attempt: bool = False
    """What an earlier attempt had written was used again, though another writer had committed meanwhile."""

    @property
    def rows_left(self) -> int:
        """The number of rows that do not come back."""
        return sum(file.rows for file in self.left)

    def to_json(self) -> dict[str, object]:
        """Return the document that a report has under `commits`."""
        return {
            "undone": {"run_id": self.run_id, "snapshot_id": self.snapshot_id},
            "rows": self.rows,
            "files": self.files,
            "left": {
                "rows": self.rows_left,
                "files": len(self.left),
                "why": dict(sorted(Counter(file.why for file in self.left).items())),
            },
            "left_files": [file.to_json() for file in self.left[:SHOWN]],
            "there_already": self.there_already,
            "index_files": self.index_files,
            "written": {"index_files": self.written_files, "bytes": self.written_bytes},
            "reused_attempt": self.reused_attempt,
            **CommitsReport.to_json(self),
        }
