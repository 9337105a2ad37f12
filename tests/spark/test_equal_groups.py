"""Groups of equal names as a match goes through them, wherever Spark cuts its batches. No Spark takes part.

A group whose live rows are overlooked is a live file that is deleted.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from random import Random
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakesweep.control.area import ControlArea
from lakesweep.control.ndjson import unpack
from lakesweep.errors import MaintenanceError
from lakesweep.operations.orphans.judging import Holding, Question
from lakesweep.operations.orphans.listing import Place
from lakesweep.operations.orphans.rules.orphans import SAMPLE, Totals
from lakesweep.spark.match import Matcher
from lakesweep.spark.parts import part_of, read_part
from lakesweep.spark.shuffle import LISTED, LIVE, MATCH_SCHEMA
from lakesweep.table.reach.named_entries import ADDED, BY_ROOT, COMPACTED
from tests.support.memory_store import MemoryStore

CUTOFF_MS = 1000
TABLE, SHARED = Place("memory://b/t", is_table=True, is_owned=True), Place("memory://x", is_table=False, is_owned=False)
HOLDINGS = {1: Holding(0b01, 0, 0), 2: Holding(0b10, 0, 0), 3: Holding(0, 0b100, 0), 4: Holding(0, 0, 0b1000)}
"""Manifest -> who holds it. Nobody whom a reader follows holds manifest 5."""


class Live(NamedTuple):
    name: tuple[int, int]
    ident: int
    manifest: int
    flags: int


class Listed(NamedTuple):
    name: tuple[int, int]
    place: int
    modified_ms: int
    policy: str
    owner: bytes | None


NAMES = st.sampled_from([(a, b) for a in (-(2**63), -1, 0, 7, 2**63 - 1) for b in (-(2**63), 0, 2**63 - 1)])
FLAGS = st.sampled_from([ADDED, ADDED | COMPACTED, 0, COMPACTED, BY_ROOT])
LIVES = st.builds(Live, NAMES, st.integers(0, 2), st.integers(1, 5), FLAGS)
LISTEDS = st.builds(
    Listed,
    NAMES,
    st.sampled_from([0, 0, 0, 1]),
    st.sampled_from([CUTOFF_MS - 1, CUTOFF_MS - 1, CUTOFF_MS]),
    st.sampled_from(["delete", "delete", "report"]),
    st.sampled_from([None, None, b"owner"]),
)


def is_needed(entries: Sequence[Live]) -> bool:
    """Say it root by root: the slow way."""
    if any(entry.flags & BY_ROOT for entry in entries):
        return True
    for entry in entries:
        if not entry.flags & ADDED:
            continue
        held = HOLDINGS.get(entry.manifest, Holding(0, 0, 0))
        for root in range(4):
            bit = 1 << root
            is_gone = any(
                not other.flags & ADDED
                and other.ident == entry.ident
                and HOLDINGS.get(other.manifest, Holding(0, 0, 0)).state & bit
                for other in entries
            )
            if held.state & bit and not is_gone:
                return True
            if held.changes & bit or (held.replay & bit and not entry.flags & COMPACTED):
                return True
    return False


def run_matcher(rows: Sequence[Live | Listed], cuts: Sequence[int]) -> tuple[list[dict[str, Any]], set[str], list[str]]:
    """Match rows in batches that end at the cuts; return answers, what goes, and what waits for its owner."""
    store = MemoryStore("memory://control")
    area = ControlArea(store, "memory://b/t")
    question = Question(CUTOFF_MS, False, None, (), (TABLE, SHARED), "plan", "scans/s/")
    access = SimpleNamespace(table=TABLE.location)
    task: Any = SimpleNamespace(area=area, scans=area, access=access, store=lambda _: MemoryStore(TABLE.location))
    answers = list(Matcher(task, question, HOLDINGS).rows(batches(rows, cuts)))
    going: list[str] = []
    owned: list[str] = []
    for answer in answers:
        if "plan" in answer:
            body = area.read(f"plans/plan/{answer['plan']['name']}").data
            going += [str(row["path"]) for row in unpack(body, "")]
        elif "owned" in answer:
            found = read_part(area, part_of(answer["owned"]))
            owned += [key.decode() for key in found.column("key").to_pylist()]
    assert len(going) == len(set(going))
    return answers, set(going), sorted(owned)


def path_of(number: int) -> str:
    return f"bucket-0/data-00000000-0000-0000-0000-{number:012d}-0.parquet"


def batches(rows: Sequence[Live | Listed], cuts: Sequence[int]) -> Iterator[pa.RecordBatch]:
    found = []
    for number, row in enumerate(rows):
        if isinstance(row, Live):
            found.append((*row.name, LIVE, row.ident, row.manifest, row.flags, *[None] * 9))
        else:
            key = path_of(number).encode()
            listed = (row.place, key, key, 10, "e", row.modified_ms, "data", row.policy, row.owner)
            found.append((*row.name, LISTED, None, None, None, *listed))
    ends = sorted({min(cut, len(found)) for cut in cuts} | {len(found)})
    for start, end in zip([0, *ends], ends, strict=False):
        columns = list(zip(*found[start:end], strict=True)) or [()] * len(MATCH_SCHEMA)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, MATCH_SCHEMA, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=MATCH_SCHEMA)


def order(row: Live | Listed) -> tuple[tuple[int, int], bool]:
    return row.name, isinstance(row, Listed)


@given(
    st.lists(LIVES | LISTEDS, max_size=40).map(lambda rows: sorted(rows, key=order)),
    st.lists(st.integers(0, 40), max_size=41),
)
@example([Live((0, 0), 0, 1, ADDED), Listed((0, 0), 0, 0, "delete", None)], [1])
@example([Live((0, 0), 0, 1, ADDED), Live((0, 0), 0, 1, ADDED), Listed((0, 0), 0, 0, "delete", None)], [1, 2])
@example([Live((0, 0), 0, 1, ADDED), Live((0, 7), 0, 1, ADDED), Listed((0, 7), 0, 0, "delete", None)], [0, 1, 1])
@example([Live((0, 0), 0, 1, 0), Live((0, 0), 0, 2, 0), Live((0, 0), 0, 1, ADDED)], [])
def test_batches_may_be_cut_anywhere(rows: list[Live | Listed], cuts: list[int]) -> None:
    live: dict[tuple[int, int], list[Live]] = defaultdict(list)
    shown = set()
    for row in rows:
        if isinstance(row, Live):
            live[row.name].append(row)
        else:
            shown.add(row.name)
    kept: list[Counter[str]] = [Counter(), Counter()]
    goes, owned, others = set(), [], 0
    for number, row in enumerate(rows):
        if isinstance(row, Live):
            continue
        if row.name in live:
            kept[row.place]["live"] += 1
        elif row.policy == "report":
            kept[row.place]["reported"] += 1
        elif row.modified_ms >= CUTOFF_MS:
            kept[row.place]["too_young"] += 1
        elif row.owner is not None:
            owned.append(path_of(number))
        elif row.place == 1:
            others += 1
        else:
            goes.add(path_of(number))
    missing = {
        name: sorted({entry.manifest for entry in entries})
        for name, entries in live.items()
        if name not in shown and is_needed(entries)
    }

    answers, gone, waiting = run_matcher(rows, cuts)

    assert gone == goes
    assert waiting == sorted(owned)
    assert {tuple(answer["missing"]): answer["manifests"] for answer in answers if "missing" in answer} == missing
    assert sum("missing" in answer for answer in answers) == len(missing)
    last = answers[-1]
    assert last["unseen"] == len(missing)
    assert last["others"] == [[0, 0], [others, 10 * others]]
    assert [dict(totals["kept"]) for totals in last["totals"]] == [dict(each) for each in kept]
    assert last["going"] == [len(goes), 10 * len(goes)]


@given(
    st.lists(LIVES | LISTEDS, min_size=2, max_size=12).filter(lambda rows: sorted(rows, key=order) != rows),
    st.lists(st.integers(0, 12), max_size=6),
)
@example([Listed((0, 0), 0, 0, "delete", None), Live((0, 0), 0, 1, ADDED)], [])
@example([Listed((0, 0), 0, 0, "delete", None), Live((0, 0), 0, 1, ADDED)], [1])
def test_rows_that_come_in_another_order_are_refused(rows: list[Live | Listed], cuts: list[int]) -> None:
    """The order is what tells that no live row of a name comes later. A Spark that lost it must not delete."""
    if [order(row) for row in rows] == sorted(order(row) for row in rows):
        return
    with pytest.raises(MaintenanceError, match="order"):
        run_matcher(rows, cuts)


@given(st.lists(st.integers(0, 99), unique=True), st.integers(0, 99), st.randoms())
def test_the_same_keys_are_shown_whoever_meets_them_and_when(numbers: list[int], cut: int, random: Random) -> None:
    """Tasks meet keys in the order of hashes, and the local engine's listings bring pages in any order."""
    random.shuffle(numbers)
    one, other, whole = Totals(), Totals(), Totals()
    for place, number in enumerate(numbers):
        (one if place < cut else other).keep(f"{number:02}", 1, "foreign")
        whole.keep(f"{number:02}", 1, "foreign")
    one.add(other)

    assert one == whole
    assert whole.shown.get("foreign", []) == sorted(f"{number:02}" for number in numbers)[:SAMPLE]
