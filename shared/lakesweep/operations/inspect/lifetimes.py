"""How long a root is kept by its branch's options, given the present consumers and tags.

The answer is one clause, with a time if one is known.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, tzinfo
from fnmatch import fnmatchcase

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.names import consumer_id_of
from lakesweep.format.tag import Tag
from lakesweep.format.values.zone import latest_ms
from lakesweep.model.policy import ChangelogRetention, KeepRules, SnapshotRetention
from lakesweep.model.roots import MAIN, BranchListing, DocumentRef, Root, RootRef, TableListing, branch_dir
from lakesweep.operations.retention.rules.due import Due, changelogs_due, snapshots_due
from lakesweep.operations.tags.options import declared_zone, expires_by_time
from lakesweep.operations.tags.rules.expiry import NO_END, ROLLBACK_PREFIX, end_of_life
from lakesweep.runs.fleet import rule_of, ruling_of
from lakesweep.runs.parameters.retention_options import (
    ExpireArguments,
    changelog_retention,
    consumers_bind_changelogs_only,
    is_stated,
    snapshot_retention,
)
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table
from lakesweep.table.documents import TagDocument, read_consumers, read_schema, read_tags


@dataclass(frozen=True, slots=True)
class Until:
    """How long a root is kept."""

    says: str
    """Follows "it stays": one clause, without a full stop."""
    at_ms: int | None = None
    """The time in the clause: after it, age alone would let the root expire."""
    is_due: bool = False
    """The next expiry deletes it."""
    is_held: bool = False
    """Only a consumer keeps it."""


NEVER = Until("for as long as the table")


@dataclass(frozen=True, slots=True)
class _Branch:
    """The rules of a branch."""

    snapshots: Mapping[int, Until] = field(default_factory=dict)
    changelogs: Mapping[int, Until] = field(default_factory=dict)
    expires_tags: bool = True


def _for_all(own: BranchListing, until: Until) -> _Branch:
    """Return one answer for all snapshots and changelogs of a branch."""
    return _Branch({ref.id: until for ref in own.snapshots}, {ref.id: until for ref in own.changelogs})


class Lifetimes:
    """How long each root of a table is kept."""

    def __init__(self, table: Table, listing: TableListing, roots: Mapping[str, Root], now_ms: int) -> None:
        """Read nothing yet.

        Args:
            table: Any branch of it.
            listing: All existing roots.
            roots: By path; the roots of `listing`, except vanished ones.
            now_ms: The time that decides what is due.
        """
        self._table = table
        self._listing = listing
        self._roots = roots
        self._now_ms = now_ms
        self._branches: dict[str, _Branch] = {}
        self._of_tags: tuple[tzinfo | None, tuple[KeepRules, ...]] | None = None
        """The zone of creation times, and the calendar rules; `None`: not read yet."""
        self.warnings: list[str] = []

    def of_snapshots(self, branch: str) -> Mapping[int, Until]:
        """Return id -> how long the snapshot is kept, for all snapshots of a branch.

        Raises:
            RefusedError: A schema or consumer of the branch cannot be read.
        """
        return self._rules(branch).snapshots

    def of(self, refs: Iterable[RootRef]) -> dict[str, Until]:
        """Return path -> how long the root is kept. Reads each tag.

        Raises:
            RefusedError: A document cannot be read.
            StorageError: A request failed.
        """
        refs = tuple(refs)
        found: dict[str, Until] = {}
        for ref in refs:
            if ref.kind == "tag":
                continue
            rules = self._rules(ref.branch)
            until = (rules.snapshots if ref.kind == "snapshot" else rules.changelogs).get(ref.id, NEVER)
            found[ref.path] = _or_branch(until, ref.branch)
        for ref, document in read_tags(self._table.store, [ref for ref in refs if ref.kind == "tag"]):
            if not isinstance(document, TagDocument):
                raise document
            until = self._of_tag(ref.name, document.tag, expires=self._rules(ref.branch).expires_tags)
            found[ref.path] = _or_branch(until, ref.branch)
        return found

    def _of_tag(self, name: str, tag: Tag, *, expires: bool) -> Until:
        if self._of_tags is None:
            ruling = ruling_of(self._table)
            self._of_tags = declared_zone(self._table, None, ruling), rule_of(ruling).tags
        zone, keep = self._of_tags
        if name.startswith(ROLLBACK_PREFIX):
            return Until("until the tag is deleted manually, since it belongs to a rollback")
        until = _of_time_to_live(tag, zone, self._now_ms) if expires else _NO_EXPIRY
        if any(fnmatchcase(name, rules.pattern) for rules in keep):
            if tag.time_retained_ns is None or tag.create_time is None or not expires:
                return Until("until no calendar rule of the fleet policy keeps the tag")
            return Until(f"{until.says}, or as long as a calendar rule of the fleet policy keeps it", until.at_ms)
        return until

    def _rules(self, branch: str) -> _Branch:
        if branch not in self._branches:
            self._branches[branch] = self._read(self._listing.branches[branch])
        return self._branches[branch]

    def _read(self, own: BranchListing) -> _Branch:
        if not own.schemas:
            unknown = Until("until it is deleted manually: the branch has no schema that states a retention")
            return _for_all(own, unknown)
        options = read_schema(self._table.store, own).options
        consumers = read_consumers(self._table.store, self._consumers(own.name))
        slowest = min(consumers.items(), key=lambda item: (item[1], item[0]), default=None)
        try:
            binds_snapshots = not consumers_bind_changelogs_only(options)
            retention = snapshot_retention(options, ExpireArguments(), self._now_ms, self._table.clock_ms())
            of_changelogs = changelog_retention(options)
            expires_tags = expires_by_time(options)
        except (RefusedError, FormatError) as error:
            unknown = Until(f"for an unknown time: {error}")
            return _for_all(own, unknown)
        if not is_stated(options):
            where = "" if own.name == MAIN else f" of branch {own.name}"
            self.warnings.append(
                f"the schema{where} states no retention, so the times of snapshots follow Paimon's defaults, "
                "and unattended maintenance expires none of them"
            )
        times = self._times(own.snapshots)
        present = [ref.id for ref in own.snapshots if ref.id in times]
        due = snapshots_due(present, times, retention, slowest[1] if slowest and binds_snapshots else None)
        changelog_times = self._times(own.changelogs)
        changelogs = [ref.id for ref in own.changelogs if ref.id in changelog_times]
        latest = present[-1] if present else 0
        changelog_due = changelogs_due(
            changelogs, latest, changelog_times, of_changelogs, slowest[1] if slowest else None
        )
        return _Branch(
            {each: self._say(found, "snapshot", retention, slowest) for each, found in due.items()},
            {each: self._say(found, "changelog", of_changelogs, slowest) for each, found in changelog_due.items()},
            expires_tags,
        )

    def _consumers(self, branch: str) -> list[DocumentRef]:
        folder = f"{branch_dir(branch)}consumer/"
        found = ((consumer_id_of(entry.key.removeprefix(folder)), entry) for entry in self._table.store.list(folder))
        return [
            DocumentRef(name, entry.key, entry.etag, entry.size_bytes, entry.modified_ms)
            for name, entry in found
            if name is not None
        ]

    def _times(self, refs: Iterable[RootRef]) -> dict[int, int]:
        found = ((ref.id, self._roots.get(ref.path)) for ref in refs)
        return {root_id: root.snapshot.time_ms for root_id, root in found if root is not None}

    def _say(
        self,
        due: Due,
        what: str,
        retention: SnapshotRetention | ChangelogRetention,
        slowest: tuple[str, int] | None,
    ) -> Until:
        if due.is_due(self._now_ms):
            return Until("until the next expiry, which deletes it", due.after_ms, is_due=True)
        parts = []
        if due.newer:
            least = (
                f"the newest {retention.retain_min} {what}s are kept"
                if retention.retain_min > 1
                else f"the newest {what} is kept"
            )
            more = "one more snapshot is" if due.newer == 1 else f"{due.newer} more snapshots are"
            parts.append(f"{more} committed, since {least}")
        if due.after_ms is not None and due.after_ms >= self._now_ms:
            parts.append(f"{say_time(due.after_ms)}, when it is old enough")
        elif due.newer and due.after_ms is None and due.at_once != 0 and retention.time_retained_ms:
            parts.append("its successor is old enough")
        if due.is_held and slowest is not None:
            parts.append(f"consumer {slowest[0]}, now at snapshot {slowest[1]}, moves beyond it")
        says = "until " + ", and until ".join(parts)
        if due.at_once and due.at_once > due.newer and not due.is_held:
            more = "one more snapshot" if due.at_once == 1 else f"{due.at_once} more snapshots"
            says += f", or until {more}, since at most {retention.retain_max} are kept"
        is_held = due.is_held and Due(due.after_ms, due.newer, False).is_due(self._now_ms)
        return Until(says, due.after_ms, is_held=is_held)


_NO_EXPIRY = Until("until the tag is deleted manually, since tag.time-expire-enabled is false")


def _of_time_to_live(tag: Tag, zone: tzinfo | None, now_ms: int) -> Until:
    if tag.time_retained_ns is None or tag.create_time is None:
        return Until("until the tag is deleted: it has no time to live")
    end = end_of_life(tag.create_time, tag.time_retained_ns, zone)
    if end >= NO_END:
        return Until("until the tag is deleted: its time to live ends beyond every calendar")
    end_ms = latest_ms(end, zone or UTC)
    if now_ms > end_ms:
        return Until("until the next expiry of tags, since its time to live is over", end_ms, is_due=True)
    of_zone = "26 h later than in UTC, since no time zone is declared" if zone is None else f"in {zone}"
    return Until(f"until {say_time(end_ms)}, when its time to live is over ({of_zone})", end_ms)


def _or_branch(until: Until, branch: str) -> Until:
    if branch == MAIN:
        return until
    return Until(f"{until.says}, or until branch {branch} is dropped", until.at_ms, until.is_due, until.is_held)
