"""The external roots of a table: the objects there, and which of them the table may delete.

External paths contain neither database nor table. So two tables may write into the same folders, and files of one look
like orphans to the other. The caller says which roots belong to this table alone. In all other roots, Lakesweep only
counts the files that this table does not refer to.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lakesweep.errors import FormatError, RefusedError, UsageError
from lakesweep.format.values.uri import normalise_uri
from lakesweep.model.paths.file_class import FileClass, FileClasses
from lakesweep.model.paths.known_files import NO_SUCH_NAME
from lakesweep.storage.location import parse_location

_SPREAD = re.compile(r"(?P<bucket>(?:.*/)?bucket-[^/]+/)[01]{4}/[01]{4}/[01]{4}/[01]{8}/(?P<name>[^/]+)", re.DOTALL)
"""With the strategy `entropy-inject`, Paimon spreads names over folders below a bucket."""
_KINDS = frozenset({"data", "extra", "changelog", "index"})


@dataclass(frozen=True, slots=True)
class OutsideRoot:
    """One external root."""

    location: str
    """Normalised, without a trailing slash."""
    is_owned: bool


def outside_roots(table: str, declared: Iterable[str], owned: Iterable[str]) -> Iterator[OutsideRoot]:
    """Yield the external roots to list. A root inside the table is skipped, since the table's listing contains it.

    Args:
        table: Location of the table.
        declared: Roots that any schema of any branch declares.
        owned: Roots that the caller says belong to this table alone.

    Raises:
        UsageError: An owned root is no valid location, or no schema declares it.
        RefusedError: The table itself lies in an owned root.
    """
    declared = tuple(declared)
    try:
        mine = {normalise_uri(each).rstrip("/") for each in owned}
    except FormatError as error:
        raise UsageError(f"owned_external: {error}", code="bad_argument") from error
    for each in sorted(mine - set(declared)):
        raise UsageError(
            f"owned_external: expected an external root that a schema of {table} declares, found {each}",
            code="bad_argument",
        )
    for each in declared:
        try:
            place, home = parse_location(each), parse_location(table)
        except UsageError:
            yield OutsideRoot(each, False)
            continue
        if home.contains(place):
            continue
        if place.contains(home) and each in mine:
            raise RefusedError(
                f"table {table}: it lies inside the external root {each}; expected an owned root apart from it, since "
                "other tables lie there as well",
                code="owned_root_holds_tables",
            )
        yield OutsideRoot(each, each in mine)


def classify_outside(classes: FileClasses, key: str) -> FileClass:
    """Return the class of an object below an external root: data files in bucket folders, and index files."""
    match = _SPREAD.fullmatch(key)
    plain = match["bucket"] + match["name"] if match else key
    found = classes.classify(f"index/{plain}" if "/" not in plain else plain)
    return found if found.kind in _KINDS or found.policy != "delete" else NO_SUCH_NAME
