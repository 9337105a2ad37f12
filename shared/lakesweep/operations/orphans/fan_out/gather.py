"""The step between decoding and matching: it determines which files the roots refer to.

This step collects all roots until two listings agree, as any scan does. Tasks have decoded most manifests. Some
appeared since, or a task could not read them: this step decodes those itself, or sends more tasks if they are many.
Only this step decides whether a root is damaged.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from lakesweep.control.area import ControlArea
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.manifest import ManifestEntry
from lakesweep.format.manifest_list import ManifestMeta
from lakesweep.operations.orphans.fan_out.begin import METADATA, DecodeWork, decode_work
from lakesweep.operations.orphans.fan_out.captured import Remembered, capture_to_json
from lakesweep.operations.orphans.fan_out.documents import Json, ScanDocuments, State, arguments_of
from lakesweep.operations.orphans.fan_out.limits import HERE_ENTRIES, MATCH_ROWS, MORE_ROUNDS, MOST_GAP_ROWS
from lakesweep.operations.orphans.fan_out.match import DEAD
from lakesweep.operations.orphans.fan_out.names import Names, manifests_of, names_of_table
from lakesweep.operations.orphans.fan_out.spill import SLOTS, Spill, head_of
from lakesweep.operations.orphans.fan_out.tasks import DecodeTask, MatchTask
from lakesweep.operations.orphans.fan_out.worker import segment_name
from lakesweep.operations.orphans.scan import check_table
from lakesweep.runs.identifiers import new_id
from lakesweep.runs.session import Table
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.capture import capture
from lakesweep.table.reach.holders import Holders
from lakesweep.table.reach.live_set import LiveSet
from lakesweep.table.reach.missing import whole_roots


@dataclass(frozen=True, slots=True)
class Step:
    """The next work of a scan: more manifests to decode, or the match."""

    document: str
    """Name of the document that describes the work."""
    content: Json
    """Its content, with the tasks."""
    is_match: bool


class _TooMany(Exception):
    def __init__(self, metas: Sequence[ManifestMeta]) -> None:
        super().__init__(f"{len(metas)} manifests")
        self.metas = metas


def gather(table: Table, documents: ScanDocuments, scan: Json, state: State) -> Step:
    """Collect the roots, and return the manifests that are left to decode, or else the input of the match.

    Raises:
        RefusedError: There are no roots, or one cannot be understood.
        StalePlanError: The roots keep changing.
        StorageError: A request failed.
        FormatError: A document or spill that a task wrote is damaged.
    """
    gathered_ms = table.store.now_ms()
    remembered = Remembered.load(table, documents, METADATA)
    table, area = remembered.table, names_of_table(documents.area)
    sources = _names(documents, area, scan, state)
    known = {name for source in sources for name in source.manifests} - _in_vain(scan, state)
    here = Names()
    live = LiveSet(manifests=set(known))
    try:
        decode = _Decode(here, may_leave=len(state.more) < MORE_ROUNDS)
        found = capture(table.store, table.sleep, partial(check_table, table), live, decode)
    except _TooMany as more:
        return _more(documents, state, more.metas)
    named = {name for name, _ in Holders(found.reader, found.roots.values()).manifests()}
    # Of the manifests known beforehand, only those count that some root still names.
    live.manifests &= named
    learned = METADATA
    if remembered.memory.learned:
        learned = f"metadata-{uuid.uuid4().hex[:8]}.bin"
        remembered.keep(documents, learned)
    own = Names()
    own.add_hashes(live.names)
    own_names = [_written(documents, own, "own")]
    holders = Holders(found.reader, whole_roots(table.store, found))
    holdings = _Holdings(holders, frozenset(live.manifests))
    if here.manifests:
        held = holdings.of(here.manifests)
        own_names.append({**_written(documents, here, "here"), "held": held, "manifests": here.manifests})
    names = [source.to_json(holdings.of(source.manifests)) for source in sources]
    objects = [
        {"name": documents.name(f"tasks/{task}"), "spill": head["spill"]}
        for task, head in state.heads.items()
        if "place" in head["info"] and any(_rows(head))
    ]
    arguments = arguments_of(scan["arguments"], 1)
    content: Json = {
        "capture": capture_to_json(found),
        "metadata": learned,
        "plan_id": new_id(table.store.now_ms()),
        "quarantine_before_ms": None if arguments.quarantine_ms is None else scan["now_ms"] - arguments.quarantine_ms,
        "gathered_ms": gathered_ms,
        "nested": sorted({folder for head in state.heads.values() for folder in head["info"].get("nested", ())}),
        "names": names,
        "own_names": own_names,
        "objects": objects,
        "holdings": holdings.rows,
        "entries_here": here.entries,
    }
    document = f"match-{uuid.uuid4().hex[:12]}.json.gz"
    rows = [_rows(row) for row in (*names, *own_names, *objects)]
    content["tasks"] = [task.to_json() for task in match_tasks(document, rows)]
    return Step(document, content, is_match=True)


def match_tasks(
    document: str, rows: Sequence[Sequence[int]], slots: Collection[int] = range(SLOTS), *, by_owner: bool = False
) -> Iterator[MatchTask]:
    """Yield tasks that match slots. Each task gets about as many rows as one worker can take.

    Args:
        document: Name of the document with the input of the match.
        rows: Rows of each source in each slot.
        slots: Slots that have to be matched. A task may include others if this makes fewer tasks.
        by_owner: Whether this is the second match, of extra files by their owners.
    """
    stem = document.removesuffix(".json.gz")
    first = end = None
    taken = gap = 0
    for slot in range(SLOTS):
        count = sum(each[slot] for each in rows)
        if slot not in slots:
            gap += count
            continue
        if first is not None and (taken + gap + count > MATCH_ROWS or gap > MOST_GAP_ROWS):
            yield MatchTask(f"{stem}-{first}", document, first, end or SLOTS, taken, by_owner)
            first = None
        if first is None:
            first, taken, gap = slot, 0, 0
        taken, gap, end = taken + gap + count, 0, slot + 1
    if first is not None:
        yield MatchTask(f"{stem}-{first}", document, first, end or SLOTS, taken, by_owner)


@dataclass(frozen=True, slots=True)
class _Source:
    """A segment that takes part in the match."""

    name: str
    spill: Spill
    manifests: tuple[str, ...]

    def to_json(self, held: list[int]) -> Json:
        return {
            "name": self.name,
            "spill": self.spill.to_json(),
            "held": held,
            "manifests": list(self.manifests),
        }


def _names(documents: ScanDocuments, area: ControlArea, scan: Json, state: State) -> list[_Source]:
    """Return the segments of the scan: those it found and those its tasks wrote."""
    found = []
    for name in scan["segments"]:
        try:
            spill = head_of(area.store, area.prefix + name)
            found.append(_Source(name, spill, manifests_of(spill, area.path(name))))
        except (ObjectNotFoundError, FormatError):
            continue  # its manifests count as unknown then, and are decoded like manifests that appeared since
    for task, head in state.heads.items():
        if "manifests" in head["info"]:
            name = segment_name(documents.scan_id, task)
            spill = Spill.from_json(head["spill"], area.path(name))
            found.append(_Source(name, spill, tuple(map(str, head["info"]["manifests"]))))
    return found


def _in_vain(scan: Json, state: State) -> set[str]:
    """Return the manifests in segments that failed the comparison at the beginning and were not decoded since."""
    decoded = {
        name for head in state.heads.values() if "manifests" in head["info"] for name in head["info"]["manifests"]
    }
    return set(scan["doubted"]) - decoded


@dataclass(slots=True)
class _Decode:
    """Decodes the manifests that no task has decoded; see `lakesweep.table.reach.live_set.Decode`."""

    names: Names
    may_leave: bool
    """Whether many manifests may be left to tasks."""

    def __call__(
        self,
        reader: MetadataReader,
        metas: Iterable[ManifestMeta],
        note: Callable[[Iterator[ManifestEntry]], None],
    ) -> Iterator[tuple[str, Unreadable | None]]:
        """Decode manifests. `note` is not called, since the names are kept as rows."""
        metas = list({meta.file_name: meta for meta in metas}.values())
        if self.may_leave and sum(meta.added_count + meta.deleted_count for meta in metas) > HERE_ENTRIES:
            raise _TooMany(metas)
        self.names.unreadable.clear()  # a manifest that could not be read before is tried again
        self.names.decode(reader, metas)
        for meta in metas:
            yield meta.file_name, self.names.unreadable.get(meta.file_name)


def _more(documents: ScanDocuments, state: State, metas: Sequence[ManifestMeta]) -> Step:
    number = len(state.more) + 1
    document = f"more-{number}-{uuid.uuid4().hex[:8]}.json.gz"
    stem = document.removesuffix(".json.gz")
    work: list[DecodeWork] = decode_work({meta.file_name: meta for meta in metas}, (), (), frozenset())
    decode = {f"decode-{stem}-{count}": each.to_json() for count, each in enumerate(work)}
    tasks = [DecodeTask(task, document).to_json() for task in decode]
    return Step(document, {"decode": decode, "tasks": tasks}, is_match=False)


def _written(documents: ScanDocuments, names: Names, what: str) -> Json:
    """Write names that only this scan uses, and return the source that they make."""
    name = documents.name(f"{what}-{uuid.uuid4().hex[:12]}")
    documents.area.put(name, names.to_bytes(), if_absent=True)
    spill = head_of(documents.area.store, documents.area.prefix + name)
    return {"name": name, "spill": spill.to_json()}


class _Holdings:
    """The distinct sets of roots that hold manifests."""

    def __init__(self, holders: Holders, alive: frozenset[str]) -> None:
        self._alive = alive
        self._numbers: dict[tuple[int, int, int], int] = {(0, 0, 0): 0}
        self._of = {
            name: self._numbers.setdefault((each.state, each.changes, each.replay), len(self._numbers))
            for name, each in holders.manifests()
        }

    def of(self, manifests: Iterable[str]) -> list[int]:
        """Return the number of each manifest's holding."""
        return [self._of.get(name, 0) if name in self._alive else DEAD for name in manifests]

    @property
    def rows(self) -> list[list[str]]:
        """The holdings, in the order of their numbers."""
        return [[format(each, "x") for each in holding] for holding in self._numbers]


def _rows(source: Json) -> Sequence[int]:
    return Spill.from_json(source["spill"], str(source.get("name"))).slot_rows
