"""What a person should know about a table: the findings of `check`, and those that only an overview counts."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from lakesweep.errors import FormatError, RefusedError
from lakesweep.model.overview import Finding, Severity
from lakesweep.model.roots import MAIN
from lakesweep.operations.inspect.check.retention import retention_findings
from lakesweep.operations.inspect.check.roots import schema_findings
from lakesweep.operations.inspect.check.table import (
    hint_findings,
    history_findings,
    hole_findings,
    lease_findings,
)
from lakesweep.operations.inspect.health import Finding as Checked
from lakesweep.operations.inspect.health import command
from lakesweep.operations.inspect.judging import Judging
from lakesweep.operations.maintenance.newest import Look
from lakesweep.operations.overview.facts import Facts, main_of
from lakesweep.runs.fleet import limited, may_delete
from lakesweep.runs.parameters.retention_options import ExpireArguments, is_stated
from lakesweep.runs.view import TableView
from lakesweep.table.documents import read_schema
from lakesweep.table.reach.live_set import Wholeness
from lakesweep.table.reach.missing import Missing

SEVERITIES: Mapping[str, Severity] = {
    "lost_history": "act",
    "damaged_root": "act",
    "missing_files": "act",
    "lost_schema": "act",
    "lost_changelog": "act",
    "commit_replaced": "act",
    "wrong_hint": "act",
    "unfinished_plan": "act",
    "consumer_ahead": "act",
    "bad_option": "act",
    "unreadable_document": "act",
    "commit_doubtful": "look",
    "slow_hint": "look",
    "hole_in_ids": "look",
    "stuck_lease": "look",
    "snapshots_overdue": "look",
    "consumer_holds": "look",
    "retention_not_stated": "look",
    "tags_pin": "look",
    "files_may_be_expiring": "look",
    "files_not_known": "look",
    "files_outside": "look",
    "versions_not_counted": "look",
}
"""Code -> severity, the most urgent code first."""
_CODES = {
    "history": "lost_history",
    "ids": "hole_in_ids",
    "plans": "unfinished_plan",
    "lease": "stuck_lease",
    "policy": "bad_option",
    "retention": "snapshots_overdue",
}
MUCH = 0.1
"""Tags without a time to live are told of if they alone keep this share of the table's bytes."""


class Forever(NamedTuple):
    """The tags of main without a time to live."""

    tags: int
    bytes: int
    """What they alone keep; 0: nothing, or not known."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the measure has found out, for the findings."""

    facts: Facts
    judging: Judging
    missing: Missing
    bytes: int
    """Of the whole table."""
    forever: Forever
    versions_problem: str | None = None
    turns: list[int] = field(default_factory=list)
    """Receives times after which another finding may come."""


def findings_of(known: Known) -> tuple[Finding, ...]:
    """Return all findings.

    Raises:
        StorageError: A request failed.
    """
    return (*_damage(known), *_checked(known), *_replaced(known), *_figures(known))


