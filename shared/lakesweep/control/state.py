"""What the last pass over a table found, so that the next commit can be answered in a few requests.

The state never decides that something may go; it can only say that nothing has to. When it is wrong, because another
engine expired, rolled back or altered the table, a pass is skipped or made in vain, and a later one catches up. It
counts for a day, and only of the table that it was written for: one that was made anew at the same place has another
first schema.
"""

import dataclasses
from dataclasses import dataclass, replace

from lakesweep.control.area import ControlArea, from_json_bytes, to_json_bytes
from lakesweep.control.checks import is_number
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.snapshot import Snapshot

STATE_FORMAT_VERSION = 3
NEVER_MS = 1 << 62
"""A time that does not come."""
BATCH_IDENTIFIER = (1 << 63) - 1
"""The commit identifier of batch jobs."""
BATCH_COMMITS, ALL_COMMITS = 1, 2
AHEAD_MS = 3_600_000
"""A pass that was made later than now by more than this went by a clock that was wrong; so do the times it left."""
LIFETIME_MS = 86_400_000
"""So long what a pass found answers later ones. Nothing that it could not see is overlooked for longer."""
_NAME = "state.json"


@dataclass(frozen=True, slots=True)
class BranchState:
    """One branch after a pass that left nothing to do."""

    latest_id: int
    schema_id: int
    first_id: int
    """The oldest snapshot that stayed."""
    first_old_from_ms: int
    """When age alone lets it go: its own time or its successor's, the later of the two, and the time retained."""
    retain_min: int
    retain_max: int
    limit: int
    checked_ms: int
    """When the pass was made; 0: none is known, and only what it says of tags counts."""
    tags_due_ms: int = NEVER_MS
    """When the clock next makes a tag due, or lets one go."""
    tag_watermark: int = NEVER_MS
    """A commit with this watermark, or a later one, makes a tag due."""
    tag_commits: int = 0
    """`BATCH_COMMITS`: one of a batch job makes a tag due; `ALL_COMMITS`: each one does."""
    tag_rules: int = 0
    """A number of the rules by which tags are made, 0 without any. The three after it hold while it is the same."""
    tag_next_snapshot: int = 0
    """The first snapshot that has not been asked whether it makes a tag."""
    tag_next_ms: int = NEVER_MS
    """The begin of the period whose tag comes next, in milliseconds since 1970 began on the clocks of its zone."""
    tag_walked: int = 0
    """A number of the ETag of the snapshot before `tag_next_snapshot`."""
    first_schema: int = 0
    """The id of the branch's first schema, by whose ETag the branch is known again."""
    identity: int = 0
    """A number of that ETag; 0: it is not known, and the state answers nothing."""

    def wants_nothing(self, latest_id: int, now_ms: int) -> bool:
        """Tell whether neither tags nor retention ask for a pass now that `latest_id` is the newest snapshot.

        What a commit with a watermark, or of a batch job, asks for only its document tells (`is_tag_due`).
        """
        return not self.is_ahead(now_ms) and now_ms < self.tags_due_ms and self.retains_all(latest_id, now_ms)

    def is_ahead(self, now_ms: int) -> bool:
        """Tell whether the pass went by a clock that was wrong."""
        return self.checked_ms - now_ms > AHEAD_MS

    def is_over(self, now_ms: int) -> bool:
        """Tell whether the pass is too long ago for its state to answer anything."""
        return now_ms - self.checked_ms >= LIFETIME_MS

    def retains_all(self, latest_id: int, now_ms: int) -> bool:
        """Tell whether retention has nothing to do now that `latest_id` is the newest snapshot.

        The same arithmetic as the planner's; consumers could only hold back more.
        """
        hard_end_id = min(latest_id - self.retain_min + 1, self.first_id + self.limit)
        if hard_end_id <= self.first_id:
            return True
        return latest_id - self.retain_max + 1 <= self.first_id and now_ms <= self.first_old_from_ms

    @property
    def asks_commits(self) -> bool:
        """Tell whether it takes the document of a commit to know what it makes due."""
        return self.tag_watermark < NEVER_MS or self.tag_commits > 0

    def is_tag_due(self, commit: Snapshot) -> bool:
        """Tell whether a commit that came after this pass makes a tag due, whatever the time."""
        by_watermark = commit.watermark is not None and commit.watermark >= self.tag_watermark
        by_batch = self.tag_commits == BATCH_COMMITS and commit.commit_identifier == BATCH_IDENTIFIER
        return by_watermark or by_batch or self.tag_commits == ALL_COMMITS


_NO_TAGS = {
    field.name: field.default
    for field in dataclasses.fields(BranchState)
    if field.name.startswith("tag") and isinstance(field.default, int)
}


def always_due(latest_id: int, checked_ms: int) -> BranchState:
    """Return the state of a branch of which only the time of the last pass is known: every pass looks anew."""
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


def without_tags(state: BranchState) -> BranchState:
    """Return a state that says nothing of tags."""
    return replace(state, **_NO_TAGS)


def tags_alone(state: BranchState) -> BranchState:
    """Return a state that says nothing but what this one says of tags."""
    known = ("first_schema", "identity", *_NO_TAGS)
    return replace(always_due(0, 0), **{name: getattr(state, name) for name in known})


def read_states(area: ControlArea) -> dict[str, BranchState]:
    """Return the state of each branch; none where there is no state or one of another format."""
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
    """Write the state of every branch. Two writers may overwrite each other: what is lost is only a shortcut."""
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
    names = [field.name for field in dataclasses.fields(BranchState)]
    if not isinstance(value, dict) or not all(is_number(value.get(name)) for name in names):
        raise FormatError(f"{path}: expected the numbers {', '.join(names)} of each branch")
    return BranchState(**{name: value[name] for name in names})
