"""Find the rule of the fleet policy that holds for a table, and apply it.

The policy governs the pass after a commit (`maintain`), which nobody watches. What a person calls by hand it leaves
alone, except that nothing is deleted from a table that is paused. A policy that cannot be read is never "no policy".
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace

from lakesweep.errors import HeldBackError, ObjectNotFoundError, StorageError, UsageError
from lakesweep.format.json_document import MAX_BYTES
from lakesweep.model.fleet_policy import FleetPolicy, FleetRule, parse_fleet_policy
from lakesweep.operations.context import Table
from lakesweep.operations.retention_options import ExpireArguments
from lakesweep.storage.location import parse_location
from lakesweep.storage.store import Store


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the fleet policy says about one table."""

    policy: str
    """Location of the document."""
    rule: FleetRule | None
    """`None`: no rule holds for the table, so it is observed."""


POLICY_ETAG = "policy_etag"
"""Where a table's notes have the ETag of the policy that was read."""
OBSERVED = "table_observed"
"""Code of a plan of unattended maintenance that is not carried out, since a fleet policy says to observe."""


def may_delete(ruling: Ruling | None) -> bool:
    """Tell whether the pass after a commit may delete: without a policy it may."""
    return ruling is None or (ruling.rule is not None and ruling.rule.mode == "delete" and not ruling.rule.paused)


def why_observed(ruling: Ruling | None) -> tuple[str, ...]:
    """Return the sentence that says why nothing is deleted, none when something may be."""
    if ruling is None or may_delete(ruling):
        return ()
    if ruling.rule is None:
        return (f"policy {ruling.policy} has no rule for this table, so it is observed: planned, and nothing deleted",)
    return (f"policy {ruling.policy} says of {ruling.rule.tables} to observe: planned, and nothing deleted",)


def limited(arguments: ExpireArguments, ruling: Ruling | None) -> ExpireArguments:
    """Return `arguments` with what the rule wants kept, and with its retention for a schema that states none."""
    if ruling is None or ruling.rule is None:
        return arguments
    rule = ruling.rule
    users = dict.fromkeys((*arguments.protect_commit_users, *rule.protect_commit_users))
    return replace(arguments, protect_commit_users=tuple(users), floor=rule.floor, otherwise=rule.retention)


def ruling_of(table: Table) -> Ruling | None:
    """Return what the fleet policy says about a table, `None` without a policy.

    Raises:
        UsageError: There is no valid policy at its location.
        StorageError: It cannot be read.
    """
    if table.policy is None:
        return None
    policy = read_policy(table.open_store, table.policy)
    if policy.etag is not None:
        table.notes[POLICY_ETAG] = policy.etag
    return ruling_in(policy, table.ref.location)


def ruling_in(policy: FleetPolicy | None, location: str) -> Ruling | None:
    """Return what a policy that was read says about the table at `location`, `None` without a policy."""
    return None if policy is None else Ruling(policy.location, policy.rule_for(spell(location)))


def watched_ruling(table: Table) -> Ruling | None:
    """Return what the fleet policy says about a table that is not paused.

    Raises:
        HeldBackError: The table is paused.
        UsageError: There is no valid policy at its location.
        StorageError: It cannot be read.
    """
    ruling = ruling_of(table)
    if ruling is not None and ruling.rule is not None and ruling.rule.paused:
        raise HeldBackError(f"table {table.ref} is paused: policy {ruling.policy} says so of {ruling.rule.tables}")
    return ruling


def check_policy(table: Table, *, by_hand: bool) -> None:
    """Make sure that a plan may be carried out.

    Args:
        table: Whose plan.
        by_hand: Somebody asked for it, so the policy only says whether the table is paused.

    Raises:
        HeldBackError: It may not.
        UsageError: There is no valid policy at its location.
        StorageError: It cannot be read.
    """
    ruling = watched_ruling(table)
    if not by_hand and not may_delete(ruling):
        raise HeldBackError("; ".join(why_observed(ruling)), code=OBSERVED)


def read_policy(open_store: Callable[[str], Store], location: str) -> FleetPolicy:
    """Read the policy document at `location`.

    Raises:
        UsageError: No document is there, or it is not valid.
        StorageError: It cannot be read.
    """
    folder, _, name = spell(location).rpartition("/")
    if not name or folder.endswith("/"):
        raise UsageError(f"policy {location}: expected the location of a JSON document", code="bad_policy")
    try:
        body = open_store(folder or "/").read(name, max_bytes=MAX_BYTES)
    except ObjectNotFoundError as error:
        raise UsageError(
            f"policy {location}: expected a JSON document, found nothing there", code="bad_policy"
        ) from error
    except StorageError as error:
        raise type(error)(f"policy {location} cannot be read: {error}", code=error.code) from error
    return replace(parse_fleet_policy(body.data, location, spell), etag=body.etag)


def spell(location: str) -> str:
    """Return one spelling of a location: of a local path that without links.

    Raises:
        UsageError: It is no location.
    """
    place = parse_location(location)
    return os.path.realpath(place.path) if place.scheme == "file" else str(place)
