"""The result of the last pass over a table, so that Lakesweep can answer the next commit with a few requests.

The state never decides that anything may be deleted. It only says that nothing has to be. The state may be wrong
because another engine expired, rolled back or altered the table. Then Lakesweep skips a pass or makes it in vain, and a
later pass catches up.

The state counts for a day, and only for the table that it was written for. A new table at the same place has a
different first schema.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.codec import Number, from_json, is_number
from lakesweep.format.snapshot import Snapshot
from lakesweep.model.commits.seen import Announced, SeenSnapshot
from lakesweep.model.identity import number_of
from lakesweep.model.safety import GRAIN_MS, STATE_AHEAD_MS, STATE_LIFETIME_MS

STATE_FORMAT_VERSION = 8
NEVER_MS = 1 << 62
"""A time that never comes."""
BATCH_IDENTIFIER = (1 << 63) - 1
"""Paimon's commit identifier of batch jobs."""
BATCH_COMMITS, ALL_COMMITS = 1, 2
_NAME = "state.json"
_SEEN = {"newest": tuple[SeenSnapshot, ...], "judged": tuple[tuple[Number, Number], ...]}


@dataclass(frozen=True, slots=True)
class BranchState:
    """One branch after a pass with nothing left to do."""

    latest_id: int
    schema_id: int
    first_id: int
    """The oldest snapshot that was kept."""
    first_old_from_ms: int
    """When age alone allows its deletion: the later of its own time and its successor's, plus the time retained."""
    retain_min: int
    retain_max: int
    limit: int
    checked_ms: int
    """When the pass was made; 0: not known, and only the tag fields count."""
    tags_due_ms: int = NEVER_MS
    """When a tag next becomes due or expires by the clock."""
    tag_watermark: int = NEVER_MS
    """A commit with at least this watermark makes a tag due."""
    tag_commits: int = 0
    """`BATCH_COMMITS`: a commit of a batch job makes a tag due; `ALL_COMMITS`: every commit does."""
    tag_rules: int = 0
    """A number derived from the rules of automatic tags, 0 without rules. The next three fields are valid while it is
    the same."""
    tag_next_snapshot: int = 0
    """The first snapshot that was not yet checked for an automatic tag."""
    tag_next_ms: int = NEVER_MS
    """The begin of the period of the next tag: milliseconds since 1970 on the clocks of its time zone."""
    tag_walked: int = 0
    """A number derived from the ETag of the snapshot before `tag_next_snapshot`."""
    first_schema: int = 0
    """The id of the branch's first schema. Its ETag identifies the branch."""
    identity: int = 0
    """A number derived from that ETag; 0: not known, and the state answers nothing."""
    refused_ms: int = 0
    """Since when every pass was refused; 0: the last pass was not."""
    latest_number: int = 0
    """A number derived from the ETag of snapshot `latest_id`: after a rollback, another snapshot may have this id."""
    partition_rules: int = 0
    """A number derived from the rules of partition expiry, 0 without rules. The next three fields are about them."""
    partition_from_ms: int = 0
    """Partitions are checked only after this time: that of the last check, and the interval between checks."""
    partition_snapshot: int = 0
    """The newest snapshot that the last check saw."""
    partition_next_ms: int = NEVER_MS
    """From when the next partition of that snapshot is expired."""
    manifest_rules: int = 0
    """A number derived from the rules about the compaction of manifests, 0 if none are compacted. The next two fields
    are about them."""
    manifest_from_ms: int = 0
    """Lists of manifests are looked at only after this time: that of the last look, and the interval between looks."""
    manifest_snapshot: int = 0
    """The first snapshot whose list may be too long."""
    files_rules: int = 0
    """A number derived from the rules about the compaction of data files, 0 without this step. The next three fields
    are about it."""
    files_from_ms: int = 0
    """A commit makes a pass look at data files only after this time."""
    files_snapshot: int = 0
    """The first snapshot that makes a pass look."""
    files_next_ms: int = NEVER_MS
    """From when a pass looks without a commit: a partition is idle by then."""
    rewritten_ms: int = 0
    """When Lakesweep last rolled the branch back, or fast-forwarded it, or made it."""
    newest: tuple[SeenSnapshot, ...] = ()
    """The newest snapshots that a pass saw, or that Lakesweep committed since; ascending by id."""
    judged: tuple[tuple[int, int], ...] = ()
    """Ids and numbers of snapshots that were replaced, or that something else happened to. They were told once."""

    def wants_nothing(self, latest_id: int, now_ms: int) -> bool:
        """Tell whether tags, commits and retention need no pass, given that `latest_id` is the newest snapshot.

        If watermarks or batch jobs make tags due, the commit's document is needed as well (`is_tag_due`).
        """
        if self.is_ahead(now_ms) or now_ms >= self.tags_due_ms or self.is_commit_due(latest_id, now_ms):
            return False
        return self.retains_all(latest_id, now_ms)

    def is_commit_due(self, latest_id: int, now_ms: int) -> bool:
        """Tell whether a pass may have to commit, given that `latest_id` is the newest snapshot."""
        is_list_due = self.are_partitions_due(latest_id, now_ms) or self.are_manifests_due(latest_id, now_ms)
        return is_list_due or self.are_files_due(latest_id, now_ms)

    def are_partitions_due(self, latest_id: int, now_ms: int) -> bool:
        """Tell whether partitions have to be checked, given that `latest_id` is the newest snapshot.

        Source: Paimon `PartitionExpire#expire`, which only a commit calls. A check without a new commit waits for the
        next partition to expire.
        """
        return bool(self.partition_rules) and now_ms >= self.partitions_due_ms(latest_id)

    def partitions_due_ms(self, latest_id: int) -> int:
        """Return the time from which partitions have to be checked, given that `latest_id` is the newest snapshot."""
        from_ms = self.partition_from_ms + 1
        return max(from_ms, self.partition_next_ms) if latest_id <= self.partition_snapshot else from_ms

    def are_manifests_due(self, latest_id: int, now_ms: int) -> bool:
        """Tell whether the list of manifests has to be looked at, given that `latest_id` is the newest snapshot."""
        return bool(self.manifest_rules) and latest_id >= self.manifest_snapshot and now_ms > self.manifest_from_ms

    def are_files_due(self, latest_id: int, now_ms: int) -> bool:
        """Tell whether data files have to be looked at, given that `latest_id` is the newest snapshot."""
        by_commit = latest_id >= self.files_snapshot and now_ms > self.files_from_ms
        return bool(self.files_rules) and (by_commit or now_ms >= self.files_next_ms)

    def is_latest(self, etag: str | None) -> bool:
        """Tell whether the snapshot with id `latest_id` and this ETag is the one that the pass saw."""
        return etag is not None and number_of(etag) == self.latest_number

    def contradicts(self, announced: Announced) -> bool:
        """Tell whether an event shows that another snapshot has, or had, the id of one that the state knows.

        A late or repeated event shows nothing new. One below the newest known snapshot does, if it was written later.
        One that had expired before is a document that somebody restores.
        """
        seen = announced.seen
        if seen.key in self.judged or not self.newest:
            return False
        known = next((each for each in self.newest if each.id == seen.id), None)
        if known is not None:
            return known.number != seen.number
        newest = self.newest[-1]
        is_kept = self.first_id <= seen.id < newest.id
        return is_kept and seen.modified_ms > newest.modified_ms + GRAIN_MS

    def are_same(self, found: Mapping[int, str]) -> bool:
        """Tell whether the known snapshots are the same in a listing, as far as it shows them.

        Args:
            found: Id -> ETag.
        """
        return all(number_of(found[each.id]) == each.number for each in self.newest if each.id in found)

    def is_ahead(self, now_ms: int) -> bool:
        """Tell whether the clock of the pass was wrong."""
        return self.checked_ms - now_ms > STATE_AHEAD_MS

    def is_over(self, now_ms: int) -> bool:
        """Tell whether the pass is too old for its state to answer anything."""
        return now_ms - self.checked_ms >= STATE_LIFETIME_MS

    def retains_all(self, latest_id: int, now_ms: int) -> bool:
        """Tell whether retention has nothing to do, given that `latest_id` is the newest snapshot.

        The arithmetic is the planner's. Consumers could only keep more.
        """
        hard_end_id = min(latest_id - self.retain_min + 1, self.first_id + self.limit)
        if hard_end_id <= self.first_id:
            return True
        return latest_id - self.retain_max + 1 <= self.first_id and now_ms <= self.first_old_from_ms

    @property
    def asks_commits(self) -> bool:
        """Tell whether the document of a commit is needed to know which tags it makes due."""
        return self.tag_watermark < NEVER_MS or self.tag_commits > 0

    def is_tag_due(self, commit: Snapshot) -> bool:
        """Tell whether a commit after this pass makes a tag due, whatever the time."""
        by_watermark = commit.watermark is not None and commit.watermark >= self.tag_watermark
        by_batch = self.tag_commits == BATCH_COMMITS and commit.commit_identifier == BATCH_IDENTIFIER
        return by_watermark or by_batch or self.tag_commits == ALL_COMMITS


