"""What a task that merges gets, and what it returns."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.format.entry_writer import NewDataFile
from lakesweep.format.schema import TableSchema
from lakesweep.model.keyed import MergeRules
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.operations.writing.options import Writing


@dataclass(frozen=True, slots=True)
class MergeWork:
    """What all jobs of a run share. It pickles."""

    plan: ReadPlan
    """Without splits and condition, with all columns in the order of the schema."""
    schema: TableSchema
    """The latest schema of the branch."""
    rules: MergeRules
    writing: Writing
    """How data files are written."""
    creation_time_ms: int
    """See `NewDataFile`."""


@dataclass(frozen=True, slots=True)
class MergedJob:
    """What became of one job. It pickles small."""

    files: tuple[NewDataFile, ...]
    """The new data files, ascending by key. None: every row was deleted, or the one file stays."""
    marks: Mapping[str, bytes] = field(repr=False)
    """Name of a deeper data file -> the positions of the rows that newer ones replace, as the bytes of a deletion
    vector (`read_vector`). Rows that its vector deleted before are not among them."""
    marked: int
    """So many rows."""
    rows_read: int
    """Of the merged files, without those that a vector deletes."""
    rows: int
    """Of the new files."""
    is_upgraded: bool = False
    """The one file stays as it is, and only changes its level."""
