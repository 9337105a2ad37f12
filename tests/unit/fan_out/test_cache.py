"""The index of segments, and which of them a scan uses."""

import gzip
import json
import random
from dataclasses import replace
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.errors import AccessDeniedError, StorageError
from lakesweep.model.safety import SEGMENT_REWRITE_MS, SEGMENT_UNSAFE_MS
from lakesweep.operations.orphans.fan_out.cache import (
    DAY_MS,
    INDEX,
    MANY_SMALL,
    MAX_MANIFESTS,
    MAX_SEGMENTS,
    SMALL_ROWS,
    Segment,
    choose,
    read_index,
    write_index,
)
from lakesweep.operations.orphans.fan_out.names import names_of_table
from lakesweep.storage.store import Body
from tests.support.memory_store import MemoryStore
from tests.support.metadata_files import stable_uuid

NOW = 100 * DAY_MS
TABLE = "memory://bucket/t"


def area(store: MemoryStore | None = None, table: str = TABLE) -> ControlArea:
    return names_of_table(ControlArea(store or MemoryStore("memory://control"), table))


def segment(name: str, *manifests: str, rows: int = 100_000, age_ms: int = DAY_MS) -> Segment:
    return Segment(name, manifests, rows, NOW - age_ms)


def names(segments: tuple[Segment, ...]) -> list[str]:
    return sorted(each.name for each in segments)


def chosen(alive: str, *segments: Segment) -> tuple[list[str], list[str]]:
    choice = choose(segments, set(alive.split()), NOW)
    return names(choice.kept), names(choice.rewritten)


def test_what_is_written_is_read() -> None:
    place = area()
    assert read_index(place) == ((), None)
    segments = (segment("a", "m1", "\udcffm2", "m/3"), segment("b"))
    assert write_index(place, segments, None)
    found, etag = read_index(place)
    assert set(found) == set(segments)
    assert write_index(place, segments[:1], etag)
    assert read_index(place)[0] == segments[:1]


def test_who_comes_second_changes_nothing() -> None:
    """Two scans at once: the index is that of the first."""
    place = area()
    assert write_index(place, [segment("a", "m1")], None)
    assert not write_index(place, [segment("b", "m1")], None)
    _, etag = read_index(place)
    assert write_index(place, [segment("c", "m1")], etag)
    assert not write_index(place, [segment("d", "m1")], etag)
    assert names(read_index(place)[0]) == ["c"]


def test_tables_do_not_share_segments() -> None:
    store = MemoryStore("memory://control")
    write_index(area(store), [segment("a", "m1")], None)
    other = area(store, "memory://bucket/t2")
    assert read_index(other) == ((), None)
    body = area(store).read(INDEX).data
    other.put(INDEX, body)
    assert read_index(other)[0] == (), "a copied index is of another table"


def packed(document: Any) -> bytes:
    return gzip.compress(json.dumps(document).encode(), mtime=0)


def index(*rows: Any, version: Any = 1, table: str = TABLE) -> bytes:
    return packed({"format_version": version, "table": table, "segments": list(rows)})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"x",
        b"\x1f\x8b",
        packed([]),
        packed({}),
        packed(1),
        gzip.compress(b"\xff", mtime=0),
        gzip.compress(b"[" * 100_000, mtime=0),
        gzip.compress(b"{}", mtime=0)[:-3],
        index(["a", 1, 1, ["m"]], version=2),
        index(["a", 1, 1, ["m"]], version=None),
        index(["a", 1, 1, ["m"]], table="other"),
        index(["a", 1, 1]),
        index(["a", 1, 1, ["m"], 1]),
        index([1, 1, 1, ["m"]]),
        index(["a/b", 1, 1, ["m"]]),
        index(["../a", 1, 1, ["m"]]),
        index(["..", 1, 1, ["m"]]),
        index(["", 1, 1, ["m"]]),
        index(["a\n", 1, 1, ["m"]]),
        index(["\ud800", 1, 1, ["m"]]),
        index(["a" * 300, 1, 1, ["m"]]),
        index([INDEX, 1, 1, ["m"]]),
        index(["a", -1, 1, ["m"]]),
        index(["a", True, 1, ["m"]]),
        index(["a", 1, 1.5, ["m"]]),
        index(["a", 1, 1, "m"]),
        index(["a", 1, 1, [1]]),
        index(["a", 1, 1, {"m": 1}]),
        index(["b", 1, 1, ["m"]], None),
        index(5),
        packed({"format_version": 1, "table": TABLE, "segments": 5}),
        packed({"format_version": 1, "table": TABLE, "segments": None}),
    ],
)
def test_a_damaged_index_is_empty_and_is_replaced(data: bytes) -> None:
    place = area()
    place.put(INDEX, data)
    segments, etag = read_index(place)
    assert segments == ()
    assert etag is not None
    assert write_index(place, [segment("a", "m1")], etag)
    assert names(read_index(place)[0]) == ["a"]


