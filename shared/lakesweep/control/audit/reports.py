"""Whether the report of a run agrees with the parts of its ledger."""

from collections.abc import Iterator, Mapping

from lakesweep.control.audit.parts import LedgerPart
from lakesweep.control.chain import MAIN_WRITER

_THROUGH = ("done", "partial")
"""How a run's plan ended when the run has recorded all its deletions. A run with any other end may have failed to."""
_UNDO = "undo"
"""The report of an undo says nothing about its ledger."""


def other_report(run_id: str, frame: Mapping[str, object], by_writer: Mapping[str, list[LedgerPart]]) -> Iterator[str]:
    """Yield the points in which the report of a run and its ledger differ.

    Args:
        run_id: Which run.
        frame: The stored report, checked when it was loaded.
        by_writer: The parts that have a head.
    """
    stated, report = frame.get("ledger"), frame.get("report")
    report = report if isinstance(report, dict) else {}
    outcome = report.get("outcome")
    deleted = outcome.get("deleted", 0) if isinstance(outcome, dict) else 0
    main = by_writer.get(MAIN_WRITER, ())
    if not isinstance(stated, dict):
        if "by" in frame and deleted and report.get("operation") != _UNDO:
            yield f"run {run_id}: its report says that it deleted {deleted} objects; expected it to name their ledger"
        elif main and report.get("operation") != _UNDO:
            yield f"run {run_id}: expected a report that names the parts of its ledger, found one that does not"
        return
    if main and stated.get("parts") != len(main):
        yield f"run {run_id}: its report names {stated.get('parts')} parts; found {len(main)}"
    head = (main[0].head if main else None) or {}
    stated_of_run = {
        "by": frame.get("by"),
        "plan_id": report.get("plan_id"),
        "plan_hash": frame.get("plan_hash"),
        "policy_etag": frame.get("policy_etag"),
    }
    for key, value in stated_of_run.items():
        if main and head.get(key) != value:
            yield f"run {run_id}: its report and its ledger say different things of {key}; expected the same"
    if frame.get("ended") in _THROUGH and by_writer.keys() <= {MAIN_WRITER}:
        rows = sum(part.deleted for part in main)
        if rows != deleted:
            yield f"run {run_id}: its report says that it deleted {deleted} objects; its ledger has {rows}"
