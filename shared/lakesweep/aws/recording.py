"""What the functions log and count of a run. A function that makes no run needs none of this."""

from typing import Any

from lakesweep.aws.telemetry import Telemetry
from lakesweep.model.commits.lost import count_lost
from lakesweep.model.commits.manifests import ManifestsReport
from lakesweep.model.outcome import Outcome
from lakesweep.model.plan import Delete, Plan, Put
from lakesweep.model.report import RunReport
from lakesweep.operations.tags import automatic as auto_tags
from lakesweep.operations.tags import create as create_tag
from lakesweep.operations.tags import expire as expire_tags
from lakesweep.runs.fleet import OBSERVED

SKIPPED = frozenset({"paused", "retention_not_stated", OBSERVED, "plan_undone"})
"""Codes of refusals that follow from an operator's choice."""
PASSING = frozenset({"snapshot_is_going", "snapshot_vanished"})
"""Codes of refusals because a tag's snapshot is being deleted by another run. A later pass finds the table in order."""
REPLACED = "commit_replaced"
GIVEN_UP = frozenset(
    {"commit_conflict", "commit_timeout", "commit_failed", "commit_unknown", REPLACED, "base_vanished", "snapshot_left"}
)
"""Codes of commits that came to nothing: other writers were always first, the store did not answer, or a rollback took
away what the commit was built on."""
REFUSED = "RunsRefused"
_STATUS = {
    "done": "RunsDone",
    "partial": "RunsPartial",
    "refused": REFUSED,
    "stale": "RunsStale",
    "damaged": "RunsDamaged",
    "commit_lost": "RunsDone",
}
_WARNED = frozenset({REFUSED, "RunsPartial", "RunsDamaged"})


def record(telemetry: Telemetry, report: RunReport) -> None:
    """Log a run and count it."""
    telemetry.count("Runs")
    document = summary_of(report)
    telemetry.count(status_metric(report))
    for name, value in _totals_of(report).items():
        if value:
            telemetry.count(name, value)
    telemetry.count_requests(report.requests)
    is_warning = status_metric(report) in _WARNED or report.all_lost()
    say = telemetry.warn if is_warning else telemetry.tell
    say(f"{report.operation} of {report.table}: {report.told_status}", run=document)


def status_metric(report: RunReport) -> str:
    """Return the metric that counts how a run ended."""
    if report.refusal is not None and report.refusal.code in SKIPPED:
        return _STATUS["damaged"] if report.is_damaged else "RunsSkipped"
    if report.status == "refused" and report.refusal is not None and report.refusal.code in PASSING:
        return _STATUS["stale"]
    return _STATUS.get(report.told_status, "RunsSkipped")


def _totals_of(report: RunReport) -> dict[str, int]:
    """Return the results of a run, summed over all its steps.

    A run that creates tags reports only the tags that it created, even if some failed. A run that deletes tags may
    be continued, so it reports them only when all are deleted.
    """
    outcome = sum((step.outcome for step in report.leaves() if step.outcome is not None), Outcome())
    lost = report.all_lost()
    codes = [step.refusal.code for step in report.leaves() if step.refusal is not None]
    reported = [step.commits for step in report.leaves() if step.commits is not None]
    commits = [commit for each in reported for commit in each.made]
    ran = [(step, step.plan) for step in report.leaves() if step.executed and step.plan is not None]
    return {
        "ObjectsDeleted": outcome.deleted,
        "BytesFreed": outcome.deleted_bytes,
        "TagsCreated": sum(_tags(plan, Put) for step, plan in ran if step.operation in _CREATING),
        "TagsExpired": sum(
            _tags(plan, Delete)
            for step, plan in ran
            if step.operation == expire_tags.OPERATION and step.status == "done"
        ),
        "CommitsMade": len(commits),
        "CommitsReplaced": sum(commit.replaced for commit in commits)
        + sum(each.replaced for each in reported)
        + count_lost(lost, ours=True),
        "CommitsLost": count_lost(lost, ours=False),
        "CommitsFailed": sum(code in GIVEN_UP for code in codes),
        "ManifestsMerged": sum(_merged(step) for step in report.leaves()),
        "PartitionsDropped": sum(commit.partitions for commit in commits),
    }


def _merged(step: RunReport) -> int:
    """Return how many manifests less the newest snapshot names after a compaction."""
    commits = step.commits
    if not isinstance(commits, ManifestsReport) or not commits.made or commits.after is None:
        return 0
    return commits.before.manifests - commits.after.manifests


def _tags(plan: Plan, action: type[Put] | type[Delete]) -> int:
    return sum(isinstance(each, action) and each.kind == "tag" for each in plan.actions)


_CREATING = frozenset({create_tag.CREATE, create_tag.REPLACE, auto_tags.OPERATION})


def summary_of(report: RunReport) -> dict[str, object]:
    """Return a run's summary for a log line or an answer: the report without the possibly long list of objects."""
    document = report.to_json()
    outcome: Any = document["outcome"]
    if outcome is not None:
        outcome = {**outcome, "failed": outcome["failed"][:10], "failed_count": len(outcome["failed"])}
    for name in ("actions", "created"):
        del document[name]
    steps = None if report.steps is None else [summary_of(step) for step in report.steps]
    return {**document, "outcome": outcome, "steps": steps}
