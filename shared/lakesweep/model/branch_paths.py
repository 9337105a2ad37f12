"""Paths of the documents of branches other than main. The name of a branch or a tag may contain slashes."""

import re

_NUMBERED = re.compile(
    r"branch/branch-(.+)/((?:snapshot/(?:snapshot-[0-9]+|EARLIEST|LATEST)"
    r"|changelog/(?:changelog-[0-9]+|EARLIEST|LATEST)|schema/schema-[0-9]+))",
    re.DOTALL,
)
_NAMED = re.compile(r"branch/branch-(.+?)/((?:tag|consumer)/(?:tag|consumer)-.+)", re.DOTALL)
"""A branch `a/snapshot` has its snapshots below `branch/branch-a/snapshot/snapshot/`."""


def split_branch(path: str) -> tuple[str, str] | None:
    """Return the branch of a document, and the document's path below the branch's folder.

    `None`: it belongs to main, or is no snapshot, changelog, schema, tag, consumer or hint.
    """
    match = _NUMBERED.fullmatch(path) or _NAMED.fullmatch(path)
    return None if match is None else (match[1], match[2])
