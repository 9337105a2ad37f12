"""The proof of an erasure: a document made of its record alone. It has no value of a row and none of the condition.

It says what was erased when, from where, what is certainly gone, and what nobody can tell.
"""

from collections.abc import Iterator

from lakesweep.control.erasures import load_erasure
from lakesweep.model.commits.erasure import remaining
from lakesweep.model.erasure.places import REASONS, ErasedFiles
from lakesweep.model.erasure.record import Changed, Entry, Erasure, Looked, Searched
from lakesweep.operations.erasure.facts import union_of
from lakesweep.operations.erasure.recording import is_carried_out
from lakesweep.runs.execution import require_area
from lakesweep.runs.session import Table

ERASED, UNFINISHED = "erased", "unfinished"


def proof_of(table: Table, run_id: str) -> dict[str, object]:
    """Return the proof of an erasure; see `docs/cli_json.md`.

    Raises:
        UsageError: The table has no control location.
        RefusedError: There is no such erasure (`no_such_run`), or the record is of another table.
        FormatError: The record is damaged.
        StorageError: A request failed.
    """
    erasure = load_erasure(require_area(table, "proof"), run_id)
    entries = erasure.entries
    places = erasure.looks[-1].places if erasure.looks else ()
    erased, condition = union_of(erasure) or ErasedFiles(0), next(iter(erasure.searches), None)
    found = {
        state: [each.to_json() for each in places if each.state == state] for state in ("gone", "there", "unknown")
    }
    return {
        "table": table.ref.location,
        "branch": erasure.branch,
        "erasure": erasure.run_id,
        "state": _state(erasure),
        "condition": None if condition is None else condition.condition,
        "time_zone": None if condition is None else condition.zone,
        "began_ms": entries[0].at_ms,
        "searched_ms": max((each.erased.searched_ms for each in erasure.searches), default=None),
        "looked_ms": _last_look(erasure),
        "rows": erased.rows,
        "files": sorted(erased.holds),
        "changes": [_change(each, each.fact) for each in entries if isinstance(each.fact, Changed)],
        **found,
        "cannot_tell": list(_doubts(erasure, erased)),
        "sha256": erasure.last,
    }


def _state(erasure: Erasure) -> str:
    last = erasure.entries[-1].fact
    if not isinstance(last, Looked) or not is_carried_out(erasure):
        return UNFINISHED
    return remaining(last.places) or ERASED


def _last_look(erasure: Erasure) -> int | None:
    return max((each.at_ms for each in erasure.entries if isinstance(each.fact, Looked)), default=None)


def _change(entry: Entry, made: Changed) -> dict[str, object]:
    return {
        "at_ms": entry.at_ms,
        "operation": made.operation,
        "branch": made.branch,
        "status": made.status,
        "run_id": made.run_id,
        "snapshots": list(made.snapshots),
        "rows": made.rows,
        "files": made.files,
        "code": made.code,
        "by": entry.actor,
        "version": entry.version,
    }


def _doubts(erasure: Erasure, erased: ErasedFiles) -> Iterator[str]:
    """Yield what nobody can tell."""
    for reason, words in REASONS.items():
        names = sorted(name for name, why in erased.may_hold.items() if why == reason)
        if names:
            yield f"whether {', '.join(names)} had such rows: {words}"
    if erased.unread:
        yield f"which files had such rows that only these name, which could not be read: {', '.join(erased.unread)}"
    if any(isinstance(each.fact, Searched) for each in erasure.entries):
        yield "rows that came after the last search, or that a rollback brought back since"
    yield "copies outside this table: exports, other tables, replicas and backups of the bucket, logs of other programs"
