"""Find the rule of the fleet policy for a table, and apply it.

The policy governs the pass after a commit (`maintain`), which runs unattended. It does not govern manual calls, except
that nothing is deleted from a paused table. A policy that cannot be read never counts as "no policy".
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from lakesweep.errors import HeldBackError, ObjectNotFoundError, StorageError, UsageError
from lakesweep.format.values.json_document import MAX_BYTES
from lakesweep.model.fleet_document import parse_fleet_policy
from lakesweep.model.fleet_policy import FleetPolicy
from lakesweep.model.pause import Pause, folder_text, said
from lakesweep.model.policy import FleetRule
from lakesweep.runs.parameters.retention_options import ExpireArguments
from lakesweep.runs.session import Table
from lakesweep.storage.location import spell
from lakesweep.storage.store import Body, Store


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the fleet policy says about one table."""

    policy: str
    """Location of the document."""
    rule: FleetRule | None
    """What all rules that match the table say together. `None`: no rule matches, so the table is observed."""


_NO_RULE = FleetRule("")
POLICY_ETAG = "policy_etag"
"""The key in a table's notes of the ETag of the policy that was read."""
OBSERVED = "table_observed"
"""Code for a plan of unattended maintenance that is not executed, since the fleet policy says to observe."""


def rule_of(ruling: Ruling | None) -> FleetRule:
    """Return what the fleet policy says about a table; without a policy or a rule, a rule that states nothing."""
    return _NO_RULE if ruling is None or ruling.rule is None else ruling.rule


def may_delete(ruling: Ruling | None) -> bool:
    """Tell whether the pass after a commit may delete: without a policy it may."""
    rule = rule_of(ruling)
    return ruling is None or (rule.mode == "delete" and not rule.pause)


def why_observed(ruling: Ruling | None) -> tuple[str, ...]:
    """Return a sentence that says why nothing is deleted; nothing if the pass may delete."""
    if ruling is None or may_delete(ruling):
        return ()
    return (f"{why_kept(ruling)}: planned, and nothing deleted",)


def why_kept(ruling: Ruling) -> str:
    """Return the clause that says why a pass deletes nothing from a table: who says so, of which folder."""
    rule = rule_of(ruling)
    if rule.pause:
        return f"policy {ruling.policy} says of {folder_text(rule.deciders['pause'])} to pause{said(rule.pause)}"
    if "mode" in rule.deciders:
        return f"policy {ruling.policy} says of {rule.deciders['mode']} to observe"
    if ruling.rule is None:
        return f"policy {ruling.policy} has no rule for this table, so it is observed"
    return f"policy {ruling.policy} states no mode for {rule.tables}, so the table is observed"


def limited(arguments: ExpireArguments, ruling: Ruling | None) -> ExpireArguments:
    """Return `arguments` with the floor and protected users of the rule, and its retention for a schema without one."""
    rule = rule_of(ruling)
    return replace(
        arguments,
        protect_commit_users=tuple(dict.fromkeys((*arguments.protect_commit_users, *rule.protect_commit_users))),
        floor=rule.floor,
        otherwise=rule.retention,
        otherwise_of=rule.deciders.get("retention"),
    )


def ruling_of(table: Table) -> Ruling | None:
    """Return what the fleet policy says about a table, `None` without a policy.

    Raises:
        UsageError: The location of the policy holds no valid policy.
        StorageError: The policy cannot be read.
    """
    if table.policy is None:
        return None
    policy = read_policy(table.open_store, table.policy)
    if policy.etag is not None:
        table.notes[POLICY_ETAG] = policy.etag
    return ruling_in(policy, table.store)


def ruling_in(policy: FleetPolicy | None, table: Store) -> Ruling | None:
    """Return what a policy says about a table now, `None` without a policy.

    Args:
        policy: As it was read.
        table: The table's store. Only its clock ends a pause, so no worker with a wrong clock begins early.

    Raises:
        StorageError: The time is needed, and the store does not answer.
    """
    if policy is None:
        return None
    policy = in_force(policy, table)
    return Ruling(policy.location, policy.rule_for(spell(table.location)))


def in_force(policy: FleetPolicy, table: Store) -> FleetPolicy:
    """Return a policy without the pauses of a table that are over by its store's clock.

    A clock that may be this machine's own, where files have the times of another, ends no pause.

    Raises:
        StorageError: The time is needed, and the store does not answer.
    """
    has_end = any(
        isinstance(each.pause, Pause) and each.pause.until_ms is not None
        for each in policy.rules_for(spell(table.location))
    )
    if not has_end or getattr(table, "clock_is_doubtful", False):
        return policy
    return policy.at(table.now_ms())


def watched_ruling(table: Table) -> Ruling | None:
    """Return what the fleet policy says about a table that is not paused.

    Raises:
        HeldBackError: The table is paused.
        UsageError: The location of the policy holds no valid policy.
        StorageError: The policy cannot be read.
    """
    ruling = ruling_of(table)
    rule = rule_of(ruling)
    if rule.pause and ruling is not None:
        where = f"policy {ruling.policy} says so of {folder_text(rule.deciders['pause'])}"
        raise HeldBackError(f"table {table.ref} is paused: {where}{said(rule.pause)}")
    return ruling


def check_policy(table: Table, *, manual: bool) -> None:
    """Make sure that a plan may be executed.

    Args:
        table: The table of the plan.
        manual: A person asked for it, so only the policy's pause matters.

    Raises:
        HeldBackError: It may not.
        UsageError: The location of the policy holds no valid policy.
        StorageError: The policy cannot be read.
    """
    ruling = watched_ruling(table)
    if not manual and not may_delete(ruling):
        raise HeldBackError("; ".join(why_observed(ruling)), code=OBSERVED)


def read_policy(open_store: Callable[[str], Store], location: str) -> FleetPolicy:
    """Read the policy document at `location`.

    Raises:
        UsageError: No document is there, or it is not valid.
        StorageError: The document cannot be read.
    """
    store, name = policy_store(open_store, location)
    body = read_body(store, name, location)
    return replace(parse_fleet_policy(body.data, location, spell), etag=body.etag)


def policy_store(open_store: Callable[[str], Store], location: str) -> tuple[Store, str]:
    """Return the folder of the policy document, and its key there.

    Raises:
        UsageError: This can be the location of no document.
    """
    folder, _, name = spell(location).rpartition("/")
    if not name or folder.endswith("/"):
        raise UsageError(f"policy {location}: expected the location of a JSON document", code="bad_policy")
    return open_store(folder or "/"), name


def read_body(store: Store, name: str, location: str) -> Body:
    """Return the policy document as it is stored.

    Args:
        store: Its folder.
        name: Its key there.
        location: The whole location, for messages.

    Raises:
        UsageError: No document is there.
        StorageError: It cannot be read.
    """
    try:
        return store.read(name, max_bytes=MAX_BYTES)
    except ObjectNotFoundError as error:
        raise UsageError(
            f"policy {location}: expected a JSON document, found nothing there", code="bad_policy"
        ) from error
    except StorageError as error:
        raise type(error)(f"policy {location} cannot be read: {error}", code=error.code) from error
