"""Find where outside a table the operator allows Lakesweep to delete files.

Three sources may allow it: the call, the rule of the fleet policy for the table, and the deployment. A schema or a plan
never does.
"""

from collections.abc import Iterable
from dataclasses import replace

from lakesweep.errors import RefusedError, UsageError
from lakesweep.format.schema import TableSchema
from lakesweep.model.paths.layout import layout_of
from lakesweep.runs.fleet import rule_of, ruling_of
from lakesweep.runs.session import Table
from lakesweep.storage.location import parse_location, spell
from lakesweep.table.fence import NOT_ALLOWED, FenceRules
from lakesweep.table.stores import declared_roots


def allowing(table: Table, roots: Iterable[str], name: str = "external_roots") -> Table:
    """Return the table for a call that allows `roots`.

    Args:
        table: The table.
        roots: Locations.
        name: What the caller calls the roots, for messages.

    Raises:
        UsageError: A root is not a location.
    """
    try:
        found = dict.fromkeys((*table.allowance.roots, *map(spell, roots)))
    except UsageError as error:
        raise UsageError(f"{name}: {error}", code="bad_argument") from error
    return replace(table, allowance=replace(table.allowance, roots=tuple(found)))


def allowed_roots(table: Table) -> tuple[str, ...]:
    """Return the roots below which files outside a table may be deleted.

    In a deployment these are its own roots. If the fleet policy names roots for the table, they are the policy's roots
    that lie within the deployment's.

    Raises:
        RefusedError: The call allows a root that the deployment does not allow.
        UsageError: The location of the policy holds no valid policy.
        StorageError: The policy cannot be read.
    """
    rule = rule_of(ruling_of(table))
    stated = rule.external_roots
    bound = table.allowance.bound
    if bound is None:
        return tuple(dict.fromkeys((*(stated or ()), *table.allowance.roots)))
    allowed = bound if stated is None else tuple(root for root in stated if _is_within(root, bound))
    for root in table.allowance.roots:
        if not _is_within(root, allowed):
            own = (
                ""
                if stated is None
                else f", and in `external_roots` of the policy for {rule.deciders.get('external_roots')}"
            )
            raise RefusedError(
                f"table {table.ref}: this deployment does not let files below {root} be deleted; expected a root in "
                f"its parameter ExternalRoots{own}",
                code=NOT_ALLOWED,
            )
    return allowed


def fence_rules(table: Table, schemas: Iterable[tuple[str, TableSchema]]) -> FenceRules:
    """Return the rules that say which files outside a table may be deleted. A table without declared roots needs none.

    Args:
        table: The table.
        schemas: Every schema of every branch, each with its path.

    Raises:
        RefusedError: A schema declares an invalid root; or see `allowed_roots`.
        UsageError: The location of the policy holds no valid policy.
        StorageError: The policy cannot be read.
    """
    schemas = tuple(schemas)
    declared = declared_roots(table.store.location, schemas)
    if not declared:
        return FenceRules()
    return FenceRules(
        declared=declared,
        allowed=allowed_roots(table),
        control=None if table.area is None else table.area.store.location,
        layout=layout_of(schema for _, schema in schemas),
    )


def _is_within(root: str, bound: Iterable[str]) -> bool:
    place = parse_location(root)
    return any(parse_location(each).contains(place) for each in bound)
