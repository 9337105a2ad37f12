"""Protect a version while it is read: a tag with a time to live.

Paimon, pypaimon and Lakesweep keep the files of a tagged snapshot. A reader that dies leaves its tag, which ends by
itself. A tag is written without the lease, so maintenance of the table continues meanwhile.
"""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from lakesweep.errors import AccessDeniedError, MaintenanceError, RefusedError, UsageError
from lakesweep.model.reading.plan import ReadPlan
from lakesweep.model.safety import PROTECTED_FOR_MS
from lakesweep.operations.tags.create import CREATE, TagArguments, plan_create_tag
from lakesweep.operations.tags.delete import OPERATION as DELETE
from lakesweep.operations.tags.delete import plan_delete_tag
from lakesweep.runs.fleet import watched_ruling
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.run import plan_and_execute, plan_and_write
from lakesweep.runs.session import Table

TAG_PREFIX = "lakesweep-read-"
_ELSE = "or to read without protection"


def protect(table: Table, plan: ReadPlan, lives_ms: int = PROTECTED_FOR_MS) -> str | None:
    """Write a tag on the version of a plan and return its name; `None` if there is no version.

    Args:
        table: The branch that is read, with its control location.
        plan: What is read of it.
        lives_ms: How long the tag lives.

    Raises:
        UsageError: There is no control location.
        RefusedError: The tag cannot be made, for example since the snapshot is about to be deleted.
        StorageError: A request failed.
    """
    if plan.snapshot_id is None:
        return None
    if table.area is None:
        raise UsageError(
            f"table {table.ref}: expected a control location, which tells what is about to be deleted, {_ELSE}",
            code="control_missing",
        )
    name = f"{TAG_PREFIX}{secrets.token_hex(6)}"
    source = Version(snapshot_id=plan.snapshot_id) if plan.tag is None else Version(tag=plan.tag)
    arguments = TagArguments(name, source, lives_ms)
    try:
        watched_ruling(table)
        report = plan_and_write(table, CREATE, lambda target: plan_create_tag(target, arguments, looks_for_name=False))
    except AccessDeniedError as error:
        raise AccessDeniedError(f"{error}; expected the right to write tags, {_ELSE}") from error
    if report.refusal is not None:
        raise RefusedError(
            f"{report.refusal.message}; expected to protect snapshot {plan.snapshot_id} with a tag, {_ELSE}",
            code=report.refusal.code,
        )
    return name


def release(table: Table, name: str) -> str | None:
    """Delete the tag of a read. Return a warning if the tag stays until its time is over."""
    try:
        report = plan_and_execute(table, DELETE, lambda target: plan_delete_tag(target, (name,)))
    except MaintenanceError as error:
        return _stays(name, str(error))
    return None if report.refusal is None else _stays(name, report.refusal.message)


@contextmanager
def protected(
    table: Table, plan: ReadPlan, say: Callable[[str], None], lives_ms: int = PROTECTED_FOR_MS
) -> Iterator[str | None]:
    """Protect the version of a plan until the block ends; see `protect`. `say` takes a warning at the end."""
    name = protect(table, plan, lives_ms)
    try:
        yield name
    finally:
        if name is not None and (warning := release(table, name)) is not None:
            say(warning)


def _stays(name: str, why: str) -> str:
    return f"tag {name!r} stays until its time is over: {why}"
