"""Which table, and which branch of it."""

import re
from dataclasses import dataclass

from lakesweep.errors import UsageError

MAIN = "main"
"""The branch whose documents lie directly below the table's root."""
_OF_BRANCH = re.compile(r"(?P<table>.+)/branch/branch-(?P<name>[^/]+)", re.DOTALL)
"""The folder of a branch."""


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table by its location.

    The location is normalised (`s3://bucket/prefix` or an absolute path, no trailing slash). So one table has one name,
    and two maintainers meet at one lease.
    """

    location: str
    branch: str = MAIN

    def __str__(self) -> str:
        return self.location if self.branch == MAIN else f"{self.location}$branch_{self.branch}"


def branch_dir(branch: str) -> str:
    """Return the folder of a branch's own documents, relative to the table root, `""` for main."""
    return "" if branch == MAIN else f"branch/branch-{branch}/"


def check_whole(location: str) -> None:
    """Refuse the folder of a branch as a table: it looks like a table that has lost its files.

    A run on this folder would not meet the table's other maintainers at one lease.

    Args:
        location: The normalised location from the caller.

    Raises:
        UsageError: It is the folder of a branch.
    """
    if found := _OF_BRANCH.fullmatch(location):
        raise UsageError(
            f"{location}: expected a table, found the folder of its branch {found['name']!r}; give the table, "
            f"{found['table']}, and the branch by name"
        )