def ordered(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings, each once, the most severe first."""
    order = {code: place for place, code in enumerate(SEVERITIES)}
    return tuple(sorted(dict.fromkeys(found), key=lambda each: order[each.code]))


def _finding(code: str, says: str, mend: str | None = None) -> Finding:
    return Finding(code, SEVERITIES[code], says.removesuffix("."), mend)


def _damage(known: Known) -> Iterator[Finding]:
    table, live = known.judging.table, known.judging.found.live
    check = command("check", table.ref.location, "--all-roots", executes=False)
    if live.damaged:
        path, problem = min(live.damaged.items())
        count = "1 root is" if len(live.damaged) == 1 else f"{len(live.damaged)} roots are"
        yield _finding("damaged_root", f"{count} damaged, and orphan files are not deleted; {path}: {problem}", check)
    missing = known.missing
    for says in replace(missing, unknown=0).warnings(live.damaged.values()):
        yield _finding("files_may_be_expiring" if missing.may_be_expiring else "missing_files", says, check)
    for says in replace(missing, files=()).warnings():
        yield _finding("files_not_known", says, check)
    found, schemas = known.judging.found, dict[tuple[str, int], str]()
    by_branch = {name: {each.name for each in own.schemas} for name, own in found.listing.branches.items()}
    for root in known.judging.roots:
        ref, schema_id = root.ref, root.snapshot.schema_id
        if by_branch[ref.branch] and str(schema_id) not in by_branch[ref.branch]:
            schemas.setdefault((ref.branch, schema_id), ref.path)
    for (_, schema_id), path in schemas.items():
        yield _finding("lost_schema", f"{path} needs schema {schema_id}, which does not exist", check)
    unless_tagged = Wholeness(table.store, found.listing, frozenset())
    lost = [path for path in live.incomplete if unless_tagged.is_strict(found.roots[path], "changelog")]
    if lost:
        count = "1 snapshot has" if len(lost) == 1 else f"{len(lost)} snapshots have"
        says = f"{count} lost their changelog, so streaming readers fail there; {lost[0]}: {live.incomplete[lost[0]]}"
        yield _finding("lost_changelog", says, check)


def _checked(known: Known) -> Iterator[Finding]:
    """Yield what `check` finds without reading anything else."""
    table, listing, facts = known.judging.table, known.judging.found.listing, known.facts
    location = table.ref.location
    yield from (_of_check(location, each) for each in history_findings(table, listing))
    yield from (_of_check(location, each, "lost_schema") for each in schema_findings(table, listing))
    for name, branch in listing.branches.items():
        if not branch.schemas:
            continue
        for harm, each in hint_findings(table.store, branch, location):
            yield _of_check(location, each, "slow_hint" if harm == "slow" else "wrong_hint")
        yield from (_of_check(location, each) for each in hole_findings(branch, location))
        of_branch = replace(table, ref=replace(table.ref, branch=name))
        try:
            found = tuple(
                retention_findings(
                    of_branch,
                    listing,
                    facts.ruling,
                    is_maintained=may_delete(facts.ruling),
                    turns=known.turns.append,
                )
            )
        except (RefusedError, FormatError) as error:
            yield _finding("unreadable_document", str(error), command("check", location, executes=False))
            continue
        yield from (_of_check(location, each) for each in found)
    control = facts.control
    if control.problem is not None:
        yield _finding("stuck_lease", control.problem, command("runs", location, executes=False))
    elif control.lease is not None:
        yield from (_of_check(location, each) for each in lease_findings(location, control.lease, facts.now_ms))


def _of_check(location: str, found: Checked, code: str | None = None) -> Finding:
    """Return a finding of `check`. A mend that is no command becomes the call of `check`, which says it."""
    is_command = found.mend.startswith("lakesweep ")
    if found.check == "consumers":
        code = "consumer_ahead" if found.mend.startswith("lakesweep reset-consumer") else "consumer_holds"
    mend = found.mend if is_command else command("check", location, executes=False)
    return _finding(code or _CODES.get(found.check, "unreadable_document"), found.says, mend)


def _replaced(known: Known) -> Iterator[Finding]:
    """Yield the snapshots of main that a writer without a lock replaced since the last pass."""
    facts, table = known.facts, known.judging.table
    own = main_of(known.judging.found.listing)
    if facts.control.state is None and facts.control.lease is None:
        return
    try:
        view = TableView(
            table, "overview", known.judging.found.listing, own, read_schema(table.store, own), facts.now_ms
        )
        record = None if facts.control.lease is None else facts.control.lease.commits.get(MAIN)
        looked = Look(view, table.clock_ms(), record=record).compare(facts.control.state)
    except (RefusedError, FormatError):
        return
    runs = command("runs", table.ref.location, executes=False)
    for lost in looked.lost:
        yield _finding("commit_replaced", lost.sentence(), runs)
    for says in looked.warnings[len(looked.lost) :]:
        yield _finding("commit_doubtful", says, runs)


def _figures(known: Known) -> Iterator[Finding]:
    table, facts = known.judging.table, known.facts
    location, own = table.ref.location, main_of(known.judging.found.listing)
    if own.schemas:
        try:
            stated = is_stated(read_schema(table.store, own).options)
        except RefusedError:
            stated = True  # it is told already
        if not stated and limited(ExpireArguments(), facts.ruling).otherwise is None:
            who = "the schema states" if facts.ruling is None else "neither the schema nor the fleet policy states"
            says = f"{who} no retention" if facts.ruling is None else f"{who} a retention"
            yield _finding(
                "retention_not_stated",
                f"{says}, so unattended maintenance deletes nothing",
                command("show", location, executes=False),
            )
    count, pinned = known.forever
    if pinned and pinned >= MUCH * known.bytes:
        tags, keep = ("1 tag has", "keeps") if count == 1 else (f"{count} tags have", "keep")
        yield _finding(
            "tags_pin",
            f"{tags} no time to live and alone {keep} {pinned * 100 // known.bytes} % of the table's bytes",
            command("tags", location, executes=False),
        )
    if known.judging.stores.external_roots:
        places = ", ".join(known.judging.stores.external_roots)
        yield _finding("files_outside", f"files below {places} lie outside the table and are not counted")
    if known.versions_problem is not None:
        yield _finding(
            "versions_not_counted", f"versions that are not current are not counted: {known.versions_problem}"
        )
