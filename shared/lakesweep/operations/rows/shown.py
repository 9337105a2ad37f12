"""Which roots still show rows that a deletion takes out of the newest snapshot, and until when.

A root *shows* rows if its readers open a data file with some of them, and the file's deletion vector there leaves one.
It *may show* rows in three cases:

- The newest snapshot has the data file no more, and statistics do not rule the condition out: a compaction copied its
  rows, for example.
- The newest snapshot has the data file with another vector, so rows were deleted since.
- A part of the root cannot be read.

Data files that no root names are not looked at.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError
from lakesweep.model.commits.root_words import roots_in_words
from lakesweep.model.commits.shown import ShownBy
from lakesweep.model.roots import MAIN, Root, RootRef
from lakesweep.operations.lifetimes.lifetimes import Lifetimes
from lakesweep.operations.lifetimes.until import Until
from lakesweep.operations.rows.roots import RowsInRoots
from lakesweep.operations.rows.search import Found
from lakesweep.runs.view import TableView
from lakesweep.table.documents import read_each_root


def roots_that_show(view: TableView, found: Found) -> tuple[ShownBy, ...]:
    """Return the roots of all branches that show some rows, or may show some; the branch of the call first.

    The newest snapshot is among them: it becomes an older one.

    Args:
        view: The table, with all of its roots.
        found: What the newest snapshot of the branch has.

    Raises:
        StorageError: A request failed.
    """
    own = (view.own.name, MAIN)
    refs = sorted(view.listing.roots(), key=lambda ref: own.index(ref.branch) if ref.branch in own else len(own))
    documents = read_each_root(view.table.store, refs)
    roots = [root for ref in refs if isinstance(root := documents[ref.path], Root)]
    unread = {ref.path for ref in refs if isinstance(documents[ref.path], RefusedError)}
    search = RowsInRoots(view, found.plan, {match.file.path: match for match in found.matches}, roots)
    shows, may_show = search.showing, search.maybe_showing | unread
    chosen = [ref for ref in refs if ref.path in shows or ref.path in may_show]
    untils = untils_of(view, {root.ref.path: root for root in roots}, [ref for ref in chosen if ref.path not in unread])
    return tuple(_grouped(chosen, shows, untils))


def _grouped(refs: Iterable[RootRef], shows: frozenset[str], untils: Mapping[str, Until]) -> Iterator[ShownBy]:
    def alike(ref: RootRef) -> tuple[object, ...]:
        return ref.branch, ref.kind, ref.name if ref.kind == "tag" else "", ref.path in shows

    for _, group in groupby(refs, key=alike):
        found = list(group)
        last = found[-1]
        until = untils.get(last.path)
        yield ShownBy(
            roots=", ".join(roots_in_words(found)),
            branch=last.branch,
            kind=last.kind,
            count=len(found),
            is_certain=last.path in shows,
            until=None if until is None else until.says,
            until_ms=None if until is None else until.at_ms,
        )


def untils_of(view: TableView, roots: Mapping[str, Root], refs: Sequence[RootRef]) -> dict[str, Until]:
    """Return path -> how long the root is kept, without those of which this is not known."""
    lifetimes = Lifetimes(view.table, view.listing, roots, view.now_ms)
    found: dict[str, Until] = {}
    for _, group in groupby(refs, key=lambda ref: (ref.branch, ref.kind)):
        same = list(group)
        try:
            found |= lifetimes.of(same)
        except (RefusedError, ObjectNotFoundError, FormatError):
            found |= {} if len(same) == 1 else untils_of(view, roots, same[:1]) | untils_of(view, roots, same[1:])
    return found
