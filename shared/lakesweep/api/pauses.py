"""What `pause` and `resume` do: the change of the fleet policy, and the answer about it."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from lakesweep.api.fleet_change import change_policy
from lakesweep.api.opening import control_location, policy_location, who_calls
from lakesweep.api.place import Place
from lakesweep.errors import MaintenanceError, RefusedError, UsageError
from lakesweep.model.fleet_edit import Edit, with_pause, without_pause
from lakesweep.model.pause import EVERY_TABLE, MAX_TEXT, Pause, Paused
from lakesweep.model.policy import FleetRule
from lakesweep.runs.database import is_table
from lakesweep.runs.fleet import policy_store
from lakesweep.runs.parameters.age import Age
from lakesweep.runs.parameters.times import parse_past, say_time
from lakesweep.storage.location import parse_location, spell
from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.requests import RequestCounter
from lakesweep.storage.store import Store

Document = dict[str, Any]
Open = Callable[[str], Store]


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for, as typed."""

    every: bool
    reason: str | None
    until: str | None


def change_pause(action: str, place: Place, wish: Wish, *, execute: bool) -> Document:
    """Pause or resume tables, and return the document described in `docs/cli_json.md`.

    Raises:
        UsageError: An argument is wrong, or there is no valid policy.
        RefusedError: Nothing lies where tables would be paused.
        StorageError: The policy cannot be read or written.
    """
    counter, settings = RequestCounter(), StoreSettings(endpoint_url=place.endpoint_url, region=place.region)

    def opened(location: str) -> Store:
        return open_store(parse_location(location), counter=counter, settings=settings)

    folder, location = _folder(place, every=wish.every), policy_location(place)
    if location is None:
        raise UsageError("no fleet policy is given; expected --policy LOCATION or $LAKESWEEP_POLICY", code="bad_policy")
    store, name = policy_store(opened, location)
    location = f"{store.location.rstrip('/')}/{name}"
    control, warnings = _control(place, folder, location), list[str]()
    now_ms = _now_ms(opened, [control, None if folder == EVERY_TABLE else folder, store.location])
    edit: Callable[[bytes], Edit]
    if action == "pause":
        reason, until_ms = _reason(wish.reason), _until_ms(wish.until, now_ms)
        pause = Pause(reason, until_ms, _shown(who_calls(place, location)().actor))
        edit = partial(_paused, location=location, folder=folder, pause=pause, now_ms=now_ms)
    else:
        edit = partial(_resumed, location=location, folder=folder, now_ms=now_ms)
    running, table_count = None, 0
    if action == "pause":
        _check_there(folder, opened, warnings)
    found, is_written = change_policy(store, name, location, edit, execute=execute)
    is_change = bool(found.changes)
    try:
        running, table_count = _running(None if control is None else opened(control), folder, warnings)
    except MaintenanceError as error:  # the policy is written, and that is what counts
        warnings.append(f"what is under way is not known: {error}")
    after = found.after.at(now_ms)
    return {
        "policy": location,
        "tables": folder,
        "status": "done" if is_written else "planned" if is_change else "nothing_to_do",
        "executed": is_written,
        "changes": [
            {"tables": each, "before": _shown_pause(old), "after": _shown_pause(new)}
            for each, old, new in found.changes
        ],
        "pauses": [
            {"tables": each, "pause": _shown_pause(said)}
            for each, said in after.pauses.items()
            if said and (_is_within(each, folder) or _is_within(folder, each))
        ],
        "table_count": table_count,
        "running": running,
        "warnings": warnings,
    }


def _paused(body: bytes, *, location: str, folder: str, pause: Pause, now_ms: int) -> Edit:
    return with_pause(body, location, spell, folder, pause, now_ms)


def _resumed(body: bytes, *, location: str, folder: str, now_ms: int) -> Edit:
    return without_pause(body, location, spell, folder, now_ms)


def _shown_pause(pause: Paused | None) -> object:
    return pause.to_json() if isinstance(pause, Pause) else pause


def _is_within(folder: str, outer: str) -> bool:
    return outer == EVERY_TABLE or (folder != EVERY_TABLE and FleetRule(outer).holds_for(folder))


