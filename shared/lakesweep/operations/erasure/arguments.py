"""The arguments of `erase`."""

from dataclasses import dataclass, field

from lakesweep.operations.rows.arguments import DeleteRowsArguments
from lakesweep.runs.committing.catalog import Catalog


@dataclass(frozen=True, slots=True)
class EraseArguments:
    """The arguments of `erase`."""

    rows: DeleteRowsArguments | None
    """The rows; `None`: only what an earlier run has left is to be finished."""
    finish: str | None = None
    """The erasure to continue: what may expire expires, and all places are looked at again."""
    catalog: Catalog = field(default_factory=Catalog)
