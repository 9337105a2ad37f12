"""The calls of the operations on branches and of a rollback: rules that hold between their parameters."""

from lakesweep.errors import UsageError
from lakesweep.operations.branches.as_latest.task import AsLatestArguments
from lakesweep.operations.branches.create import BranchArguments
from lakesweep.operations.branches.rollback import RollbackArguments
from lakesweep.operations.tags.call import version_of
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.parameters import signatures as given
from lakesweep.runs.parameters.commits import CATALOG
from lakesweep.runs.parameters.parameter import OPTIONS, Call
from lakesweep.runs.parameters.partitions import FALLBACK_REAPPEARS
from lakesweep.runs.parameters.time_travel import Version

_OF_COMMITS = (*CATALOG, FALLBACK_REAPPEARS, OPTIONS)


def to_rollback(call: Call) -> RollbackArguments:
    """Return the arguments of `rollback`.

    Raises:
        UsageError: The call names no target, or more than one.
    """
    for parameter in _OF_COMMITS:
        if call[parameter]:
            raise UsageError(f"{parameter.name}: expected it with as_latest alone", code="bad_argument")
    return RollbackArguments(_target(call), call[given.LOSE_TAG])


def to_as_latest(call: Call, catalog: Catalog) -> AsLatestArguments:
    """Return the arguments of `rollback` with `as_latest`.

    Args:
        call: The call.
        catalog: What the call or the fleet policy declares.

    Raises:
        UsageError: The call names no target, or more than one, or gives up tags.
    """
    if call[given.LOSE_TAG]:
        raise UsageError("lose_tag: expected none with as_latest, which deletes no tag", code="bad_argument")
    return AsLatestArguments(_target(call), catalog, call[FALLBACK_REAPPEARS], call[OPTIONS])


def _target(call: Call) -> Version:
    version = version_of(call, call[given.TAG])
    stated = version.given()
    if len(stated) != 1:
        raise UsageError(
            "rollback: expected exactly one of snapshot, tag, version, timestamp and watermark, found "
            f"{' and '.join(stated) or 'none'}",
            code="bad_argument",
        )
    return version


def to_create(call: Call) -> BranchArguments:
    """Return the arguments of `create-branch`.

    Raises:
        UsageError: The call gives no name, or two sources.
    """
    if call[given.TAG] is not None and call[given.SNAPSHOT] is not None:
        raise UsageError("create-branch: expected at most one of tag and snapshot, found both", code="bad_argument")
    return BranchArguments(name_of(call), call[given.TAG], call[given.SNAPSHOT])


def to_forward(call: Call) -> tuple[str, tuple[str, ...]]:
    """Return the branch of a `fast-forward`, and the tags that the caller gives up.

    Raises:
        UsageError: The call gives no name.
    """
    return name_of(call), call[given.LOSE_TAG]


def name_of(call: Call) -> str:
    """Return the name of the branch.

    Raises:
        UsageError: The call gives none.
    """
    name = call[given.BRANCH]
    if name is None:
        raise UsageError("branch: expected the name of a branch, found none", code="bad_argument")
    return name
