"""Names of branches, their folders, and which branches read another one: options can name a branch.

Source: Paimon `BranchManager#validateBranch`, `AbstractFileStoreTable#deleteBranch`, `FileStoreTableFactory#create`,
`ChainTableUtils`.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from lakesweep.errors import RefusedError, UsageError, some_of
from lakesweep.format.values.json_document import shorten
from lakesweep.model.roots import MAIN, BranchListing, TableListing, branch_dir
from lakesweep.runs.session import Table
from lakesweep.storage.keys import is_key
from lakesweep.storage.store import StoredObject
from lakesweep.table.discover import sort_listing
from lakesweep.table.documents import read_schema

MAX_NAME_BYTES = 200
"""The name of a branch is part of a folder's name. Local file systems allow 255 bytes for that."""

BAD_NAME = "bad_branch_name"
EXISTS = "branch_exists"
NO_BRANCH = "no_such_branch"
IN_USE = "branch_in_use"
_OPTIONS = ("scan.fallback-branch", "scan.primary-branch")
_CHAIN_OPTIONS = ("scan.fallback-snapshot-branch", "scan.fallback-delta-branch")
"""Options of chain tables; Paimon ignores the case of their values."""


@dataclass(frozen=True, slots=True)
class BranchObjects:
    """All objects in a branch's folder."""

    objects: tuple[StoredObject, ...]
    own: BranchListing
    others: tuple[str, ...]
    """Branches whose folders lie inside this branch's folder: their names begin with its name and a slash."""


def check_new_name(name: str) -> None:
    """Refuse a name that no branch may have.

    Raises:
        UsageError: With code `bad_branch_name`.
    """
    _check_other_than_main(name)
    if rule := _rule(name):
        raise _bad_name(f"branch {shorten(repr(name))}: expected a name {rule}")


def check_known_name(name: str) -> None:
    """Refuse a name that no branch can have. Other programs may make branches that `check_new_name` would refuse.

    Raises:
        UsageError: With code `bad_branch_name`.
    """
    _check_other_than_main(name)
    if "/" in name or name in (".", "..") or not is_key(name):
        raise _bad_name(f"branch {shorten(repr(name))}: expected a name that a folder can have")


def check_on_main(table: Table, operation: str) -> None:
    """Refuse a call about another branch than main: a table has one list of branches, and branches are made from main.

    Raises:
        UsageError: The call is about another branch.
    """
    if table.ref.branch != MAIN:
        raise UsageError(
            f"{operation} works from {MAIN}; expected no other branch to be chosen, found {table.ref.branch!r}",
            code="bad_argument",
        )


def list_branch(table: Table, name: str) -> BranchObjects:
    """Return all objects in a branch's folder.

    Raises:
        RefusedError: A symbolic link takes the place of a folder of roots.
        StorageError: The listing failed.
    """
    objects = tuple(table.store.list(branch_dir(name)))
    listing = sort_listing(table.store.location, objects)
    own = listing.branches.get(name) or BranchListing(name)
    return BranchObjects(objects, own, tuple(each for each in listing.branches if each.startswith(f"{name}/")))


def no_such_branch(table: Table, name: str, there: Iterable[str]) -> RefusedError:
    """Return the error for a branch that does not exist."""
    known = some_of([shorten(repr(each)[1:-1]) for each in there if each != MAIN]) or "none"
    return RefusedError(
        f"table {table.ref}: no branch {shorten(repr(name))}; expected one of the existing branches ({known})",
        code=NO_BRANCH,
    )


def check_unused(table: Table, listing: TableListing, name: str) -> None:
    """Refuse a branch that the newest schema of another branch names: without it, readers of that branch would fail.

    Raises:
        RefusedError: With code `branch_in_use`; or the newest schema of a branch cannot be read.
        StorageError: A request failed.
    """
    for own in listing.branches.values():
        if own.name == name or (own.name != MAIN and not own.schemas):
            continue
        for option in _uses(read_schema(table.store, own).options, name):
            where = "the table" if own.name == MAIN else f"branch {own.name!r}"
            raise RefusedError(
                f"table {table.ref}: option {option} of {where} names branch {shorten(repr(name))}; expected a "
                "branch that no other branch reads, so unset that option first",
                code=IN_USE,
            )


def _check_other_than_main(name: str) -> None:
    if not name.strip():
        raise _bad_name("branch: expected a name, found none")
    if name == MAIN:
        raise _bad_name(f"branch {MAIN!r}: expected another name, since this is the table itself")


def _rule(name: str) -> str | None:
    """Return the rule that a name breaks, `None` for a valid name."""
    if "/" in name:
        return "without a slash, since it would lie in another folder"
    if any(unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Zl", "Zp") for sign in name):
        return "without control characters and others that cannot be seen"
    if name in (".", ".."):
        return "without a meaning for file systems"
    if name.isdecimal():
        return "that is not digits alone, since Paimon refuses such a branch"
    if len(name.encode("utf-8")) > MAX_NAME_BYTES:
        return f"of at most {MAX_NAME_BYTES} bytes"
    return None


def _bad_name(message: str) -> UsageError:
    return UsageError(message, code=BAD_NAME)


def _uses(options: Mapping[str, str], name: str) -> Iterator[str]:
    yield from (option for option in _OPTIONS if options.get(option) == name)
    yield from (option for option in _CHAIN_OPTIONS if options.get(option, "").lower() == name.lower())
