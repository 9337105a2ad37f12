"""`auto-tags`: make the tags that a table's options ask for.

Lakesweep walks over the commits from where the last pass stopped, as Paimon's writers do. Each commit may make one tag.
If a period ends and no commit follows, the clock makes its tag on the newest snapshot; a Paimon writer would commit an
empty snapshot for it. Lakesweep leaves a name that exists as it is. So two passes at once make each tag only once.

The state keeps where the last pass stopped. The existing tags show it, too, so a lost state costs only reads. Lakesweep
always compares the state with the existing tags, since other programs make tags as well.

Source: Paimon `TagAutoCreation`, `TagBatchCreation`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta, tzinfo

from lakesweep.control.state import ALL_COMMITS, BATCH_COMMITS, NEVER_MS
from lakesweep.execute.tags import cannot_promise
from lakesweep.format.values.zone import local_time
from lakesweep.model.identity import identity_of, number_of
from lakesweep.model.plan import Plan, Put
from lakesweep.model.policy import AutoTagRules
from lakesweep.model.roots import Root, RootRef
from lakesweep.operations.tags.options import (
    auto_tag_rules,
    check_callbacks,
    declared_zone,
    is_write_only,
    writes_success_file,
)
from lakesweep.operations.tags.rules.automatic import (
    Commit,
    DueTag,
    Pointer,
    backfilled,
    batch_tag,
    due_by_clock,
    due_tags,
    next_due_ms,
    next_watermark,
    pointer_of,
)
from lakesweep.operations.tags.rules.periods import period_of
from lakesweep.runs.fleet import Ruling
from lakesweep.runs.parameters.parameter import stated
from lakesweep.runs.pass_state import known_state
from lakesweep.runs.session import Table
from lakesweep.runs.tags.documents import put_success, put_tag, tags_by_snapshot
from lakesweep.runs.view import TableView, begin, inputs_of

OPERATION = "auto-tags"
_CHUNK = 256
"""This many snapshot documents are read at a time."""
_UNKNOWN = 0
"""The snapshot id of a tag that cannot be read; no snapshot has it."""
_WHY = {
    "process-time": "the first snapshot that was committed after the end of its period",
    "watermark": "the first snapshot whose watermark is past the end of its period",
    "clock": "its period is over, and no snapshot was committed since",
    "batch": "a batch job committed the newest snapshot",
    "backfill": "its period was missed, and this is the last snapshot of before its end",
}
_EPOCH = datetime(1970, 1, 1)
_MS = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class AutoTagArguments:
    """The arguments of a call."""

    backfill: bool = False
    """Missed periods get their tags, if a snapshot from their end still exists."""
    time_zone: str | None = None
    """Default: `sink.process-time-zone`, else the zone of the fleet policy; never the worker's."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options for this call."""

    def to_json(self) -> dict[str, object]:
        """Return the arguments that were given."""
        return stated(**asdict(self))


@dataclass(frozen=True, slots=True)
class _Due:
    """The tags that are due, and where the next pass continues."""

    tags: tuple[DueTag, ...]
    facts: Mapping[str, int]
    """For the state; see `TagNote`."""
    warnings: tuple[str, ...] = ()


