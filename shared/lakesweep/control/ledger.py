"""The ledger: rows for each object that a run deletes, before and after the deletion. Append-only.

A run writes numbered parts below `ledger/dt=<day>/<run_id>/`. A part that ends in `-intent.ndjson.gz` is written before
a batch of deletes. It has a row without a result for each object of the batch. The next part, of either kind, has the
results of the batch. So a run of n batches writes n + 1 parts; the last one ends in `-result.ndjson.gz`.

Documents (snapshots, changelogs, tags) are deleted first and have no intent of their own: the stored plan, and the
lease that names it, say which ones may be deleted. An intent without a result means that the batch was sent and its
answer is not known.

When many processes carry out a plan, each slice has its own parts: `<slice>-<attempt>-intent.ndjson.gz` and
`<slice>-<attempt>-result.ndjson.gz`. Slices are counted through the plan, from 0. A process begins an attempt only
where no intent of that name exists, so two processes that work on one slice never share an attempt.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType

from lakesweep.control.area import ControlArea
from lakesweep.control.chain import Beginning, Chain, is_object_row
from lakesweep.control.checks import is_count
from lakesweep.control.ndjson import unpack
from lakesweep.errors import FormatError, MaintenanceError, ObjectNotFoundError, PreconditionFailedError
from lakesweep.model.plan import Delete, Restore
from lakesweep.storage.store import DeleteResult

_DOCUMENTS = ("snapshot", "changelog_document", "hint", "tag", "tag_success")
SLICE_ATTEMPTS = 100
"""At most this many attempts may begin one slice in one run."""
_INTENT, _RESULT = "-intent.ndjson.gz", "-result.ndjson.gz"
_SLICE_PART = re.compile(r"(?P<number>[0-9]{7,})-[0-9]{2}-(?P<kind>intent|result)\.ndjson\.gz")


def day_of(run_id: str) -> str:
    """Return the day in a run id, as in `20260131T120000Z-...`."""
    return f"{run_id[:4]}-{run_id[4:6]}-{run_id[6:8]}"


def timestamp(now_ms: int) -> str:
    """Return the leading part of run and plan ids."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%SZ")


