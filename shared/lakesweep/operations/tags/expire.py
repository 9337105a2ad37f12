"""`expire-tags`: delete tags that are past their time to live, or that no calendar rule keeps, and their own files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, tzinfo

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.values.zone import parse_zone
from lakesweep.model.damage import DAMAGED_ROOTS
from lakesweep.model.plan import Plan
from lakesweep.model.policy import KeepRules, TagFacts
from lakesweep.model.roots import branch_dir
from lakesweep.operations.tags.delete import OwnTags, files_at_stake, plan_removal, read_own_tags
from lakesweep.operations.tags.options import auto_tag_rules, check_callbacks, declared_zone, expires_by_time
from lakesweep.operations.tags.rules.automatic import beyond_count
from lakesweep.operations.tags.rules.expiry import Verdict, judge_tags
from lakesweep.operations.tags.rules.periods import period_of
from lakesweep.runs.damage import lost_findings, warnings_of
from lakesweep.runs.fleet import rule_of, ruling_of
from lakesweep.runs.parameters.parameter import stated
from lakesweep.runs.parameters.retention_options import time_retained
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView, begin, inputs_of

OPERATION = "expire-tags"
_ZONE = "sink.process-time-zone"
UNREADABLE = "unreadable"
"""Why a tag is kept: its document does not parse."""
UNREADABLE_ROOT = "unreadable_root"
"""Why a tag that alone needs files is kept: another root is unreadable, so it is not known which files it needs."""


@dataclass(frozen=True, slots=True)
class ExpireTagsArguments:
    """The arguments of a call."""

    older_than_ms: int | None = None
    """Tags that were made before this time are deleted, with or without a time to live."""
    keep: tuple[KeepRules, ...] = ()
    """Calendar rules of the call. The rules of the fleet policy apply as well."""
    time_zone: str | None = None
    """The zone of creation times and of the calendar; default: the fleet policy's."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options for this call."""
    is_pass: bool = False
    """This is the pass after a commit, which follows `tag.time-expire-enabled`."""
    counts: bool = False
    """Tags were just made, so tags beyond `tag.num-retained-max` are deleted as well."""

    def to_json(self) -> dict[str, object]:
        """Return the arguments that were given."""
        keep = [rules.to_json() for rules in self.keep]
        return stated(older_than_ms=self.older_than_ms, keep=keep, time_zone=self.time_zone, options=self.options)


def plan_expire_tags(table: Table, arguments: ExpireTagsArguments, view: TableView | None = None) -> Plan:
    """Plan the deletion of tags that are due. The plan's findings say why each tag is deleted or kept.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        view: The table as it was just listed, if it was.

    Raises:
        RefusedError: This is no table, a rule is invalid, `older_than` is in the future, or Paimon would call callbacks
            when it deletes a tag.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.

    Source: Paimon `TagTimeExpire`, `TagAutoCreation`.
    """
    view = begin(table, OPERATION) if view is None else replace(view, operation=OPERATION)
    if arguments.older_than_ms is not None:
        time_retained(arguments.older_than_ms, view.now_ms, table.clock_ms())  # refuses a time in the future
    options = {**view.schema.options, **arguments.options}
    ruling = ruling_of(table)
    keep = tuple(dict.fromkeys((*arguments.keep, *rule_of(ruling).tags)))
    declared = declared_zone(table, arguments.time_zone, ruling)
    by_time = not arguments.is_pass or expires_by_time(options)
    policy: dict[str, object] = {"keep": [rules.to_json() for rules in keep]} if keep else {}
    inputs = inputs_of(view.own, arguments.to_json(), policy)
    if not view.own.tags or not (by_time or keep or arguments.counts or arguments.older_than_ms is not None):
        lost = lost_findings(view)
        return view.plan((), inputs, warnings=warnings_of(lost), findings=lost)
    own = read_own_tags(view)
    verdict, notes = judge_own(view, own, options, keep, declared, by_time, arguments.older_than_ms, arguments.counts)
    if verdict.going:
        check_callbacks(table, options)
    going, held, warnings = dict(verdict.going), dict[str, str](), tuple[str, ...]()
    if going and not view.own.snapshots:  # a tag may be all that remains of the table
        going, held = {}, dict.fromkeys(going, "no_snapshot")
        warnings = (f"no snapshot is left in branch {view.own.name}, so its tags are kept",)
    why = {name: _sentence(word, arguments) for name, word in going.items()}
    problem: str | None = None
    try:
        removal = plan_removal(view, own, why, options)
    except RefusedError as error:
        if error.code != UNREADABLE_ROOT:
            raise
        # The deletion of a tag's document alone deletes no file. So tags that alone need no file are deleted all the
        # same.
        at_stake = {name for names in files_at_stake(view, own, going).values() for name in names}
        held |= dict.fromkeys(sorted(at_stake), UNREADABLE_ROOT)
        warnings = (*warnings, f"tags that alone hold files are kept: {error}")
        going = {name: word for name, word in going.items() if name not in at_stake}
        removal = plan_removal(view, own, {name: why[name] for name in going}, options)
        problem = str(error)
    damage = dict(removal.damage)
    if problem is not None:
        # The refusal names the root only in its sentence, so the branch is the key.
        damage = {DAMAGED_ROOTS: damage.get(DAMAGED_ROOTS) or {f"branch {view.own.name}": problem}}
    kept = {name: list(reasons) for name, reasons in verdict.kept.items()}
    kept |= {name: [word] for name, word in held.items()}
    kept |= {name: [UNREADABLE] for name in own.unreadable}
    return view.plan(
        removal.actions,
        inputs,
        kept=removal.kept.count,
        kept_bytes=removal.kept.size_bytes,
        warnings=(
            *(f"a tag cannot be read, so it is kept: {problem}" for problem in own.unreadable.values()),
            *warnings,
            *notes,
            *removal.warnings,
        ),
        needs_confirmation=removal.is_large and not arguments.is_pass,
        findings={
            **damage,
            "tags": {
                "kept": dict(sorted(kept.items())),
                "going": dict(sorted(going.items())),
                "notes": list(notes),
                "next_due_ms": verdict.next_due_ms,
            },
        },
        next_pass={} if verdict.next_due_ms is None else {"tags_due_ms": verdict.next_due_ms},
    )


