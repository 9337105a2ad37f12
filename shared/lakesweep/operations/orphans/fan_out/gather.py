"""The step between decoding and matching: it determines which files the roots refer to.

This step collects all roots until two listings agree, as any scan does. Tasks have decoded most manifests. Some
appeared since, or a task could not read them: this step decodes those itself, or sends more tasks if they are many.
Only this step decides whether a root is damaged.
"""

import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lakesweep.control.area import ControlArea
from lakesweep.errors import FormatError, ObjectNotFoundError
from lakesweep.format.manifest import ManifestEntry, ManifestMeta
from lakesweep.operations.orphans.fan_out.begin import METADATA, decode_work
from lakesweep.operations.orphans.fan_out.captured import Remembered, captured_of
from lakesweep.operations.orphans.fan_out.documents import Match, More, Scan, ScanDocuments, Source, State
from lakesweep.operations.orphans.fan_out.heads import DecodedHead, ListedHead
from lakesweep.operations.orphans.fan_out.limits import HERE_ENTRIES, MATCH_ROWS, MORE_ROUNDS, MOST_GAP_ROWS
from lakesweep.operations.orphans.fan_out.match import DEAD
from lakesweep.operations.orphans.fan_out.names import Names, manifests_of, names_of_table
from lakesweep.operations.orphans.fan_out.spill import SLOTS, head_of
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


class _TooMany(Exception):
    def __init__(self, metas: Sequence[ManifestMeta]) -> None:
        super().__init__(f"{len(metas)} manifests")
        self.metas = metas


def gather(table: Table, documents: ScanDocuments, scan: Scan, state: State) -> tuple[str, More | Match]:
    """Collect the roots, and return the manifests that are left to decode, or else the input of the match.

    Returns:
        The name of a document for it, and its content, with the tasks.

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
        return _more(state, more.metas)
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
    holdings = _Holdings(Holders(found.reader, whole_roots(table.store, found)), frozenset(live.manifests))
    if here.manifests:
        held, manifests = holdings.of(here.manifests), tuple(here.manifests)
        own_names.append(replace(_written(documents, here, "here"), held=held, manifests=manifests))
    names = [replace(source, held=holdings.of(source.manifests)) for source in sources]
    listed = [(task, head, spill) for task, (head, spill) in state.heads.items() if isinstance(head, ListedHead)]
    objects = [Source(documents.name(f"tasks/{task}"), spill) for task, _, spill in listed if spill.rows]
    quarantine_ms = scan.arguments.quarantine_ms
    document = f"match-{uuid.uuid4().hex[:12]}.json.gz"
    rows = [source.spill.slot_rows for source in (*names, *own_names, *objects)]
    return document, Match(
        capture=captured_of(found),
        metadata=learned,
        plan_id=new_id(table.store.now_ms()),
        quarantine_before_ms=None if quarantine_ms is None else scan.now_ms - quarantine_ms,
        gathered_ms=gathered_ms,
        nested=tuple(sorted({folder for _, head, _ in listed for folder in head.nested})),
        names=tuple(names),
        own_names=tuple(own_names),
        objects=tuple(objects),
        holdings=holdings.rows,
        entries_here=here.entries,
        tasks=tuple(match_tasks(document, rows)),
    )


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


def _names(documents: ScanDocuments, area: ControlArea, scan: Scan, state: State) -> list[Source]:
    """Return the segments of the scan: those it found and those its tasks wrote."""
    found = []
    for name in scan.segments:
        try:
            spill = head_of(area.store, area.prefix + name)
            found.append(Source(name, spill, manifests=manifests_of(spill, area.path(name))))
        except (ObjectNotFoundError, FormatError):
            continue  # its manifests count as unknown then, and are decoded like manifests that appeared since
    for task, (head, spill) in state.heads.items():
        if isinstance(head, DecodedHead):
            found.append(Source(segment_name(documents.scan_id, task), spill, manifests=head.manifests))
    return found


def _in_vain(scan: Scan, state: State) -> frozenset[str]:
    """Return the manifests in segments that failed the comparison at the beginning and were not decoded since."""
    decoded = (head.manifests for head, _ in state.heads.values() if isinstance(head, DecodedHead))
    return scan.doubted.difference(*decoded)


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


def _more(state: State, metas: Sequence[ManifestMeta]) -> tuple[str, More]:
    document = f"more-{len(state.more) + 1}-{uuid.uuid4().hex[:8]}.json.gz"
    stem = document.removesuffix(".json.gz")
    work = decode_work({meta.file_name: meta for meta in metas}, (), (), frozenset())
    decode = {f"decode-{stem}-{count}": each for count, each in enumerate(work)}
    return document, More(decode, tuple(DecodeTask(task, document) for task in decode))


def _written(documents: ScanDocuments, names: Names, what: str) -> Source:
    """Write names that only this scan uses, and return the source that they make."""
    name = documents.name(f"{what}-{uuid.uuid4().hex[:12]}")
    documents.area.put(name, names.to_bytes(), if_absent=True)
    return Source(name, head_of(documents.area.store, documents.area.prefix + name))


class _Holdings:
    """The distinct sets of roots that hold manifests."""

    def __init__(self, holders: Holders, alive: frozenset[str]) -> None:
        self._alive = alive
        self._numbers: dict[tuple[int, int, int], int] = {(0, 0, 0): 0}
        self._of = {
            name: self._numbers.setdefault((each.state, each.changes, each.replay), len(self._numbers))
            for name, each in holders.manifests()
        }

    def of(self, manifests: Iterable[str]) -> tuple[int, ...]:
        """Return the number of each manifest's holding."""
        return tuple(self._of.get(name, 0) if name in self._alive else DEAD for name in manifests)

    @property
    def rows(self) -> tuple[tuple[str, str, str], ...]:
        """The holdings, in the order of their numbers."""
        return tuple((f"{state:x}", f"{changes:x}", f"{replay:x}") for state, changes, replay in self._numbers)