_NO_TAGS: dict[str, Any] = {
    field.name: field.default
    for field in dataclasses.fields(BranchState)
    if field.name.startswith("tag") and isinstance(field.default, int)
}


def always_due(latest_id: int, checked_ms: int) -> BranchState:
    """Return a state that makes every pass look at the branch again: only the time of the last pass is known."""
    return BranchState(
        latest_id=latest_id,
        schema_id=0,
        first_id=0,
        first_old_from_ms=0,
        retain_min=0,
        retain_max=0,
        limit=1 << 62,
        checked_ms=checked_ms,
    )


_NO_COMMITS: dict[str, Any] = {
    field.name: field.default
    for field in dataclasses.fields(BranchState)
    if field.name.startswith(("partition", "manifest", "files")) and isinstance(field.default, int)
}


def without_commits(state: BranchState) -> BranchState:
    """Return a copy of the state that knows no rules of the steps that commit."""
    return replace(state, **_NO_COMMITS)


def commits_due(state: BranchState) -> BranchState:
    """Return a copy of the state that makes the next pass look whether to commit."""
    state = replace(state, partition_from_ms=0, partition_next_ms=0, manifest_from_ms=0, manifest_snapshot=0)
    return replace(state, files_from_ms=0, files_snapshot=0)


def without_tags(state: BranchState) -> BranchState:
    """Return a copy of the state without its tag fields."""
    return replace(state, **_NO_TAGS)