def _sentence(word: str, arguments: ExpireTagsArguments) -> str:
    """Return in words why a tag is deleted."""
    if word == "older_than" and arguments.older_than_ms is not None:
        return f"it was made before {say_time(arguments.older_than_ms)}"
    return {
        "time_to_live": "its time to live is over",
        "count": "the table keeps fewer automatic tags",
        "keep_rules": "no calendar rule keeps it",
    }.get(word, word)


def judge_own(
    view: TableView,
    own: OwnTags,
    options: Mapping[str, str],
    keep: Sequence[KeepRules],
    declared: tzinfo | None,
    by_time: bool = False,
    older_than_ms: int | None = None,
    counts: bool = False,
) -> tuple[Verdict, tuple[str, ...]]:
    """Judge the tags of a branch; see `judge_tags`. Also return notes for the report.

    Args:
        view: The branch.
        own: Its tags.
        options: The table's options, overridden by the call's.
        keep: Calendar rules.
        declared: The zone that the call or the fleet policy declares.
        by_time: Delete tags when their time to live is over.
        older_than_ms: Delete tags that were made before this time.
        counts: Delete automatic tags beyond the number that the table keeps.

    Raises:
        RefusedError: One of the table's options is invalid.
        StorageError: A request failed.
    """
    zone, notes = _calendar_zone(options, declared) if keep else (UTC, ())
    names = auto_tag_rules(options, UTC) if keep else None  # names need no zone
    verdict = judge_tags(
        _facts(view, own, with_times=older_than_ms is not None),
        now_ms=view.now_ms,
        zone=declared,
        calendar_zone=zone,
        keep=keep,
        by_time=by_time,
        older_than_ms=older_than_ms,
        beyond=_beyond(own, options, declared) if counts else (),
        period_of=None if names is None else lambda name: period_of(names, name),
    )
    return verdict, (*notes, *verdict.notes)


def _facts(view: TableView, own: OwnTags, *, with_times: bool) -> tuple[TagFacts, ...]:
    """Return the facts that the rules need about each tag.

    Args:
        view: The branch.
        own: Its tags.
        with_times: Also find out when the documents were written, which costs another listing.
    """
    written: dict[str, int] = {}
    if with_times:
        folder = f"{branch_dir(view.own.name)}tag/"
        written = {entry.key: entry.modified_ms for entry in view.table.store.list(folder)}
    return tuple(
        TagFacts(
            name=name,
            snapshot_id=tag.snapshot.id,
            commit_ms=tag.snapshot.time_ms,
            modified_ms=written.get(own.roots[name].ref.path, view.now_ms),
            create_time=tag.create_time,
            time_retained_ns=tag.time_retained_ns,
        )
        for name, tag in own.tags.items()
    )


def _calendar_zone(options: Mapping[str, str], declared: tzinfo | None) -> tuple[tzinfo, tuple[str, ...]]:
    """Return the zone of the calendar, and a note about it if one is needed.

    Raises:
        RefusedError: The table's option names no valid zone.
    """
    if declared is not None:
        return declared, ()
    if _ZONE not in options:
        return UTC, (f"no time zone is declared and {_ZONE} is not set, so the calendar uses UTC",)
    try:
        return parse_zone(options[_ZONE], _ZONE), ()
    except FormatError as error:
        raise RefusedError(str(error), code="bad_option") from error


def _beyond(own: OwnTags, options: Mapping[str, str], declared: tzinfo | None) -> tuple[str, ...]:
    """Return the automatic tags beyond the number that the table keeps."""
    rules = auto_tag_rules(options, declared)
    return () if rules is None else beyond_count(rules, {name: own.snapshot_id(name) for name in own.tags})
