"""Which roots still show a partition that a commit takes out of the newest snapshot.

Its files stay while one of them does. A dry run says so, since "dropped" sounds like "deleted".
"""

from collections.abc import Callable, Iterable
from contextlib import suppress

from lakesweep.errors import FormatError, RefusedError
from lakesweep.model.commits.root_words import roots_in_words
from lakesweep.model.partitions.expiry import PartitionFacts
from lakesweep.model.roots import MAIN, Root, RootRef
from lakesweep.runs.view import TableView
from lakesweep.table.contents.contents import Contents
from lakesweep.table.documents import read_each_root, read_schema


def roots_that_show(view: TableView, contents: Contents, is_meant: Callable[[PartitionFacts], bool]) -> tuple[str, ...]:
    """Return the snapshots, tags, changelogs and branches that show some of the partitions, as words.

    A root that cannot be read may show them, and is named. So is one of a branch with other partition keys, if it has
    any files. The branch of the call comes first.

    Args:
        view: The table.
        contents: Reads the partitions of snapshots.
        is_meant: Tells whether a partition is one of those.

    Raises:
        StorageError: A request failed.
    """
    own = (view.own.name, MAIN)
    refs = sorted(view.listing.roots(), key=lambda ref: own.index(ref.branch) if ref.branch in own else len(own))
    documents = read_each_root(view.table.store, refs)
    with suppress(RefusedError):  # then each root is looked at by itself
        contents.fetch(root.snapshot for root in documents.values() if isinstance(root, Root))
    alike = {branch: _is_alike(view, branch) for branch in {ref.branch for ref in refs}}

    def shows(ref: RootRef) -> bool:
        root = documents[ref.path]
        if not isinstance(root, Root):
            return root is not None
        try:
            partitions = contents.read(root.snapshot).partitions()
        except RefusedError:
            return True
        return any(facts.files and (is_meant(facts) or not alike[ref.branch]) for facts in partitions)

    return tuple(roots_in_words(ref for ref in refs if shows(ref)))


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
