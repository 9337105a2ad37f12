"""The arguments of the operations on branches, and of a rollback."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lakesweep.errors import UsageError
from lakesweep.operations.branches import create as create_branch
from lakesweep.operations.branches import delete as delete_branch
from lakesweep.operations.branches import fast_forward, rollback
from lakesweep.operations.branches.create import BranchArguments
from lakesweep.operations.branches.rollback import RollbackArguments
from lakesweep.runs.parameters.call_values import texts_of, version_of, words_of
from lakesweep.runs.parameters.time_travel import Version

BRANCH_ARGUMENTS: Mapping[str, frozenset[str]] = {
    rollback.OPERATION: frozenset({"snapshot", "tag", "version", "timestamp", "watermark", "lose_tag"}),
    create_branch.OPERATION: frozenset({"branch", "tag", "snapshot"}),
    delete_branch.OPERATION: frozenset({"branch"}),
    fast_forward.OPERATION: frozenset({"branch", "lose_tag"}),
}
"""The arguments that callers may give, by operation."""


@dataclass(frozen=True, slots=True)
class BranchCall:
    """The arguments of one call. Each is checked as far as possible without the others."""

    branch: str | None = None
    version: Version = field(default_factory=Version)
    lost_tags: tuple[str, ...] = ()

    def to_rollback(self) -> RollbackArguments:
        """Return the arguments of `rollback`.

        Raises:
            UsageError: The call names no target, or more than one.
        """
        given = self.version.given()
        if len(given) != 1:
            raise UsageError(
                "rollback: expected exactly one of snapshot, tag, version, timestamp and watermark, found "
                f"{' and '.join(given) or 'none'}",
                code="bad_argument",
            )
        return RollbackArguments(self.version, self.lost_tags)

    def to_create(self) -> BranchArguments:
        """Return the arguments of `create_branch`.

        Raises:
            UsageError: The call gives no name, or two sources.
        """
        if self.version.tag is not None and self.version.snapshot_id is not None:
            raise UsageError("create_branch: expected at most one of tag and snapshot, found both", code="bad_argument")
        return BranchArguments(self.name(), self.version.tag, self.version.snapshot_id)

    def name(self) -> str:
        """Return the name of the branch.

        Raises:
            UsageError: The call gives none.
        """
        if self.branch is None:
            raise UsageError("branch: expected the name of a branch, found none", code="bad_argument")
        return self.branch


def branch_call(given: Mapping[str, object]) -> BranchCall:
    """Read the arguments of an operation on branches.

    Raises:
        UsageError: A value is invalid.
    """
    return BranchCall(
        branch=words_of(given, "branch"),
        version=version_of(given),
        lost_tags=texts_of(given.get("lose_tag", ()), "lose_tag"),
    )
