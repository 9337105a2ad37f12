"""How long a root is kept by its branch's options and the fleet policy, given the present consumers and tags.

The rules are those of a pass: the schema's retention, else the policy's, and never less than the policy's minimums and
protected commit users ask for. The answer is one clause, with a time if one is known.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from fnmatch import fnmatchcase

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.names import consumer_id_of
from lakesweep.format.tag import Tag
from lakesweep.model.policy import ChangelogRetention, KeepRules, SnapshotRetention
from lakesweep.model.roots import MAIN, BranchListing, DocumentRef, Root, RootRef, TableListing, branch_dir
from lakesweep.operations.lifetimes.ruling import shown_ruling
from lakesweep.operations.lifetimes.until import NO_EXPIRY, Until, of_time_to_live
from lakesweep.operations.retention.rules.due import Due, changelogs_due, snapshots_due, with_floor
from lakesweep.operations.retention.rules.snapshot_cap import newest_by_user
from lakesweep.operations.tags.options import declared_zone, expires_by_time
from lakesweep.operations.tags.rules.expiry import ROLLBACK_PREFIX
from lakesweep.runs.fleet import Ruling, limited, rule_of, ruling_of
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

NEVER = Until("for as long as the table")
_NEXT = "until the next expiry, which deletes it"


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

    def __init__(
        self,
        table: Table,
        listing: TableListing,
        roots: Mapping[str, Root],
        now_ms: int,
        *,
        ruling: Callable[[Table], Ruling | None] = ruling_of,
        has_consumers: bool = False,
    ) -> None:
        """Read the fleet policy, and nothing else yet.

        Args:
            table: Any branch of it.
            listing: All existing roots.
            roots: By path; the roots of `listing`, except vanished ones.
            now_ms: The time that decides what is due.
            ruling: Returns what the fleet policy says about the table.
            has_consumers: `listing` shows the consumers, too. Otherwise they are listed for each branch.

        Raises:
            UsageError: The location of the fleet policy holds no valid policy.
            StorageError: The policy cannot be read.
        """
        self.ruling = ruling(table)
        self.policy = shown_ruling(self.ruling)
        self._table = table
        self._listing = listing
        self._roots = roots
        self._now_ms = now_ms
        self._has_consumers = has_consumers
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
            self._of_tags = declared_zone(self._table, None, self.ruling), rule_of(self.ruling).tags
        zone, keep = self._of_tags
        if name.startswith(ROLLBACK_PREFIX):
            return Until("until the tag is deleted manually, since it belongs to a rollback")
        until = of_time_to_live(tag, zone, self._now_ms) if expires else NO_EXPIRY
        if until.is_due and self.policy is not None and self.policy.excuse is not None:
            says = f"until an expiry of tags deletes it: its time to live is over, but {self.policy.excuse}"
            until = replace(until, says=says)
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
        consumers = read_consumers(self._table.store, self._consumers(own))
        slowest = min(consumers.items(), key=lambda item: (item[1], item[0]), default=None)
        try:
            binds_snapshots = not consumers_bind_changelogs_only(options)
            limits = limited(ExpireArguments(), self.ruling)
            retention = snapshot_retention(options, limits, self._now_ms, self._table.clock_ms())
            of_changelogs = changelog_retention(options)
            expires_tags = expires_by_time(options)
        except (RefusedError, FormatError) as error:
            unknown = Until(f"for an unknown time: {error}")
            return _for_all(own, unknown)
        if not is_stated(options) and limits.otherwise is None:
            where = "" if own.name == MAIN else f" of branch {own.name}"
            self.warnings.append(
                f"the schema{where} states no retention, so the times of snapshots follow Paimon's defaults, "
                "and unattended maintenance expires none of them"
            )
        times = self._times(own.snapshots)
        present = [ref.id for ref in own.snapshots if ref.id in times]
        due = snapshots_due(present, times, retention, slowest[1] if slowest and binds_snapshots else None)
        if limits.floor is not None:
            floors = snapshots_due(present, times, limits.floor, None)
            due = {each: with_floor(found, floors[each]) for each, found in due.items()}
        if users := self._protected(own, limits.protect_commit_users):
            due = {each: replace(found, user=_user_of(users, each)) for each, found in due.items()}
        changelog_times = self._times(own.changelogs)
        changelogs = [ref.id for ref in own.changelogs if ref.id in changelog_times]
        latest = present[-1] if present else 0
        changelog_due = changelogs_due(
            changelogs, latest, changelog_times, of_changelogs, slowest[1] if slowest else None
        )
        return _Branch(
            {
                each: _after_limit(
                    self._say(found, "snapshot", retention, slowest, limits.floor), each - present[0], retention.limit
                )
                for each, found in due.items()
            },
            {
                each: _after_limit(
                    self._say(found, "changelog", of_changelogs, slowest), each - changelogs[0], of_changelogs.limit
                )
                for each, found in changelog_due.items()
            },
            expires_tags,
        )

    def _consumers(self, own: BranchListing) -> Sequence[DocumentRef]:
        if self._has_consumers:
            return own.consumers
        folder = f"{branch_dir(own.name)}consumer/"
        found = ((consumer_id_of(entry.key.removeprefix(folder)), entry) for entry in self._table.store.list(folder))
        return [
            DocumentRef(name, entry.key, entry.etag, entry.size_bytes, entry.modified_ms)
            for name, entry in found
            if name is not None
        ]

    def _protected(self, own: BranchListing, users: Iterable[str]) -> dict[str, int]:
        """Return protected commit user -> its newest snapshot."""
        roots = [self._roots[ref.path].snapshot for ref in own.snapshots if ref.path in self._roots]
        newest = newest_by_user(roots)
        return {user: newest[user].id for user in users if user in newest}

    def _by(self, field: str) -> str:
        """Return the words for the rule of the fleet policy that states a field."""
        folder = None if self.policy is None else self.policy.rule_for(field)
        return "" if folder is None else f" by the fleet policy's rule for {folder}"

    def _times(self, refs: Iterable[RootRef]) -> dict[int, int]:
        found = ((ref.id, self._roots.get(ref.path)) for ref in refs)
        return {root_id: root.snapshot.time_ms for root_id, root in found if root is not None}

    def _say(
        self,
        due: Due,
        what: str,
        retention: SnapshotRetention | ChangelogRetention,
        slowest: tuple[str, int] | None,
        floor: SnapshotRetention | None = None,
    ) -> Until:
        if due.is_due(self._now_ms):
            says = _NEXT
            if self.policy is not None and self.policy.excuse is not None:
                says = f"until an expiry deletes it: it is due, but {self.policy.excuse}"
            return Until(says, due.after_ms, is_due=True)
        parts = []
        least_count, least_ms = retention.retain_min, retention.time_retained_ms or 0
        if floor is not None:
            least_count, least_ms = max(least_count, floor.retain_min), max(least_ms, floor.time_retained_ms)
        if due.newer:
            least = f"the newest {least_count} {what}s are kept" if least_count > 1 else f"the newest {what} is kept"
            least += self._by("min_snapshots") if least_count > retention.retain_min else ""
            more = "one more snapshot is" if due.newer == 1 else f"{due.newer} more snapshots are"
            parts.append(f"{more} committed, since {least}")
        if due.after_ms is not None and due.after_ms >= self._now_ms:
            by = self._by("min_time_retained_ms") if due.after_ms == due.floor_ms else ""
            parts.append(f"{say_time(due.after_ms)}, when it is old enough{by}")
        elif due.newer and due.after_ms is None and due.at_once != 0 and least_ms:
            parts.append("its successor is old enough")
        if due.is_held and slowest is not None:
            parts.append(f"consumer {slowest[0]}, now at snapshot {slowest[1]}, moves beyond it")
        if due.user is not None:
            by = self._by("protect_commit_users")
            parts.append(f"commit user {due.user} commits again, since its last snapshot is kept{by}")
        says = "until " + ", and until ".join(parts)
        if due.at_once and due.at_once > due.newer and not due.is_held and due.user is None:
            more = "one more snapshot" if due.at_once == 1 else f"{due.at_once} more snapshots"
            says += f", or until {more}, since at most {retention.retain_max} are kept"
            if due.floor_ms is not None and due.floor_ms >= self._now_ms:
                says += f", but not before {say_time(due.floor_ms)}{self._by('min_time_retained_ms')}"
        is_held = due.is_held and replace(due, is_held=False).is_due(self._now_ms)
        return Until(says, due.after_ms, is_held=is_held)


def _after_limit(until: Until, number: int, limit: int) -> Until:
    """Return the answer for the snapshot or changelog with this number, counted from the oldest by ids."""
    if not until.is_due or number < limit:
        return until
    later = f"until a later expiry deletes it: it is due, but one expiry deletes at most {limit}"
    return replace(until, says=later if until.says == _NEXT else until.says, is_later=True)


def _user_of(newest: Mapping[str, int], snapshot_id: int) -> str | None:
    """Return a protected commit user whose newest snapshot is this or an earlier one."""
    return min((user for user, last_id in newest.items() if last_id <= snapshot_id), default=None)


def _or_branch(until: Until, branch: str) -> Until:
    if branch == MAIN:
        return until
    return replace(until, says=f"{until.says}, or until branch {branch} is dropped")