def tags_alone(state: BranchState) -> BranchState:
    """Return a state that has only what this one has of tags, of the newest snapshots, and of the branch's identity."""
    known = ("first_schema", "identity", "rewritten_ms", "newest", "judged", *_NO_TAGS)
    return replace(always_due(0, 0), **{name: getattr(state, name) for name in known})


def read_states(area: ControlArea) -> dict[str, BranchState]:
    """Return the state of each branch; empty if there is no state, or one of another format."""
    try:
        body = area.read(_NAME)
    except ObjectNotFoundError:
        return {}
    document = from_json_bytes(body.data, area.path(_NAME))
    branches = document.get("branches")
    if document.get("format_version") != STATE_FORMAT_VERSION or not isinstance(branches, dict):
        return {}
    return {str(name): _state(value, area.path(_NAME)) for name, value in branches.items()}


def write_state(area: ControlArea, states: dict[str, BranchState]) -> None:
    """Write the state of every branch. Two writers may overwrite each other, which costs only a shortcut."""
    area.put(
        _NAME,
        to_json_bytes(
            {
                "format_version": STATE_FORMAT_VERSION,
                "branches": {name: dataclasses.asdict(state) for name, state in states.items()},
            }
        ),
    )


def _state(value: object, path: str) -> BranchState:
    names = [field.name for field in dataclasses.fields(BranchState) if field.name not in _SEEN]
    if not isinstance(value, dict) or not all(is_number(value.get(name)) for name in names):
        raise FormatError(f"{path}: expected the numbers {', '.join(names)} of each branch")
    seen = {name: from_json(kind, value.get(name), path, name) for name, kind in _SEEN.items()}
    return BranchState(**{name: value[name] for name in names}, **seen)