def _folder(place: Place, *, every: bool) -> str:
    if every == bool(place.table):
        found = "both" if every else "neither"
        raise UsageError(f"expected a table or folder, or --all; found {found}", code="bad_argument")
    if every:
        return EVERY_TABLE
    if any(each in place.table for each in "*?[{") or not place.table.isprintable():
        raise UsageError(
            f"expected a table or a folder (with all tables below it), not a pattern; found {place.table!r}",
            code="bad_argument",
        )
    return spell(place.table)


def _reason(text: str | None) -> str:
    if text is None or not text.strip() or not text.isprintable() or len(text) > MAX_TEXT:
        raise UsageError(
            f"--reason: expected words of at most {MAX_TEXT} characters in one line, found "
            f"{'nothing' if not text else repr(text[:MAX_TEXT])}",
            code="bad_argument",
        )
    return text.strip()


def _until_ms(text: str | None, now_ms: int) -> int | None:
    if text is None:
        return None
    found = parse_past(text, "--until")
    until_ms = found.after(now_ms) if isinstance(found, Age) else found
    if until_ms <= now_ms or until_ms > _LATEST_MS:
        raise UsageError(
            f"--until: expected a time after {say_time(now_ms)}, which it is by the store's clock, and before the year "
            f"9999; found {say_time(until_ms)}",
            code="bad_argument",
        )
    return -(-until_ms // 1000) * 1000 if isinstance(found, Age) else until_ms


_LATEST_MS = 253_370_764_800_000
"""The year 9999 begins."""


def _shown(actor: str) -> str:
    """Return the name of the caller as the policy may state it."""
    return "".join(each if each.isprintable() else "?" for each in actor)[:MAX_TEXT].strip() or "unknown"


def _check_there(folder: str, opened: Open, warnings: list[str]) -> None:
    """Make sure that tables may lie where they are to be paused: another folder would pause nothing.

    Raises:
        RefusedError: Nothing lies there.
        UsageError: It is a folder of a table, such as a branch or a partition.
    """
    if folder == EVERY_TABLE:
        return
    try:
        is_there = next(iter(opened(folder).list("")), None) is not None
        table = _table_around(folder, opened)
    except MaintenanceError as error:  # tables that cannot be reached may be paused all the same
        warnings.append(f"whether something lies at {folder} could not be found out: {error}")
        return
    if not is_there:
        raise RefusedError(
            f"{folder}: expected a table, or a folder with tables, found nothing there, so a pause would stop nothing",
            code="nothing_there",
        )
    if table is not None:
        raise UsageError(
            f"{folder}: expected a table, or a folder with tables, found a folder of table {table}; a pause of a part "
            "of a table would stop nothing, so pause the table",
            code="bad_argument",
        )


def _table_around(folder: str, opened: Open) -> str | None:
    """Return the table that a folder is a part of; `None` if it is a table itself, or none is known around it."""
    if is_table(opened(folder)):
        return None
    above = folder.rpartition("/")[0]
    while above and not above.endswith("/"):
        with suppress(MaintenanceError):  # a caller may not be allowed to list what lies above
            if is_table(opened(above)):
                return above
        above = above.rpartition("/")[0]
    return None


def _control(place: Place, folder: str, policy: str) -> str | None:
    """Return the control location, `None` if none is given."""
    return control_location(place, parse_location(policy if folder == EVERY_TABLE else folder))


def _now_ms(opened: Open, places: list[str | None]) -> int:
    """Return the time of the first of these stores that says it, since a caller may not be allowed to list them all.

    Raises:
        StorageError: None does.
    """
    for place in filter(None, places[:-1]):
        with suppress(MaintenanceError):
            return opened(place).now_ms()
    return opened(str(places[-1])).now_ms()


def _running(store: Store | None, folder: str, warnings: list[str]) -> tuple[list[Document] | None, int]:
    """Return what is under way in the tables of a folder, `None` without a control location, and how many it knows."""
    from lakesweep.aws.jobs.documents import read_open
    from lakesweep.control.audit.tables import all_known_tables
    from lakesweep.operations.inspect.under_way import under_way

    if store is None:
        warnings.append("what is under way is not known, since no control location is given")
        return None, 0
    tables = list(all_known_tables(store))
    own = [each for each in tables if each.area is not None and _is_within(spell(each.area.table), folder)]
    unnamed = sum(each.area is None for each in tables)
    if unnamed:
        warnings.append(f"no document says which table is meant by {unnamed} folders of {store.location}/tables")
    found = under_way(own, read_open(store), store.now_ms, warnings)
    return [each.to_json() for each in found], len(own)