def time_of(run_id: str) -> int | None:
    """Return when a run was planned or begun, as its id says; `None` if the id has no time."""
    try:
        return int(datetime.strptime(run_id[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp() * 1000)
    except ValueError:
        return None


class Ledger:
    """The rows of one run."""

    def __init__(self, area: ControlArea, run_id: str, plan_id: str, chain: Chain | None = None) -> None:
        self._area = area
        self._chain = chain or Chain(Beginning(area.table, run_id, plan_id, by=area.who()))
        self._folder = folder_of_run(run_id)
        self._plan_id = plan_id
        self._batch = 0
        self._unwritten = ""
        """Name of a part that was sent; the run does not know whether it was written."""
        self._waiting: list[dict[str, object]] = []

    def intend(self, deletes: Sequence[Delete]) -> None:
        """Record what the next batch will delete, and with it the results of the batch before."""
        self._batch += 1
        self._waiting += [self._row(delete) for delete in deletes]
        self._put("intent")

    def record(
        self,
        deletes: Sequence[Delete],
        results: Mapping[str, DeleteResult],
        kept: Iterable[tuple[Delete, str]],
        why: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Note the results of the batch; the next part holds them.

        Args:
            deletes: The deletions that were sent.
            results: By path.
            kept: Deletions that a recheck held back, with the reason.
            why: By path, a further remark on a result.
        """
        self._waiting += _results(self._plan_id, self._batch, deletes, results, kept, why)

    def record_earlier(
        self, deletes: Sequence[Delete], results: Mapping[str, DeleteResult], why: Mapping[str, str]
    ) -> None:
        """Note what earlier runs of the plan deleted without recording it.

        Args:
            deletes: The deletions of these runs.
            results: By path.
            why: By path, how this run knows it.
        """
        self._batch += 1
        self._waiting += _results(self._plan_id, self._batch, deletes, results, (), why)

    def record_restored(self, deletes: Sequence[Delete]) -> None:
        """Note documents that were put back."""
        self._waiting += [{**self._row(delete), "result": "restored"} for delete in deletes]

    def record_heads(self, heads: Mapping[str, str]) -> None:
        """Note where the chains of other writers end: writer -> hash of its last part."""
        self._waiting += [{"writer": writer, "ends": head} for writer, head in sorted(heads.items())]

    def record_undeleted(self, restores: Sequence[Restore], codes: Mapping[str, str]) -> None:
        """Record which objects were restored, and why others were not.

        Args:
            restores: The objects to restore.
            codes: By path.
        """
        self._batch += 1
        self._waiting += [
            {
                "plan_id": self._plan_id,
                "batch": self._batch,
                "kind": restore.kind,
                "key": restore.path,
                "size_bytes": restore.size_bytes,
                "reason": restore.reason,
                "version_id": restore.version_id,
                "result": codes[restore.path],
            }
            for restore in restores
        ]
        self.flush()

    def flush(self) -> None:
        """Write the rows that are noted and not yet written. Call it when no batch follows."""
        if self._waiting:
            self._put("result")

    def _row(self, delete: Delete) -> dict[str, object]:
        return _row(self._plan_id, self._batch, delete)

    def _put(self, suffix: str) -> None:
        # If a part may not have been written, it is written again with the rows that came since: no row is lost or
        # doubled.
        rows = tuple(self._waiting)
        data = self._chain.pack(rows)
        self._unwritten = self._unwritten or f"{self._folder}{self._chain.number + 1:05d}-{suffix}.ndjson.gz"
        self._area.put(self._unwritten, data)
        self._unwritten = ""
        self._chain.written(data)
        del self._waiting[: len(rows)]


def _row(plan_id: str, batch: int, delete: Delete) -> dict[str, object]:
    return {
        "plan_id": plan_id,
        "batch": batch,
        "kind": delete.kind,
        "key": delete.path,
        "size_bytes": delete.size_bytes,
        "reason": delete.reason,
    }


def _results(
    plan_id: str,
    batch: int,
    deletes: Sequence[Delete],
    results: Mapping[str, DeleteResult],
    kept: Iterable[tuple[Delete, str]],
    why: Mapping[str, str] = MappingProxyType({}),
) -> list[dict[str, object]]:
    rows = [
        {
            **_row(plan_id, batch, delete),
            "result": results[delete.path].code,
            "version_id": results[delete.path].version_id,
            **({"why": why[delete.path]} if delete.path in why else {}),
        }
        for delete in deletes
    ]
    return rows + [{**_row(plan_id, batch, delete), "result": "kept_by_look", "why": why} for delete, why in kept]


class SliceLedger:
    """The rows of one slice of a plan, as one process writes them."""

    def __init__(self, area: ControlArea, run_id: str, plan_id: str, number: int) -> None:
        self._area = area
        self._name = f"{folder_of_run(run_id)}{number:07d}"
        self._plan_id = plan_id
        self._number = number
        self._attempt = 0
        self._run_id = run_id
        self._chain = self._begun()

    def _begun(self) -> Chain:
        writer = f"{self._number:07d}-{self._attempt:02d}"
        return Chain(Beginning(self._area.table, self._run_id, self._plan_id, by=self._area.who()), writer)

    @property
    def end(self) -> str:
        """Return the writer of this attempt and the hash of its last part; empty if it has written none."""
        return f"{self._chain.writer} {self._chain.last}" if self._chain.number else ""

    def intend(self, deletes: Sequence[Delete]) -> bool:
        """Record what is about to be deleted.

        Returns:
            False if another process of this run has begun the slice. Then `answers` returns its results, and another
                call begins the next attempt.

        Raises:
            MaintenanceError: The slice was begun too often.
        """
        if self._attempt >= SLICE_ATTEMPTS:
            raise MaintenanceError(
                f"{self._area.path(self._name)}: expected {SLICE_ATTEMPTS} attempts at most in one run, found more",
                code="too_many_attempts",
            )
        rows = [_row(self._plan_id, self._batch, delete) for delete in deletes]
        data = self._chain.pack(rows)
        try:
            self._area.put(self._part("intent"), data, if_absent=True)
        except PreconditionFailedError:
            self._attempt += 1
            self._chain = self._begun()
            return False
        self._chain.written(data)
        return True

    def answers(self) -> dict[str, str]:
        """Return path -> result of the attempt that the last call of `intend` found; empty if it has no result yet."""
        return slice_answers(self._area, self._plan_id, [f"{self._name}-{self._attempt - 1:02d}-result.ndjson.gz"])

    def record(
        self,
        deletes: Sequence[Delete],
        results: Mapping[str, DeleteResult],
        kept: Iterable[tuple[Delete, str]],
        why: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Record the results, as `Ledger.record` does, and write them at once."""
        data = self._chain.pack(_results(self._plan_id, self._batch, deletes, results, kept, why))
        self._area.put(self._part("result"), data)
        self._chain.written(data)

    @property
    def _batch(self) -> int:
        return self._number * SLICE_ATTEMPTS + self._attempt + 1

    def _part(self, suffix: str) -> str:
        return f"{self._name}-{self._attempt:02d}-{suffix}.ndjson.gz"


def slice_answers(area: ControlArea, plan_id: str, names: Iterable[str]) -> dict[str, str]:
    """Return path -> result from the result parts among `names`. Damaged and missing parts are skipped."""
    rows = _slice_rows(area, plan_id, (name for name in names if not name.endswith(_INTENT)))
    return {str(row.get("key")): str(row.get("result")) for row in rows}


def slice_intents(area: ControlArea, plan_id: str, names: Iterable[str]) -> frozenset[str]:
    """Return the paths in the intents among `names`. Damaged and missing parts are skipped."""
    rows = _slice_rows(area, plan_id, (name for name in names if name.endswith(_INTENT)))
    return frozenset(str(row.get("key")) for row in rows)


def _slice_rows(area: ControlArea, plan_id: str, names: Iterable[str]) -> Iterator[dict[str, object]]:
    for name in names:
        try:
            rows = list(unpack(area.read(name).data, area.path(name)))
        except (FormatError, ObjectNotFoundError):
            continue
        yield from (row for row in rows if row.get("plan_id") == plan_id)


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
        if result in ("deleted", "already_gone", "kept_by_look"):
            found[path] = str(result)
        begun = begun or (row.get("kind") not in _DOCUMENTS and result != "kept_by_look")
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
        for name in area.names(folder_of_run(run_id)):
            for row in _rows_in(area, name):
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
    for name in area.names(folder_of_run(run_id)):
        for row in _rows_in(area, name):
            return str(row["plan_id"])
    return None


def run_rows(area: ControlArea, run_id: str) -> list[dict[str, object]]:
    """Return all rows of a run.

    Raises:
        FormatError: A part is damaged.
    """
    names = area.names(folder_of_run(run_id))
    return [row for name in names for row in _rows_in(area, name)]


def parts_of_run(area: ControlArea, run_id: str) -> list[str]:
    """Return the names of the parts that a run wrote."""
    return area.names(folder_of_run(run_id))


def runs_of_ledger(area: ControlArea, most: int) -> list[str]:
    """Return the ids of the newest runs that wrote a part, newest first."""
    found: list[str] = []
    for day in sorted(area.folders("ledger/"), reverse=True):
        found += sorted(area.folders(f"ledger/{day}/"), reverse=True)
        if len(found) >= most:
            break
    return found[:most]


def _rows_in(area: ControlArea, name: str) -> Iterator[dict[str, object]]:
    """Yield the rows of one part.

    Raises:
        FormatError: It is damaged, or a row does not name its object.
    """
    path = area.path(name)
    for row in unpack(area.read(name).data, path):
        if not is_object_row(row):
            continue
        texts = all(isinstance(row.get(key), str) for key in ("key", "kind", "plan_id"))
        if not texts or not isinstance(row.get("result", ""), str) or not is_count(row.get("batch")):
            raise FormatError(f"{path}: expected key, kind, plan_id, batch and result of an object in every row")
        size_bytes = row.get("size_bytes")
        if not isinstance(row.get("version_id"), str | None) or not (size_bytes is None or is_count(size_bytes)):
            raise FormatError(f"{path}: expected a version_id as text and size_bytes as a number in every row")
        yield row


def folder_of_run(run_id: str) -> str:
    """Return the folder that the parts of a run lie in."""
    return f"ledger/dt={day_of(run_id)}/{run_id}/"
