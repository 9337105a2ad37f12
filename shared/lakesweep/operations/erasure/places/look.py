"""Look where the values of erased rows can still be. This needs no condition, only the files that had the rows.

A place is *there* if something in it certainly has such values, *gone* if nothing in it has any, and *unknown*
otherwise. A failed read is never an answer: the place becomes unknown, and says why.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import groupby

from lakesweep.errors import RefusedError
from lakesweep.model.commits.root_words import roots_in_words
from lakesweep.model.erasure.places import ErasedFiles, Kind, Place, State
from lakesweep.model.roots import MAIN, Root, RootRef
from lakesweep.operations.lifetimes.lifetimes import Until
from lakesweep.operations.rows.shown import untils_of
from lakesweep.runs.view import TableView
from lakesweep.table.documents import read_each_root
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.reach.holders import Holders

_ENDS: Mapping[str, str] = {"snapshot": "expire-snapshots", "changelog": "expire-changelogs", "tag": "delete-tag"}


def look(
    view: TableView, erased: ErasedFiles, *, erased_ms: int | None = None, keys: Collection[str] = ()
) -> tuple[Place, ...]:
    """Return every place where values of erased rows can be, and for each kind of place that they are gone from it.

    Args:
        view: The table, with all of its roots.
        erased: The files that had the rows.
        erased_ms: When the rows left the newest version, by the store's clock; `None`: not yet.
        keys: The partition keys that the condition names: the names of partitions are then such values, too.

    Raises:
        StorageError: A root could not be read, and was neither absent nor damaged.
    """
    refs = list(view.listing.roots())
    documents = read_each_root(view.table.store, refs)
    roots = [root for ref in refs if isinstance(root := documents[ref.path], Root)]
    unread = {ref.path for ref in refs if isinstance(documents[ref.path], RefusedError)}
    return tuple(_roots(view, erased, refs, roots, unread))


def _roots(
    view: TableView, erased: ErasedFiles, refs: Iterable[RootRef], roots: Iterable[Root], unread: Collection[str]
) -> Iterator[Place]:
    """Yield the roots that need a tainted file."""
    holders = Holders(MetadataReader(view.table.store, again=True), roots)
    sure = maybe = 0
    for mention in holders.mentions(lambda entry: entry.file_name in erased.names):
        if mention.entry.file_name in erased.holds:
            sure |= mention.needed_by
        else:
            maybe |= mention.needed_by
    there = {root.ref.path for root in holders.roots_in(sure)}
    gaps = {gap.root.ref.path for gap in holders.gaps} | set(unread)
    may = {root.ref.path for root in holders.roots_in(maybe)} | gaps
    chosen = [ref for ref in refs if ref.path in there or ref.path in may]
    untils = untils_of(
        view, {root.ref.path: root for root in holders.roots}, [r for r in chosen if r.path not in unread]
    )

    def alike(ref: RootRef) -> tuple[object, ...]:
        return ref.branch, ref.kind, ref.name if ref.kind == "tag" else "", ref.path in there, ref.path in gaps

    for _, group in groupby(chosen, key=alike):
        found = list(group)
        until = untils.get(found[-1].path)
        yield _place(
            found, until, "there" if found[-1].path in there else "unknown", is_read=found[-1].path not in gaps
        )
    kinds: tuple[Kind, ...] = ("snapshot", "changelog", "tag")
    for kind in kinds:
        if not any(ref.kind == kind for ref in chosen):
            yield Place(kind=kind, words=f"{kind}s", state="gone")


def _place(found: list[RootRef], until: Until | None, state: State, *, is_read: bool) -> Place:
    last = found[-1]
    why = None
    if state == "unknown":
        why = "it needs data files that could not be searched" if is_read else "it cannot be read as a whole"
    return Place(
        kind=last.kind,
        words=", ".join(roots_in_words(found)),
        state=state,
        count=len(found),
        paths=tuple(ref.path for ref in found[:5]),
        until=None if until is None else until.says,
        until_ms=None if until is None else until.at_ms,
        ends=_ENDS[last.kind] if last.branch == MAIN else f"{_ENDS[last.kind]} or delete-branch",
        why=why,
    )
