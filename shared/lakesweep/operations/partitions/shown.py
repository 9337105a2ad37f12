"""Which roots still show a partition that a commit takes out of the newest snapshot.

Its files stay while one of them does. A dry run says so, since "dropped" sounds like "deleted".
"""

from collections.abc import Collection, Iterable, Iterator
from itertools import groupby

from lakesweep.errors import FormatError, MaintenanceError, RefusedError, StorageError
from lakesweep.model.roots import MAIN, Root, RootRef
from lakesweep.operations.partitions.contents import Contents
from lakesweep.runs.view import TableView
from lakesweep.table.documents import read_roots, read_schema


def roots_that_show(view: TableView, contents: Contents, rows: Collection[bytes]) -> tuple[str, ...]:
    """Return the snapshots, tags, changelogs and branches that show some of the partitions, as words.

    A root that cannot be read may show them, and is named. The newest snapshot of the branch is left out if it is older
    than the commit only by being its base; it stays until it expires, like the others.

    Raises:
        StorageError: A request failed.
    """
    rows = frozenset(rows)
    found = [ref for ref in view.listing.roots() if _shows(view, contents, ref, rows)]
    return tuple(_in_words(found))


def _shows(view: TableView, contents: Contents, ref: RootRef, rows: frozenset[bytes]) -> bool:
    try:
        documents = read_roots(view.table.store, [ref])
        if not documents.roots:
            return False  # it vanished since it was listed
        return _names(contents, documents.roots[0], rows, is_alike=_is_alike(view, ref.branch))
    except StorageError:
        raise
    except MaintenanceError:
        return True


def _names(contents: Contents, root: Root, rows: frozenset[bytes], *, is_alike: bool) -> bool:
    partitions = contents.read(root.snapshot).partitions()
    if not is_alike:
        return any(facts.files for facts in partitions)
    return any(facts.files and facts.row in rows for facts in partitions)


def _is_alike(view: TableView, branch: str) -> bool:
    """Tell whether a branch has the partition keys of this one, so that their partitions can be compared."""
    if branch == view.own.name:
        return True
    try:
        schema = read_schema(view.table.store, view.listing.branches[branch])
    except (FormatError, RefusedError):
        return False
    return (schema.partition_keys, _roots(schema.partition_types)) == (
        view.schema.partition_keys,
        _roots(view.schema.partition_types),
    )


def _roots(types: Iterable[object]) -> tuple[object, ...]:
    return tuple(getattr(each, "root", None) for each in types)


def _in_words(refs: Iterable[RootRef]) -> Iterator[str]:
    for (branch, kind), group in groupby(refs, key=lambda ref: (ref.branch, ref.kind)):
        of = "" if branch == MAIN else f" of branch {branch}"
        same = list(group)
        if kind == "tag":
            yield from (f"tag {ref.name}{of}" for ref in same)
            continue
        for first, last in _ranges([ref.id for ref in same]):
            yield f"{kind} {first}{of}" if first == last else f"{kind}s {first} to {last}{of}"


def _ranges(ids: list[int]) -> Iterator[tuple[int, int]]:
    first = last = ids[0]
    for number in ids[1:]:
        if number != last + 1:
            yield first, last
            first = number
        last = number
    yield first, last
