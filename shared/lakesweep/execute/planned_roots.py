"""Roots built from the documents in a plan, whether or not they lie in the table."""

from collections.abc import Iterable, Iterator

from lakesweep.format.changelog import parse_changelog
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.format.tag import parse_tag
from lakesweep.model.plan import Action, Put, to_bytes
from lakesweep.model.roots import Root, RootKind, RootRef
from lakesweep.model.table_ref import branch_dir

ROOT_KINDS = frozenset({"snapshot", "changelog_document", "tag"})
"""Kinds of actions on roots."""


def roots_to_write(branch: str, actions: Iterable[Action]) -> Iterator[Root]:
    """Yield the roots that some actions write.

    Raises:
        FormatError: The body of an action is not such a document.
    """
    for action in actions:
        if isinstance(action, Put) and action.kind in ROOT_KINDS:
            yield root_of(branch, action.path, to_bytes(action.body))


def root_of(branch: str, path: str, body: bytes) -> Root:
    """Build the root that a document describes.

    Args:
        branch: The branch whose folder holds the document.
        path: Of the document.
        body: Its content.

    Raises:
        FormatError: The content is not such a document.
    """
    folder, _, file = path.removeprefix(branch_dir(branch)).partition("/")
    kinds: dict[str, RootKind] = {"snapshot": "snapshot", "changelog": "changelog"}
    kind = kinds.get(folder, "tag")
    parse = parse_changelog if kind == "changelog" else parse_snapshot
    snapshot = parse_tag(body, path).snapshot if kind == "tag" else parse(body, path)
    return Root(RootRef(branch, kind, file.removeprefix(f"{kind}-"), path, "", len(body)), snapshot, body)