def plan_auto_tags(
    table: Table, arguments: AutoTagArguments, view: TableView | None = None, ruling: Ruling | None = None
) -> Plan:
    """Plan the tags that are due. A plan without actions means that no tag is due.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        view: The table as it was just listed, if it was.
        ruling: What the fleet policy says about the table: it may declare a zone.

    Raises:
        RefusedError: Options do not parse, no zone is declared, only Paimon can make the tags, or a snapshot or tag
            cannot be read.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    view = begin(table, OPERATION) if view is None else replace(view, operation=OPERATION)
    options = {**view.schema.options, **arguments.options}
    declared = declared_zone(view.table, arguments.time_zone, ruling)
    rules = auto_tag_rules(options, declared)
    if rules is not None:
        check_callbacks(view.table, options)
    if rules is None or not view.own.snapshots:
        return view.plan((), inputs_of(view.own, arguments.to_json()))
    found = _Walk(view, rules).due(arguments.backfill)
    actions = [put for due in found.tags for put in _puts(view, rules, options, declared, due)]
    by_writers = not is_write_only(options)
    warnings = [
        cannot_promise(table.ref.location, due.name, f"snapshot {due.snapshot_id}")
        for due in found.tags
        if by_writers and due.snapshot_id != view.own.snapshots[-1].id
    ]
    inputs = inputs_of(view.own, arguments.to_json(), {"write_only": not by_writers})
    return view.plan(actions, inputs, warnings=(*found.warnings, *warnings), next_pass=found.facts)


class _Walk:
    """The walk over a branch's commits, by its rules for tags."""

    def __init__(self, view: TableView, rules: AutoTagRules) -> None:
        self._view = view
        self._rules = rules
        self._snapshots = view.own.snapshots
        self._warnings: list[str] = []

    def due(self, backfill: bool) -> _Due:
        """Return the tags that are due."""
        return self._of_batch() if self._rules.mode == "batch" else self._of_periods(backfill)

    def _of_batch(self) -> _Due:
        """Tag the newest snapshot if a batch job made it. A tag that was deleted later is not made again."""
        facts = {"tag_commits": BATCH_COMMITS, **self._stopped(Pointer(self._snapshots[-1].id + 1, None))}
        known = self._kept_pointer()
        if known is not None and known.next_snapshot > self._snapshots[-1].id:
            return _Due((), facts)
        newest = self._commits([self._snapshots[-1]])[0]
        due = batch_tag(self._rules, newest, {})
        if due is not None:
            there = self._read([ref for ref in self._view.own.tags if ref.name == due.name])
            is_damaged = there.get(due.name) == _UNKNOWN
            due = None if is_damaged else batch_tag(self._rules, newest, there)
        return _Due((due,) if due else (), facts, tuple(self._warnings))

    def _of_periods(self, backfill: bool) -> _Due:
        rules, newest = self._rules, self._snapshots[-1]
        tags = self._read([ref for ref in self._view.own.tags if period_of(rules, ref.name) is not None])
        pointer = _later(pointer_of(rules, tags.items(), self._snapshots[0].id), self._kept_pointer())
        made, pointer = due_tags(rules, pointer, self._walk(pointer.next_snapshot), tags)
        tags |= {tag.name: tag.snapshot_id for tag in made}
        due_ms = next_due_ms(rules, pointer)
        by_clock = None
        if rules.mode == "process-time" and due_ms is not None and due_ms <= self._view.now_ms:
            by_clock = due_by_clock(rules, pointer, self._commits([newest])[0], tags, self._view.now_ms)
        if by_clock is not None:
            made = (*made, by_clock)
            tags[by_clock.name] = by_clock.snapshot_id
            pointer = _later(pointer, pointer_of(rules, [(by_clock.name, by_clock.snapshot_id)], None))
            due_ms = next_due_ms(rules, pointer)
        if backfill:
            late, sentences = backfilled(rules, tags, self._commits(self._snapshots))
            made, self._warnings = (*made, *late), [*self._warnings, *sentences]
        facts = self._stopped(pointer)
        if rules.mode == "watermark":
            watermark = next_watermark(rules, pointer)
            facts["tag_watermark"] = NEVER_MS if watermark is None else watermark
        elif due_ms is None or pointer.next_tag is None or self._only_commits(due_ms, tags):
            facts["tag_commits"] = ALL_COMMITS
        else:
            facts["tags_due_ms"] = due_ms
        return _Due(made, facts, tuple(self._warnings))

    def _only_commits(self, due_ms: int, tags: Mapping[str, int]) -> bool:
        """Tell whether a tag is due and the newest snapshot already has a tag, so only a later commit can get it."""
        return due_ms <= self._view.now_ms and self._snapshots[-1].id in tags.values()

    def _walk(self, start_id: int) -> Iterator[Commit]:
        """Yield the commits from an id up to the first gap; if that id is gone, begin with the oldest snapshot."""
        first_id = self._snapshots[0].id
        next_id = max(start_id, first_id)
        going: list[RootRef] = []
        for ref in self._snapshots:
            if ref.id == next_id:
                going.append(ref)
                next_id += 1
            elif ref.id > next_id:
                break
        for start in range(0, len(going), _CHUNK):
            yield from self._commits(going[start : start + _CHUNK])

    def _commits(self, refs: Sequence[RootRef]) -> list[Commit]:
        return [_commit(root) for root in self._view.own_documents(refs)]

    def _read(self, refs: Sequence[RootRef]) -> dict[str, int]:
        """Return name -> snapshot id of tags. A tag that cannot be read gets an id that no snapshot has."""
        tags = tags_by_snapshot(self._view.table.store, refs)
        self._warnings += (f"{ref} cannot be read, so it stays as it is: {why}" for ref, why in tags.unreadable)
        return {root.ref.name: root.snapshot.id for root in tags.whole} | {
            ref.name: _UNKNOWN for ref, _ in tags.unreadable
        }

    def _kept_pointer(self) -> Pointer | None:
        """Return where the last pass stopped, `None` if the rules changed or a rollback happened since."""
        state = known_state(self._view.table)
        if state is None or state.identity != identity_of(self._view.own).number:
            return None
        if state.tag_rules != number_of(_words(self._rules)):
            return None
        before = state.tag_next_snapshot - 1
        etag = next((ref.etag for ref in self._snapshots if ref.id == before), None)
        if number_of(etag) != state.tag_walked if etag is not None else before >= self._snapshots[0].id:
            return None
        next_tag = None if state.tag_next_ms == NEVER_MS else _EPOCH + state.tag_next_ms * _MS
        return Pointer(state.tag_next_snapshot, next_tag)

    def _stopped(self, pointer: Pointer) -> dict[str, int]:
        """Return where this pass stopped, for the state."""
        before = pointer.next_snapshot - 1
        etag = next((ref.etag for ref in self._snapshots if ref.id == before), None)
        return {
            "tag_rules": number_of(_words(self._rules)),
            "tag_next_snapshot": pointer.next_snapshot,
            "tag_next_ms": NEVER_MS if pointer.next_tag is None else (pointer.next_tag - _EPOCH) // _MS,
            "tag_walked": 0 if etag is None else number_of(etag),
        }


