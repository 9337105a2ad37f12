"""Read the ledger: what the runs of a table intended, and what became of it. `control/ledger.py` writes it."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from lakesweep.control.area import ControlArea
from lakesweep.control.chain import is_object_row
from lakesweep.control.ndjson import unpack
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.codec import is_count

_DOCUMENTS = ("snapshot", "changelog_document", "hint", "tag", "tag_success")
_INTENT, _RESULT = "-intent.ndjson.gz", "-result.ndjson.gz"
_LATEST_MS = 253_370_764_799_000
"""The year 9998 ends."""
_SLICE_PART = re.compile(r"(?P<number>[0-9]{7,})-[0-9]{2}-(?P<kind>intent|result)\.ndjson\.gz")


def day_of(run_id: str) -> str:
    """Return the day in a run id, as in `20260131T120000Z-...`."""
    return f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}"


def time_of(run_id: str) -> int | None:
    """Return when a run was planned or begun, as its id says; `None` if the id has no time."""
    try:
        return int(datetime.strptime(run_id[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return None


def stamp_of(time_ms: int) -> str:
    """Return how the ids of runs begin that are planned or begun at a time."""
    return datetime.fromtimestamp(min(time_ms, _LATEST_MS) / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


def folder_of_run(run_id: str) -> str:
    """Return the folder that the parts of a run lie in."""
    return f"ledger/dt={day_of(run_id)}/{run_id}/"


def slice_answers(area: ControlArea, plan_id: str, names: Iterable[str]) -> dict[str, str]:
    """Return path -> result from the result parts among `names`. Damaged and missing parts are skipped."""
    rows = _readable_rows(area, (name for name in names if not name.endswith(_INTENT)))
    return {str(row.get("key")): str(row.get("result")) for _, row in rows if row.get("plan_id") == plan_id}


def slice_intents(area: ControlArea, plan_id: str, names: Iterable[str]) -> frozenset[str]:
    """Return the paths in the intents among `names`. Damaged and missing parts are skipped."""
    rows = _readable_rows(area, (name for name in names if name.endswith(_INTENT)))
    return frozenset(str(row.get("key")) for _, row in rows if row.get("plan_id") == plan_id)


def makers_of(area: ControlArea, markers: Mapping[str, str], not_of: str) -> dict[str, str]:
    """Return path -> run that made the marker there, for markers that runs of other plans made.

    Costs a listing, and a read for each part of the ledger. Damaged parts are skipped.

    Args:
        area: Where the ledger is.
        markers: Path -> version id of its marker.
        not_of: Rows of this plan are ignored.

    Raises:
        StorageError: A request failed.
    """
    found: dict[str, str] = {}
    for name, row in _readable_rows(area, area.names("ledger/")):
        path = str(row.get("key"))
        is_maker = row.get("result") == "deleted" and row.get("version_id") == markers.get(path)
        if path in markers and is_maker and row.get("plan_id") != not_of:
            found[path] = name.split("/")[2]
    return found


def _readable_rows(area: ControlArea, names: Iterable[str]) -> Iterator[tuple[str, dict[str, object]]]:
    """Yield the name of each part with each of its rows. Damaged and missing parts are skipped."""
    for name in names:
        try:
            rows = list(unpack(area.read(name).data, area.path(name)))
        except (FormatError, ObjectNotFoundError):
            continue
        yield from ((name, row) for row in rows)


def slice_parts(area: ControlArea, runs: Iterable[str]) -> dict[int, tuple[str, ...]]:
    """Return the result parts of runs, and their intents without a result, by number of the slice."""
    found: dict[int, tuple[str, ...]] = {}
    for run_id in runs:
        folder = folder_of_run(run_id)
        names = area.names(folder)
        there = frozenset(names)
        for name in names:
            match = _SLICE_PART.fullmatch(name.removeprefix(folder))
            if match and (match["kind"] == "result" or name.replace(_INTENT, _RESULT) not in there):
                number = int(match["number"])
                found[number] = (*found.get(number, ()), name)
    return found


@dataclass(frozen=True, slots=True)
class EarlierWork:
    """What earlier runs of a plan did, as far as the ledger knows."""

    settled: Mapping[str, str]
    """Path -> result of every object that is gone, or was kept by a recheck."""
    may_have_begun_files: bool
    """Objects other than documents and hints may be gone."""
    unanswered: frozenset[str] = frozenset()
    """Paths of objects whose deletion may have been sent, and whose answer is not known."""
    is_damaged: bool = False
    """A part cannot be read; it may have had rows of any object."""


def earlier_work(area: ControlArea, plan_id: str, runs: Iterable[str]) -> EarlierWork:
    """Return what earlier runs of a plan did.

    A damaged part settles nothing, and may have had rows of any kind. Its objects are rechecked and deleted once more,
    which is harmless.
    """
    found: dict[str, str] = {}
    intended: set[str] = set()
    begun = is_damaged = False
    for row in _rows_of(area, plan_id, runs):
        if row is None:
            begun = is_damaged = True
            continue
        result, path = row.get("result"), str(row.get("key"))
        if result is None:
            intended.add(path)
        elif path in intended:
            intended.remove(path)
        if result in ("deleted", "already_gone", "kept_by_recheck"):
            found[path] = str(result)
        begun = begun or (row.get("kind") not in _DOCUMENTS and result != "kept_by_recheck")
    return EarlierWork(found, begun, frozenset(intended - found.keys()), is_damaged)


def _rows_of(area: ControlArea, plan_id: str, runs: Iterable[str]) -> Iterator[dict[str, object] | None]:
    """Yield the rows of a plan in the ledger, and `None` for each damaged part."""
    for run_id in runs:
        for name in area.names(folder_of_run(run_id)):
            try:
                rows = list(_rows_in(area, name))
            except FormatError:
                yield None
                continue
            yield from (row for row in rows if row.get("plan_id") == plan_id)


@dataclass(frozen=True, slots=True)
class Fate:
    """What the runs of a plan did to one object, as far as the ledger knows."""

    result: str
    """As in the ledger, or `unknown`: a deletion was sent, and its answer is not known."""
    version_id: str | None = None


def fates(area: ControlArea, plan_id: str, runs: Iterable[str]) -> dict[str, Fate]:
    """Return path -> fate of every object that runs of a plan were about to delete.

    Args:
        area: Where the ledger is.
        plan_id: Rows of other plans are ignored.
        runs: First to last.
    """
    found: dict[str, Fate] = {}
    unanswered: dict[str, set[tuple[str, object]]] = {}
    for run_id in runs:
        for row in _rows_of_run(area, run_id):
            if row.get("plan_id") != plan_id:
                continue
            path, batch = str(row["key"]), (run_id, row.get("batch"))
            if "result" not in row:
                unanswered.setdefault(path, set()).add(batch)
                continue
            unanswered.get(path, set()).discard(batch)
            before = found.get(path)
            if before is None or before.result != "deleted":
                version_id = row.get("version_id")
                found[path] = Fate(str(row.get("result")), str(version_id) if version_id else None)
    for path, batches in unanswered.items():
        if batches and (path not in found or found[path].result != "deleted"):
            found[path] = Fate("unknown")
    return found


def plan_of_run(area: ControlArea, run_id: str) -> str | None:
    """Return the plan that a run worked on, `None` when the ledger has no row of the run."""
    return next((str(row["plan_id"]) for row in _rows_of_run(area, run_id)), None)


def run_rows(area: ControlArea, run_id: str) -> list[dict[str, object]]:
    """Return all rows of a run.

    Raises:
        FormatError: A part is damaged.
    """
    return list(_rows_of_run(area, run_id))


def parts_of_run(area: ControlArea, run_id: str) -> list[str]:
    """Return the names of the parts that a run wrote."""
    return area.names(folder_of_run(run_id))


def runs_of_ledger(area: ControlArea, most: int | None, since: str = "") -> list[str]:
    """Return the ids of the newest runs that wrote a part, newest first.

    Args:
        area: Where the ledger is.
        most: How many; `None` for all.
        since: No day before that of this id is looked at.
    """
    found: list[str] = []
    for day in sorted(area.folders("ledger/"), reverse=True):
        if since and day < f"dt={day_of(since)}":
            break
        found += sorted(area.folders(f"ledger/{day}/"), reverse=True)
        if most is not None and len(found) >= most:
            break
    return found[:most]


def _rows_of_run(area: ControlArea, run_id: str) -> Iterator[dict[str, object]]:
    return (row for name in area.names(folder_of_run(run_id)) for row in _rows_in(area, name))


def _rows_in(area: ControlArea, name: str) -> Iterator[dict[str, object]]:
    """Yield the rows of one part.

    Raises:
        FormatError: It is damaged, or a row does not name its object.
    """
    return checked_rows(unpack(area.read(name).data, path := area.path(name)), path)


def checked_rows(rows: Iterable[dict[str, object]], path: str) -> Iterator[dict[str, object]]:
    """Yield the rows of a part that are about objects.

    Args:
        rows: All of the part.
        path: Of the part, for messages.

    Raises:
        FormatError: A row does not name its object.
    """
    for row in rows:
        if not is_object_row(row):
            continue
        texts = all(isinstance(row.get(key), str) for key in ("key", "kind", "plan_id"))
        if not texts or not isinstance(row.get("result", ""), str) or not is_count(row.get("batch")):
            raise FormatError(f"{path}: expected key, kind, plan_id, batch and result of an object in every row")
        size_bytes = row.get("size_bytes")
        if not isinstance(row.get("version_id"), str | None) or not (size_bytes is None or is_count(size_bytes)):
            raise FormatError(f"{path}: expected a version_id as text and size_bytes as a number in every row")
        yield row
