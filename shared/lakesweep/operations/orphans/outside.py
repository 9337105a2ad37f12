"""External roots in a scan: whether files below them may be deleted, and what the plan tells about them."""

import re
from collections.abc import Sequence

from lakesweep.errors import RefusedError
from lakesweep.format.schema import TableSchema
from lakesweep.operations.orphans.rules.orphans import Totals
from lakesweep.runs.allowance import allowing, fence_rules
from lakesweep.runs.session import Table
from lakesweep.table.fence import Fence

Outside = tuple[dict[str, object], str]
"""The facts about an external root, and a warning, which may be empty."""
_TABLE = re.compile(r"(?:.+/)?(?:schema|snapshot)/.+", re.DOTALL)
"""A key below an external root that shows that a table lies there."""


def refuse_owned(table: Table, schemas: Sequence[tuple[str, TableSchema]], owned: Sequence[str]) -> None:
    """Refuse an owned root below which nothing may be deleted. The listing later shows whether it holds other tables.

    Raises:
        RefusedError: There is such a root.
    """
    # The caller who declares a root as owned also allows deletions there, within the limits of a deployment.
    fence = Fence(table.store.location, fence_rules(allowing(table, owned), schemas), table.open_store)
    for root in owned:
        stay = fence.refusal(root)
        if stay is not None:
            raise RefusedError(f"table {table.ref}: owned root {root}: {stay.why}", code=stay.code)


def refuse_table(table: str, location: str, key: str) -> None:
    """Refuse an owned external root if a key shows that it holds another table.

    Raises:
        RefusedError: The key shows that.
    """
    if _TABLE.fullmatch(key):
        raise RefusedError(
            f"table {table}: {location}/{key} belongs to another table; expected that an owned root holds "
            "files of this table alone",
            code="owned_root_holds_tables",
        )


def told_of_outside(
    location: str, totals: Totals, others: Sequence[int], *, is_owned: bool, problem: str | None = None
) -> Outside:
    """Return the report on an external root.

    Args:
        location: The location of the root.
        totals: The objects below it.
        others: The number and bytes of files below it that no root of this table names, if other tables may use it.
        is_owned: It holds files of this table alone.
        problem: Why it could not be listed.
    """
    facts: dict[str, object] = {"location": location, "owned": is_owned}
    if problem is not None:
        return {**facts, "problem": problem}, f"external root {location} could not be listed: {problem}"
    if is_owned:
        return facts, ""
    count, size_bytes = others
    facts |= {
        "live": totals.kept["live"],
        "not_referred_to": count,
        "not_referred_to_bytes": size_bytes,
        "other": totals.objects - totals.kept["live"] - count,
    }
    told = f"{count} objects below {location} are kept: this table names none of them, but another may; "
    return facts, (told + "--owned-external says that the root is this table's alone") if count else ""
