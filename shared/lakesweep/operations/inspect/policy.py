"""`policy test`: what the fleet policy says about one table, which rule decides what, and what looks wrong in it.

A warning stops nothing. It names a rule whose author may have meant something else. Such a rule names a folder that
does not exist, or a rule for a longer folder weakens it, or only one of two statements can hold.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from lakesweep.errors import MaintenanceError, UsageError
from lakesweep.format.codec import to_json
from lakesweep.model.fleet_policy import FleetPolicy
from lakesweep.model.pause import Pause, folder_text, utc_text
from lakesweep.model.policy import FleetRule, SnapshotRetention
from lakesweep.operations.lifetimes.ruling import FIELDS, ShownRuling, StatedField, show_ruling, value_of
from lakesweep.runs.fleet import Ruling, in_force, limited, read_policy, rule_of
from lakesweep.runs.parameters.retention_options import ExpireArguments, is_stated, snapshot_retention
from lakesweep.runs.parameters.times import say_span
from lakesweep.runs.session import Table
from lakesweep.runs.view import begin
from lakesweep.storage.location import spell
from lakesweep.storage.store import Store

LOOKED_AT = 100
"""Lakesweep looks whether this many folders of rules exist."""
_MEANS = {
    "delete": "a pass deletes what its plans say",
    "observe": "a pass plans, and deletes nothing",
    "paused": "no pass runs, and no command changes the table",
}


@dataclass(frozen=True, slots=True)
class MatchingRule:
    """A rule that matches the table."""

    tables: str
    decides: tuple[str, ...]
    """The fields that it decides."""
    overridden: tuple[str, ...]
    """The fields that it states, and that a rule of a longer folder decides."""


@dataclass(frozen=True, slots=True)
class PolicyTest:
    """Everything that `policy test` says."""

    table: str
    branch: str
    policy: ShownRuling
    means: str
    rules: tuple[MatchingRule, ...]
    """The longest folder last."""
    defaults: tuple[StatedField, ...]
    """The fields that no rule states."""
    retention: SnapshotRetention
    """The rules of the next pass."""
    retention_from: Literal["schema", "policy", "defaults"]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        return {
            **{name: to_json(getattr(self, name)) for name in ("table", "branch", "policy", "means", "rules")},
            "defaults": {each.field: each.value for each in self.defaults},
            "retention": self.retention.to_json(),
            "retention_from": self.retention_from,
            "warnings": list(self.warnings),
        }


def try_policy(table: Table) -> PolicyTest:
    """Say what the fleet policy means for a branch.

    Raises:
        UsageError: No policy is given, or it is invalid.
        RefusedError: This is no table, or an option of its schema does not parse.
        StorageError: A request failed.
    """
    if table.policy is None:
        raise UsageError("no fleet policy is given; expected --policy LOCATION or $LAKESWEEP_POLICY", code="bad_policy")
    policy = read_policy(table.open_store, table.policy)
    view = begin(table, "policy-test")
    stated, policy = policy, in_force(policy, table.store)
    matching = policy.rules_for(spell(table.ref.location))
    ruling = Ruling(policy.location, policy.rule_for(spell(table.ref.location)))
    shown, rule, limits = show_ruling(ruling), rule_of(ruling), limited(ExpireArguments(), ruling)
    is_own = is_stated(view.schema.options)
    return PolicyTest(
        table=table.ref.location,
        branch=view.own.name,
        policy=shown,
        means=_MEANS[shown.treatment],
        rules=tuple(_matching(each, rule) for each in matching),
        defaults=tuple(StatedField(name, value_of(rule, name), "") for name in FIELDS if name not in rule.deciders),
        retention=snapshot_retention(view.schema.options, limits, view.now_ms, table.clock_ms()),
        retention_from="schema" if is_own else "defaults" if limits.otherwise is None else "policy",
        warnings=(
            *_over(stated, policy),
            *_doubts(matching, rule),
            *(() if is_own or limits.otherwise is not None else (_UNSTATED,)),
            *_missing(policy, matching, table.open_store),
        ),
    )


_UNSTATED = "neither the schema nor the policy states a retention, so no snapshot expires in a pass"


def _over(policy: FleetPolicy, now: FleetPolicy) -> Iterator[str]:
    """Yield the pauses of the table that are over.

    Args:
        policy: As it was read.
        now: The same without them.
    """
    for folder, pause in policy.pauses.items():
        if isinstance(pause, Pause) and pause.until_ms is not None and folder not in now.pauses:
            since = utc_text(pause.until_ms)
            yield f"the pause of {folder_text(folder)} is over since {since}; the next pause or resume removes it"


def _matching(rule: FleetRule, merged: FleetRule) -> MatchingRule:
    decides = tuple(name for name in FIELDS if merged.deciders.get(name) == rule.tables)
    return MatchingRule(rule.tables, decides, tuple(n for n in FIELDS if n in rule.deciders and n not in decides))


def _doubts(rules: Sequence[FleetRule], merged: FleetRule) -> Iterator[str]:
    """Yield what looks wrong in the rules of one table.

    Args:
        rules: The rules that match, the longest folder last.
        merged: What they say together.
    """
    by, retention, floor = merged.deciders, merged.retention, merged.floor
    for rule in rules:
        if not rule.deciders:
            yield f"the rule for {rule.tables} states nothing"
        if rule.pause and not merged.pause:
            yield f"the rule for {by['pause']} lifts the pause of {folder_text(rule.tables)}"
        if merged.min_snapshots < rule.min_snapshots:
            yield (
                f"the rule for {by['min_snapshots']} lowers min_snapshots of {rule.tables} from {rule.min_snapshots} "
                f"to {merged.min_snapshots}"
            )
        if merged.min_time_retained_ms < rule.min_time_retained_ms:
            lower, upper = say_span(merged.min_time_retained_ms), say_span(rule.min_time_retained_ms)
            yield (
                f"the rule for {by['min_time_retained_ms']} lowers min_time_retained of {rule.tables} from {upper} to "
                f"{lower}"
            )
        for user in rule.protect_commit_users:
            if user not in merged.protect_commit_users:
                folder = by["protect_commit_users"]
                yield f"the rule for {folder} does not protect commit user {user}, which {rule.tables} protects"
    if retention is not None and floor is not None:
        if retention.retain_max < floor.retain_min:
            yield (
                f"the retention for {by['retention']} keeps at most {retention.retain_max} snapshots, and "
                f"min_snapshots for {by['min_snapshots']} at least {floor.retain_min}: the minimum holds"
            )
        if retention.time_retained_ms < floor.time_retained_ms:
            own, least = say_span(retention.time_retained_ms), say_span(floor.time_retained_ms)
            yield (
                f"the retention for {by['retention']} keeps snapshots for {own}, and min_time_retained for "
                f"{by['min_time_retained_ms']} for {least}: the longer time holds"
            )
    if merged.catalog_type in (None, "rest"):
        other = "no rule states a catalog_type"
        if merged.catalog_type is not None:
            other = f"that for {by['catalog_type']} states the catalog_type {merged.catalog_type}"
        if merged.partitions:
            yield f"the rule for {by['partitions']} lets partitions expire, and {other}: none does"
        if merged.manifests:
            yield f"the rule for {by['manifests']} has manifests compacted, and {other}: passes compact none"
        if merged.compaction:
            yield f"the rule for {by['compaction']} has data files compacted, and {other}: passes compact none"
    if merged.catalog_lock and merged.catalog_type is None:
        lock = by["catalog_lock"]
        yield f"the rule for {lock} states a catalog_lock, and no rule a catalog_type: nothing is committed"
    elif merged.catalog_lock and by.get("catalog_type", by["catalog_lock"]) != by["catalog_lock"]:
        yield f"the rule for {by['catalog_type']} states a catalog_type, and inherits the lock of {by['catalog_lock']}"
    if merged.tags and merged.time_zone is None:
        yield f"the rule for {by['tags']} has calendar rules, and no rule states a time_zone"


def _missing(policy: FleetPolicy, matching: Sequence[FleetRule], open_store: Callable[[str], Store]) -> Iterator[str]:
    """Yield the folders of other rules where nothing lies, and those that could not be looked at."""
    others = [rule.tables for rule in policy.rules if rule not in matching]
    for folder in others[:LOOKED_AT]:
        try:
            is_there = next(iter(open_store(folder).list("")), None) is not None
        except MaintenanceError as error:
            yield f"whether something lies at {folder}, which a rule names, could not be found out: {error}"
            continue
        if not is_there:
            yield f"a rule names {folder}, and nothing lies there"
    if len(others) > LOOKED_AT:
        yield f"the policy has {len(others)} other rules; only {LOOKED_AT} of their folders were looked at"
