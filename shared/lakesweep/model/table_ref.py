"""Which table, and which branch of it."""

from dataclasses import dataclass

MAIN = "main"
"""The branch whose documents lie directly below the table's root."""


@dataclass(frozen=True, slots=True)
class TableRef:
    """A table by its location.

    The location is normalised (`s3://bucket/prefix` or an absolute path, no closing slash), so that one table has one
    name and two maintainers meet at one lease.
    """

    location: str
    branch: str = MAIN

    def __str__(self) -> str:
        return self.location if self.branch == MAIN else f"{self.location}$branch_{self.branch}"


def branch_dir(branch: str) -> str:
    """Return the folder of a branch's own documents, relative to the table root, `""` for main."""
    return "" if branch == MAIN else f"branch/branch-{branch}/"