def test_every_flipped_bit_and_cut_is_noticed() -> None:
    """What is read is what was written, or nothing."""
    place = area()
    right = tuple(
        segment(f"s-{number}", *(stable_uuid(f"{number} {each}") for each in range(5))) for number in range(9)
    )
    write_index(place, right, None)
    data, expected = place.read(INDEX).data, read_index(place)[0]
    random_bits = random.Random(8)
    for bit in random_bits.sample(range(8 * len(data)), 400):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        place.put(INDEX, bytes(damaged))
        assert read_index(place)[0] in ((), expected)  # the gzip header has bits that mean nothing
    for length in range(0, len(data), 7):
        place.put(INDEX, data[:length])
        assert read_index(place)[0] == ()


def test_an_index_that_cannot_be_read_is_an_error() -> None:
    class Denying(MemoryStore):
        def read(self, key: str, max_bytes: int | None = None) -> Body:
            raise AccessDeniedError("no")

        def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
            raise StorageError("broken", code="broken")

    place = area(Denying("memory://control"))
    with pytest.raises(AccessDeniedError):
        read_index(place)
    with pytest.raises(StorageError):
        write_index(place, [], None)


def test_useful_segments_are_kept() -> None:
    assert chosen("m1 m2 m3", segment("a", "m1", "m2"), segment("b", "m3")) == (["a", "b"], [])
    assert chosen("", segment("a", "m1")) == ([], [])
    assert chosen("m1") == ([], [])


def test_old_segments_are_rewritten_and_those_about_to_vanish_are_not_used() -> None:
    for age_ms, expected in [
        (0, (["a"], [])),
        (-DAY_MS, (["a"], [])),
        (SEGMENT_REWRITE_MS - 1, (["a"], [])),
        (SEGMENT_REWRITE_MS, ([], ["a"])),
        (SEGMENT_UNSAFE_MS - 1, ([], ["a"])),
        (SEGMENT_UNSAFE_MS, ([], [])),
    ]:
        assert chosen("m1", segment("a", "m1", age_ms=age_ms)) == expected


def test_segments_mostly_of_dead_manifests_are_rewritten() -> None:
    assert chosen("m1 m2", segment("a", "m1", "m2", "d1", "d2")) == (["a"], [])
    assert chosen("m1 m2", segment("a", "m1", "m2", "d1", "d2", "d3")) == ([], ["a"])


def test_what_another_segment_has_counts_once() -> None:
    """Two scans at once decoded the same."""
    twins = segment("a", "m1", "m2"), segment("b", "m1", "m2")
    assert chosen("m1 m2", *twins) == (["a"], [])
    assert chosen("m1 m2 m3", *twins, segment("c", "m2", "m3", rows=SMALL_ROWS)) == (["a", "c"], [])
    assert chosen("m1 m2 m3", *twins, segment("c", "m1", "m2", "m3", rows=SMALL_ROWS)) == (["a"], ["c"])


def test_many_small_segments_are_rewritten() -> None:
    small = [segment(f"s{number}", f"m{number}", rows=SMALL_ROWS - 1) for number in range(MANY_SMALL + 1)]
    alive = " ".join(f"m{number}" for number in range(MANY_SMALL + 2))
    large = segment("large", f"m{MANY_SMALL + 1}", rows=SMALL_ROWS)
    assert chosen(alive, large, *small[1:]) == (sorted(["large", *(each.name for each in small[1:])]), [])
    assert chosen(alive, large, *small) == (["large"], sorted(each.name for each in small))


def test_whatever_is_chosen_covers_what_it_covered() -> None:
    """Random segments: every alive manifest of a segment that is young enough is in one that is kept or rewritten."""
    numbers = random.Random(9)
    for _ in range(300):
        segments = [
            Segment(
                f"s{number}",
                tuple({f"m{numbers.randrange(30)}" for _ in range(numbers.randrange(8))}),
                numbers.choice([10, SMALL_ROWS, 10**6]),
                NOW - numbers.choice([0, DAY_MS, SEGMENT_REWRITE_MS, SEGMENT_UNSAFE_MS]),
            )
            for number in range(numbers.randrange(25))
        ]
        alive = {f"m{number}" for number in range(30) if numbers.random() < 0.5}
        choice = choose(segments, alive, NOW)
        used = (*choice.kept, *choice.rewritten)
        usable = {m for each in segments if NOW - each.created_ms < SEGMENT_UNSAFE_MS for m in each.manifests}
        assert {m for each in used for m in each.manifests if m in alive} == usable & alive
        assert len(set(names(used))) == len(used)
        assert not any(each.created_ms <= NOW - SEGMENT_REWRITE_MS for each in choice.kept)


def test_the_index_stays_within_bounds() -> None:
    """As many manifests as it may name make a few megabytes, and the newest segments stay."""
    each = MAX_MANIFESTS // MAX_SEGMENTS
    segments = [
        Segment(f"s{number}", tuple(f"manifest-{stable_uuid(f'{number} {n}')}-{n}" for n in range(each)), 1, number)
        for number in range(MAX_SEGMENTS)
    ]
    place = area()
    write_index(place, [*segments, replace(segments[0], name="oldest", created_ms=-1)], None)
    assert len(place.read(INDEX).data) < 6 << 20
    assert set(read_index(place)[0]) == set(segments)
    _, etag = read_index(place)
    larger = Segment("newest", tuple(segments[0].manifests) * 2, 1, 10**6)
    write_index(place, [*segments, larger], etag)
    found = read_index(place)[0]
    assert larger in found
    assert sum(len(one.manifests) for one in found) <= MAX_MANIFESTS
