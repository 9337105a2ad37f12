"""Names of branches, and where a branch lies. Source: Paimon `BranchManager#validateBranch`."""

import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from lakesweep.errors import RefusedError, UsageError
from lakesweep.format.json_document import shorten
from lakesweep.model.roots import BranchListing
from lakesweep.model.table_ref import MAIN, branch_dir
from lakesweep.model.wording import some_of
from lakesweep.operations.context import Table
from lakesweep.storage.keys import is_key
from lakesweep.storage.store import StoredObject
from lakesweep.table.discover import sort_listing

MAX_NAME_BYTES = 200
"""A branch's name is part of a folder's name, of which local file systems take 255 bytes."""

BAD_NAME = "bad_branch_name"
EXISTS = "branch_exists"
NO_BRANCH = "no_such_branch"


@dataclass(frozen=True, slots=True)
class BranchObjects:
    """All that lies in a branch's folder."""

    objects: tuple[StoredObject, ...]
    own: BranchListing
    others: tuple[str, ...]
    """Branches whose folders lie inside this one's: their names begin with this one's and a slash."""


def check_new_name(name: str) -> None:
    """Refuse a name that no branch may have.

    Raises:
        UsageError: With code `bad_branch_name`.
    """
    _check_other_than_main(name)
    if rule := _rule(name):
        raise _bad_name(f"branch {shorten(repr(name))}: expected a name {rule}")


def check_known_name(name: str) -> None:
    """Refuse a name by which no branch can be meant. Others may have made one that `check_new_name` would refuse.

    Raises:
        UsageError: With code `bad_branch_name`.
    """
    _check_other_than_main(name)
    if "/" in name or name in (".", "..") or not is_key(name):
        raise _bad_name(f"branch {shorten(repr(name))}: expected a name that a folder can have")


def check_on_main(table: Table, operation: str) -> None:
    """Refuse a call about another branch than main: there is one list of branches, and new ones are made of main.

    Raises:
        UsageError: It is about another branch.
    """
    if table.ref.branch != MAIN:
        raise UsageError(
            f"{operation} works from {MAIN}; expected no other branch to be chosen, found {table.ref.branch!r}",
            code="bad_argument",
        )


def list_branch(table: Table, name: str) -> BranchObjects:
    """Return all that lies in a branch's folder.

    Raises:
        RefusedError: A symbolic link stands where roots live.
        StorageError: The listing failed.
    """
    objects = tuple(table.store.list(branch_dir(name)))
    listing = sort_listing(table.store.location, objects)
    own = listing.branches.get(name) or BranchListing(name)
    return BranchObjects(objects, own, _inside(name, listing.branches))


def no_such_branch(table: Table, name: str, there: Iterable[str]) -> RefusedError:
    """Return the error of a branch that is not there."""
    known = some_of([shorten(repr(each)[1:-1]) for each in there if each != MAIN]) or "none"
    return RefusedError(
        f"table {table.ref}: no branch {shorten(repr(name))}; expected one of those that are there ({known})",
        code=NO_BRANCH,
    )


def _inside(name: str, branches: Iterable[str]) -> tuple[str, ...]:
    return tuple(branch for branch in branches if branch.startswith(f"{name}/"))


def _check_other_than_main(name: str) -> None:
    if not name.strip():
        raise _bad_name("branch: expected a name, found none")
    if name == MAIN:
        raise _bad_name(f"branch {MAIN!r}: expected another one, since this is the table itself")


def _rule(name: str) -> str | None:
    """Say what a name should be that is not so, `None` for one that is fine."""
    if "/" in name:
        return "without a slash, since it would lie in another folder"
    if any(unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") for sign in name):
        return "without control characters and others that cannot be seen"
    if name in (".", ".."):
        return "without a meaning for file systems"
    if name.isdecimal():
        return "that is not digits alone, since the engine refuses such a branch"
    if len(name.encode("utf-8")) > MAX_NAME_BYTES:
        return f"of at most {MAX_NAME_BYTES} bytes"
    return None


def _bad_name(message: str) -> UsageError:
    return UsageError(message, code=BAD_NAME)
