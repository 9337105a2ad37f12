"""Stored plans.

`plans/<plan_id>/actions-<name>.ndjson.gz` are written first, and `header.json` last. A plan without a header does not
exist, and a part that the header does not name belongs to no plan. A small plan has its actions in the header.

Lakesweep checks a loaded plan against its hashes, so a damaged plan deletes nothing. But hashes prove nothing against
somebody who may write here. So there are further checks:

- Every action must be one that may exist at all, and that the plan's operation can have planned
  (`model/paths/permitted.py`).
- The order of the actions must be the order of the phases (`order_problem`).
- The run that carries out the plan asks all present roots for its files (`execute/present.py`).

A forged plan that passes these checks deletes no file that a root needs. It can still do what its operation can do,
such as deleting a tag. Where a plan key is configured, it cannot do that either (`control/seal.py`).
"""

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence

from lakesweep.control.area import ControlArea, from_json_bytes, table_key, to_json_bytes
from lakesweep.control.ndjson import pack, unpack
from lakesweep.control.seal import check_seal, digest_of
from lakesweep.errors import FormatError, ObjectNotFoundError, PreconditionFailedError, RefusedError
from lakesweep.format.codec import from_json, is_count, is_id
from lakesweep.model.paths.permitted import check_actions, check_plan
from lakesweep.model.plan import (
    MOVE_FORMAT_VERSION,
    PLAN_FORMAT_VERSION,
    Action,
    Delete,
    Plan,
    PlanHeader,
    PlanPart,
    Put,
    content_hash,
    order_problem,
)
from lakesweep.model.steering import UNSUPPORTED_PLAN, Steering, refuse_unknown, steering_of

NO_SUCH_PLAN = "no_such_plan"
"""Code of a plan that is not stored."""
PLAN_TOO_LARGE = "plan_too_large"
"""Code of a plan that is too large to load whole."""
PART_ROWS = 20_000
"""Actions in one document."""
MAX_LOADED = 1_000_000
"""The largest plan of orphan files that one process loads; it takes some 600 MB. Other plans are always loaded
whole."""
_MEMBERS = tuple(each.name for each in dataclasses.fields(PlanHeader))
_HEADER_ROWS = 500
"""At most this many actions lie in the header."""


def store_plan(area: ControlArea, plan: Plan) -> None:
    """Write a plan, header last. If the plan's actions lie in parts, the parts are already written."""
    folder = f"plans/{plan.header.plan_id}/"
    header = plan.header
    rows: list[dict[str, object]] | None = None
    if not header.parts and len(plan.actions) <= _HEADER_ROWS:
        rows = [_action_row(action) for action in plan.actions]
    elif not header.parts:
        starts = range(0, len(plan.actions), PART_ROWS)
        parts = (
            store_part(area, header.plan_id, f"{number:05d}", plan.actions[start : start + PART_ROWS])
            for number, start in enumerate(starts)
        )
        header = dataclasses.replace(header, parts=tuple(parts))
    document = dataclasses.asdict(header)
    document["by"] = document["by"] or area.who().to_json()
    document.pop("steering")
    if facts := header.steering.to_json():
        document["steering"] = facts
    if rows is not None:
        document["actions"] = rows
    if area.sealer is not None:
        document["seal"] = area.sealer.seal(digest_of(from_json_bytes(to_json_bytes(document), folder)))
    try:
        area.put(f"{folder}header.json", to_json_bytes(document), if_absent=True)
    except PreconditionFailedError as error:
        found, _ = _read(area, header.plan_id)
        ours = from_json_bytes(to_json_bytes(document), folder)
        if all(found.get(name) == ours.get(name) for name in (found.keys() | ours.keys()) - {"by", "seal"}):
            return  # written by an earlier attempt of this request, or by another process with the same plan
        raise RefusedError(
            f"{area.path(folder)}: a plan of this id exists; expected a new one", code="plan_exists"
        ) from error


