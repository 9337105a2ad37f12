"""The tags of rollbacks as latest: whose they are, and which of them stay.

A run tags its target, commits, and tags its snapshot. So a run with one tag is at work, or has committed nothing, or
died after its commit, or somebody has deleted the other tag.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from lakesweep.format.tag import parse_tag
from lakesweep.model.roots import BranchListing, Root
from lakesweep.operations.tags.rules.expiry import ROLLBACK_PREFIX

_RUN = "(?P<run>(?P<time>[0-9]{8}T[0-9]{6})Z-[0-9a-f]{8})"
_NAME = re.compile(rf"{ROLLBACK_PREFIX}(?P<id>0|[1-9][0-9]{{0,18}})-{_RUN}")
"""Names that Lakesweep gives. Paimon's have another end."""
_USER = re.compile(rf"lakesweep-{_RUN}-[0-9]+(-[0-9]+)?")
"""See `CommitEnvironment.commit_user`."""


@dataclass(frozen=True, slots=True)
class TagName:
    """What the name of a tag says."""

    snapshot_id: int
    run_id: str
    begun_ms: int
    """When the run began."""

    def __str__(self) -> str:
        return tag_name(self.snapshot_id, self.run_id)


def tag_name(snapshot_id: int, run_id: str) -> str:
    """Return the name of the tag that a run makes of a snapshot."""
    return f"{ROLLBACK_PREFIX}{snapshot_id}-{run_id}"


def parse_name(name: str) -> TagName | None:
    """Return what a name says, `None` if no run of Lakesweep gave it."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    try:
        begun = datetime.strptime(match["time"], "%Y%m%dT%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        return None
    return TagName(int(match["id"]), match["run"], int(begun.timestamp()) * 1000)


def single_tags(names: Iterable[str]) -> Mapping[str, TagName]:
    """Return run id -> its tag, for each run that has one tag."""
    parsed = [found for name in names if (found := parse_name(name)) is not None]
    runs = [each.run_id for each in parsed]
    return {each.run_id: each for each in parsed if runs.count(each.run_id) == 1}


def run_of(root: Root) -> str | None:
    """Return the run that committed a version, `None` if none of Lakesweep did."""
    match = _USER.fullmatch(root.snapshot.commit_user)
    return None if match is None else match["run"]


def staying(roots: Collection[Root]) -> frozenset[int]:
    """Return the snapshot ids of the tags that stay until a person deletes them.

    A run that commits nothing deletes its tag, or a later run does. So a single tag stays only if a version shows that
    its run has committed. A tag with a time to live does not stay.

    Args:
        roots: All snapshots and tags of a branch.
    """
    tags = [root for root in roots if root.ref.kind == "tag" and root.ref.name.startswith(ROLLBACK_PREFIX)]
    single = single_tags(root.ref.name for root in tags)
    unsure = {str(single[run]) for run in single.keys() - {run_of(root) for root in roots}}
    return frozenset(
        root.snapshot.id
        for root in tags
        if root.ref.name not in unsure and parse_tag(root.body, root.ref.path).time_retained_ns is None
    )


def is_second(root: Root) -> bool:
    """Tell whether a tag is that of the snapshot which its own run committed."""
    name = parse_name(root.ref.name)
    return name is not None and run_of(root) == name.run_id


def changed_warnings(name: str) -> tuple[str, ...]:
    """Warn if a tag that gets another name or snapshot belongs to a rollback."""
    return (f"{_belongs(name)}; make another tag, and keep this one",) if name.startswith(ROLLBACK_PREFIX) else ()


def _belongs(name: str) -> str:
    return f"tag {name} belongs to a rollback as latest: without it Paimon's expiry may delete files that came back"


def needed_warnings(own: BranchListing, tags: Mapping[str, Root], going: Iterable[str]) -> Iterator[str]:
    """Warn of tags that are to be deleted although Paimon's expiry still goes by them.

    Args:
        own: The branch.
        tags: Its tags by name.
        going: The names of those to delete.
    """
    going = frozenset(going)
    for name in sorted(going & tags.keys()):
        if not name.startswith(ROLLBACK_PREFIX):
            continue
        found = parse_name(name)
        others = [root for root in tags.values() if found and found.run_id in root.ref.name]
        commit = next((root.snapshot.id for root in others if is_second(root)), None)
        before = [ref for ref in (*own.snapshots, *own.changelogs) if commit is None or ref.id < commit]
        before += [
            root.ref
            for root in tags.values()
            if root.ref.name not in going and root not in others and (commit is None or root.snapshot.id < commit)
        ]
        if before:
            since = "" if commit is None else f" from before snapshot {commit}"
            yield (
                f"{_belongs(name)}. It may go once no snapshot, changelog or other tag{since} is left; there are "
                f"{len(before)}, such as {before[0]}"
            )
