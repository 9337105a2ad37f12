"""Whether this process has time for a commit: a function is stopped in the end, a machine is not."""

from lakesweep.errors import RefusedError
from lakesweep.runs.session import Table

TOO_LARGE = "too_large_for_function"
"""Code of a commit for which a function has no time."""


def check_entries(table: Table, operation: str, manifests: int, entries: int) -> None:
    """Make sure that this process has time to read the entries that a commit depends on.

    Args:
        table: The table.
        operation: The name of the operation.
        manifests: The number of manifests.
        entries: The number of their entries to read.

    Raises:
        RefusedError: It has not (`too_large_for_function`).
    """
    if table.most_entries is not None and entries > table.most_entries:
        raise RefusedError(
            f"table {table.ref}: its {manifests} manifests have {entries} entries to read, too many for a function; "
            f"expected {table.most_entries} at most, or `lakesweep {operation} TABLE --execute` on a machine without a "
            "time limit",
            code=TOO_LARGE,
        )
