"""Which branches read another branch: options can name a branch that readers use in addition.

Source: Paimon `AbstractFileStoreTable#deleteBranch`, `FileStoreTableFactory#create`, `ChainTableUtils`.
"""

from collections.abc import Iterator, Mapping

from lakesweep.errors import RefusedError
from lakesweep.format.values.json_document import shorten
from lakesweep.model.roots import TableListing
from lakesweep.model.table_ref import MAIN
from lakesweep.runs.session import Table
from lakesweep.table.documents import read_schema

IN_USE = "branch_in_use"
_OPTIONS = ("scan.fallback-branch", "scan.primary-branch")
_CHAIN_OPTIONS = ("scan.fallback-snapshot-branch", "scan.fallback-delta-branch")
"""Options of chain tables; Paimon ignores the case of their values."""


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


def _uses(options: Mapping[str, str], name: str) -> Iterator[str]:
    yield from (option for option in _OPTIONS if options.get(option) == name)
    yield from (option for option in _CHAIN_OPTIONS if options.get(option, "").lower() == name.lower())