def store_part(area: ControlArea, plan_id: str, name: str, actions: Sequence[Action]) -> PlanPart:
    """Write some actions of a plan whose header comes later, and return the header's entry for them.

    Args:
        area: Of the table.
        plan_id: Which plan.
        name: Distinguishes this part from every other part that anybody writes for the plan.
        actions: In the order of their phases, at most `PART_ROWS`.
    """
    file = f"actions-{name}.ndjson.gz"
    body = pack(map(_action_row, actions))
    area.put(f"plans/{plan_id}/{file}", body)
    size_bytes = sum(action.size_bytes or 0 for action in actions if isinstance(action, Delete))
    return PlanPart(file, len(actions), size_bytes, content_hash(actions), hashlib.sha256(body).hexdigest())


def load_part(area: ControlArea, header: PlanHeader, part: PlanPart) -> tuple[Action, ...]:
    """Return the actions of one part of a stored plan, checked.

    Raises:
        FormatError: It is damaged or missing, or does not match what the header says.
        RefusedError: It holds an action that no plan may hold.
    """
    path = area.path(f"plans/{header.plan_id}/{part.name}")
    try:
        body = area.read(f"plans/{header.plan_id}/{part.name}")
    except ObjectNotFoundError as error:
        raise FormatError(f"{path}: expected a part of the plan, found nothing") from error
    if (part.digest or area.sealer is not None) and hashlib.sha256(body.data).hexdigest() != part.digest:
        raise FormatError(f"{path}: expected the part that the plan's header names by its SHA-256, found another one")
    actions = tuple(_actions_of(list(unpack(body.data, path)), path))
    if len(actions) != part.count or content_hash(actions) != part.hash:
        raise FormatError(f"{path}: expected {part.count} actions that match the header's hash, found others")
    check_actions(header, actions)
    return actions


def load_header(area: ControlArea, plan_id: str) -> PlanHeader:
    """Return the header of a stored plan.

    Raises:
        RefusedError: The table has no such plan, or the plan has another format.
        FormatError: The header is damaged.
    """
    return _load(area, plan_id)[0]


def _load(area: ControlArea, plan_id: str) -> tuple[PlanHeader, object]:
    """Return a header and the rows of its actions; `None` instead of rows where the actions lie in parts."""
    document, name = _read(area, plan_id)
    document.pop("seal", None)
    rows = document.pop("actions", None)
    if document.get("format_version") not in (PLAN_FORMAT_VERSION, MOVE_FORMAT_VERSION):
        raise RefusedError(
            f"{area.path(name)}: plan format {document.get('format_version')}; expected {PLAN_FORMAT_VERSION} or "
            f"{MOVE_FORMAT_VERSION}",
            code=UNSUPPORTED_PLAN,
        )
    steering = steering_of(document.pop("steering", {}), area.path(name))
    refuse_unknown(document, _MEMBERS, area.path(name))
    header = _header_of(document, steering, area.path(name))
    if header.plan_id != plan_id:
        raise FormatError(f"{area.path(name)}: expected plan {plan_id}, found that of plan {header.plan_id}")
    if table_key(header.table) != table_key(area.table):
        raise RefusedError(
            f"plan {plan_id} is of table {header.table}; expected {area.table}", code="plan_of_another_table"
        )
    check_plan(header)
    return header, rows


def _read(area: ControlArea, plan_id: str) -> tuple[dict[str, object], str]:
    """Return the document of a header, its seal checked, and its name."""
    if not is_id(plan_id):
        raise RefusedError(f"table {area.table}: {plan_id[:200]!r} is no plan id", code=NO_SUCH_PLAN)
    name = f"plans/{plan_id}/header.json"
    try:
        body = area.read(name)
    except ObjectNotFoundError as error:
        raise RefusedError(
            f"table {area.table}: expected plan {plan_id} in {area.store.location}, found none; lakesweep plans TABLE "
            "lists the plans of a table",
            code=NO_SUCH_PLAN,
        ) from error
    document = from_json_bytes(body.data, area.path(name))
    check_seal(area.sealer, document, area.path(name))
    return document, name


def load_plan(area: ControlArea, plan_id: str) -> Plan:
    """Return a stored plan with all its actions, checked.

    Raises:
        RefusedError: There is no such plan, it is another table's, or it holds an action that no plan may hold.
        FormatError: The header or a part is damaged or missing.
    """
    return _loaded(area, *_load(area, plan_id))


def load_listed(area: ControlArea, plan_id: str) -> Plan:
    """Return a stored plan for lists of plans. Only a branch rewrite is returned with its actions.

    Raises:
        RefusedError: As `load_plan`.
        FormatError: As `load_plan`; for other plans, the header is damaged.
    """
    header, rows = _load(area, plan_id)
    return _loaded(area, header, rows) if header.format_version == MOVE_FORMAT_VERSION else Plan(header)