def _puts(
    view: TableView, rules: AutoTagRules, options: Mapping[str, str], declared: tzinfo | None, due: DueTag
) -> Iterable[Put]:
    """Return the actions that write a tag: its document and, if the options say so, its success file."""
    (source,) = view.own_documents([ref for ref in view.own.snapshots if ref.id == due.snapshot_id])
    there = next((ref for ref in view.own.tags if ref.name == due.name), None)
    yield put_tag(
        view.own.name,
        due.name,
        source.body,
        source.ref.path,
        created=local_time(view.now_ms, declared or UTC),
        time_retained_ms=rules.time_retained_ms,
        reason=f"snapshot {due.snapshot_id}: {_WHY[due.reason]}",
        etag=None if there is None else there.etag,
    )
    if writes_success_file(options):
        yield put_success(view.table.store, view.own.name, due.name, view.now_ms)


def _commit(root: Root) -> Commit:
    snapshot = root.snapshot
    return Commit(
        id=snapshot.id,
        time_ms=snapshot.time_ms,
        watermark=snapshot.watermark,
        identifier=snapshot.commit_identifier,
        kind=snapshot.commit_kind,
    )


def _later(one: Pointer, other: Pointer | None) -> Pointer:
    """Return the pointer that is later in time; for the same period, the one with the higher snapshot id."""
    if other is None:
        return one
    return max(one, other, key=lambda pointer: (pointer.next_tag or datetime(1, 1, 1), pointer.next_snapshot))


def _words(rules: AutoTagRules) -> str:
    """Return the rules that decide which tags are made, as one text. How long tags are kept does not matter here."""
    return repr(replace(rules, max_count=None, time_retained_ms=None))