def _loaded(area: ControlArea, header: PlanHeader, rows: object) -> Plan:
    plan_id = header.plan_id
    path = area.path(f"plans/{plan_id}/")
    if rows is None and header.operation == "remove-orphan-files" and header.action_count > MAX_LOADED:
        raise RefusedError(
            f"plan {plan_id} of table {header.table} has {header.action_count} actions; expected {MAX_LOADED} at most "
            "to read it whole",
            code=PLAN_TOO_LARGE,
        )
    actions: tuple[Action, ...] = ()
    if rows is not None:
        actions = tuple(_actions_of(rows, f"{path}header.json"))
        check_actions(header, actions)
    else:
        actions = tuple(action for part in header.parts for action in load_part(area, header, part))
    if len(actions) != header.action_count or content_hash(actions, header.steering) != header.content_hash:
        raise FormatError(
            f"{path}: expected {header.action_count} actions and a steering that match the header's hash, found others"
        )
    problem = order_problem(actions)
    if problem is not None:
        raise FormatError(f"{path}: expected {problem}")
    return Plan(header, actions)


def plan_ids(area: ControlArea) -> list[str]:
    """Return the ids of all stored plans, ascending."""
    return sorted(
        name.split("/")[1] for name in area.names("plans/") if name.endswith("/header.json") and name.count("/") == 2
    )


def _header_of(document: dict[str, object], steering: Steering, path: str) -> PlanHeader:
    header: PlanHeader = from_json(PlanHeader, document, path, "the header of a plan")
    snapshots = header.snapshots
    ends = (snapshots.get("earliest"), snapshots.get("latest"))
    expired = snapshots.get("expired", [])
    if not isinstance(expired, list) or not all(map(is_count, (*expired, *(end for end in ends if end is not None)))):
        raise FormatError(f"{path}: expected ids in snapshots")
    # Earlier versions wrote underscores.
    return dataclasses.replace(header, operation=header.operation.replace("_", "-"), steering=steering)


def _action_row(action: Action) -> dict[str, object]:
    # Field by field: a plan has many actions, and `dataclasses.asdict` takes ten times as long.
    if isinstance(action, Put):
        return {
            "action": "put",
            "phase": action.phase,
            "kind": action.kind,
            "path": action.path,
            "body": action.body,
            "reason": action.reason,
            **({"if_absent": True} if action.if_absent else {}),
            **({"etag": action.etag} if action.etag is not None else {}),
            **({"former": action.former} if action.former is not None else {}),
        }
    return {
        "action": "delete",
        "phase": action.phase,
        "kind": action.kind,
        "path": action.path,
        "size_bytes": action.size_bytes,
        "reason": action.reason,
        "etag": action.etag,
        "owner": action.owner,
        "body": action.body,
    }


def _actions_of(rows: object, path: str) -> Iterator[Action]:
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise FormatError(f"{path}: expected the actions of a plan as a list of objects")
    for row in rows:
        yield _action_of(row, path)


def _action_of(row: dict[str, object], path: str) -> Action:
    fields = {key: value for key, value in row.items() if key != "action"}
    try:
        action: Action = (Put if row.get("action") == "put" else Delete)(**fields)  # type: ignore[arg-type]
    except TypeError as error:
        raise FormatError(f"{path}: expected a plan's action: {error}") from error
    if not all(isinstance(fields[key], str) for key in ("phase", "kind", "path", "reason")):
        raise FormatError(f"{path}: expected text for phase, kind, path and reason of an action")
    texts = all(isinstance(fields.get(key), str | None) for key in ("etag", "owner", "body", "former"))
    size_bytes = fields.get("size_bytes")
    if not texts or not (size_bytes is None or is_count(size_bytes)):
        raise FormatError(f"{path}: expected text for ETag, owner and body of an action, and a number for its size")
    if type(fields.get("if_absent", False)) is not bool:
        raise FormatError(f"{path}: expected true or false for if_absent of an action")
    if isinstance(action, Put) and action.body is None:
        raise FormatError(f"{path}: expected a body in an action that writes")
    return action
