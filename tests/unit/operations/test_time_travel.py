"""`time_travel.resolve`: which snapshot or tag a version means, for each purpose."""

import random
from collections.abc import Sequence

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.errors import RefusedError, UsageError
from lakesweep.model.roots import BranchListing, Root, TableRef
from lakesweep.runs.parameters.time_travel import Purpose, Version, resolve
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from lakesweep.table.discover import discover
from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder

NO_AREA: ControlArea | None = None
LEAST = -(1 << 63)


def table_of(builder: TableBuilder, branch: str = "main") -> Table:
    def open_store(location: str) -> Store:
        raise AssertionError(f"nothing here opens {location}")

    return Table(TableRef(builder.store.location, branch), builder.store, NO_AREA, open_store)


def find(
    builder: TableBuilder, version: Version, purpose: Purpose = "read", *, tags: bool = False, branch: str = "main"
) -> Root | None:
    own = discover(builder.store).branches.get(branch) or BranchListing(branch)
    return resolve(table_of(builder, branch), own, version, purpose=purpose, falls_back_to_tags=tags)


def said(builder: TableBuilder, version: Version, purpose: Purpose = "read", *, tags: bool = False) -> str | None:
    """Return the root as text, or the code of the refusal."""
    try:
        root = find(builder, version, purpose, tags=tags)
    except RefusedError as error:
        return error.code
    return None if root is None else str(root.ref)


def timed(*times_ms: int) -> TableBuilder:
    builder = TableBuilder(MemoryStore())
    for number, time_ms in enumerate(times_ms):
        builder.commit(f"+A{number}", time_ms=time_ms)
    return builder


def marked(*watermarks: int | None) -> TableBuilder:
    builder = TableBuilder(MemoryStore())
    for number, watermark in enumerate(watermarks):
        builder.commit(f"+A{number}", document={"watermark": watermark})
    return builder


def remove(builder: TableBuilder, *snapshot_ids: int) -> None:
    for snapshot_id in snapshot_ids:
        builder.remove(builder.root(snapshot_id))


@pytest.mark.parametrize(
    ("time_ms", "expected"),
    [(200, "snapshot 2"), (99, "no_such_version"), (250, "snapshot 3"), (100, "snapshot 1"), (10**17, "snapshot 4")],
)
@pytest.mark.parametrize("purpose", ["read", "rollback"])
def test_times(time_ms: int, expected: str, purpose: Purpose) -> None:
    """The greatest snapshot of a time or before; of several with that time the one that halving comes upon."""
    assert said(timed(100, 200, 200, 300), Version(timestamp_ms=time_ms), purpose) == expected


@pytest.mark.parametrize(
    ("watermark", "purpose", "expected"),
    [
        (10, "read", "snapshot 2"),
        (11, "read", "snapshot 4"),
        (31, "read", "no_such_version"),
        (LEAST, "read", "snapshot 2"),
        (25, "rollback", "snapshot 2"),
        (10, "rollback", "snapshot 2"),
        (30, "rollback", "snapshot 4"),
        (99, "rollback", "snapshot 4"),
        (5, "rollback", "no_such_version"),
        (10, "tag", "snapshot 2"),
        (11, "tag", "snapshot 4"),
        (31, "tag", "no_such_snapshot"),
    ],
)
def test_watermarks(watermark: int, purpose: Purpose, expected: str) -> None:
    """A reader gets the least that reaches it, a rollback the greatest below; one without a mark is no answer."""
    assert said(marked(None, 10, LEAST, 30), Version(watermark=watermark), purpose) == expected


@pytest.mark.parametrize("purpose", ["read", "rollback"])
def test_no_watermark_at_all(purpose: Purpose) -> None:
    """Neither a missing mark nor the smallest number is one, be the snapshots few or many."""
    for marks in ((), (None,), (LEAST, None), (None, LEAST) * 70):
        assert said(marked(*marks), Version(watermark=0), purpose) == "no_such_version"


def test_a_tag_beats_a_number() -> None:
    """The text 3 means the tag 3, and the id 3 the snapshot."""
    builder = timed(100, 200, 300)
    builder.tag("3", snapshot=1)
    for purpose in ("read", "rollback"):
        assert said(builder, Version(version="3"), purpose) == "tag 3"
        assert said(builder, Version(snapshot_id=3), purpose) == "snapshot 3"
        assert said(builder, Version(version="2"), purpose) == "snapshot 2"


def test_an_expired_id_is_not_its_tag() -> None:
    """As in the engine the tag has to be named, unless a reader says that it will do, or it is a rollback."""
    builder = timed(100, 200, 300)
    builder.tag("kept", snapshot=2)
    builder.tag("again", snapshot=2)
    remove(builder, 1, 2)
    for version in (Version(snapshot_id=2), Version(version="2")):
        assert said(builder, version) == "no_such_version"
        assert said(builder, version, tags=True) == "tag again"
        assert said(builder, version, "rollback") == "tag again"
    assert said(builder, Version(tag="kept")) == "tag kept"
    assert said(builder, Version(version="kept")) == "tag kept"
    assert said(builder, Version(snapshot_id=1), "rollback") == "no_such_version"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("watermark-11", "snapshot 4"),
        ("watermark-+11", "snapshot 4"),
        ("watermark--11", "snapshot 2"),
        ("watermark-9223372036854775807", "no_such_version"),
        ("watermark-9223372036854775808", "no_such_version"),
        ("watermark-", "no_such_version"),
        ("watermark-x", "no_such_version"),
        ("watermark-1_1", "no_such_version"),
        ("watermark- 11", "no_such_version"),
        ("watermark-20", "tag watermark-20"),
        ("0002", "snapshot 2"),
        ("\N{ARABIC-INDIC DIGIT TWO}", "snapshot 2"),  # the engine takes digits of every script
        ("9" * 5000, "no_such_version"),
        ("9223372036854775808", "no_such_version"),
        ("-2", "no_such_version"),
        (" 2", "no_such_version"),
        ("\N{SUPERSCRIPT TWO}", "no_such_version"),
        ("", "no_such_version"),
        ("no-such-tag", "no_such_version"),
        ("../tag/tag-1", "no_such_version"),
        ("\udce9\0", "no_such_version"),
    ],
)
def test_texts(text: str, expected: str) -> None:
    """A text is a tag, a watermark or an id, in this order; nothing else means anything."""
    builder = marked(None, 10, LEAST, 30)
    builder.tag("watermark-20", snapshot=1)
    assert said(builder, Version(version=text)) == expected


def test_texts_of_watermarks_go_the_way_of_their_purpose() -> None:
    """For a rollback a watermark is the greatest below, however it was said."""
    assert said(marked(None, 10, LEAST, 30), Version(version="watermark-25"), "rollback") == "snapshot 2"


def test_out_of_range_names_the_range() -> None:
    """Below, above and in a hole: refused, with what there is."""
    builder = timed(*range(100, 1000, 100))
    remove(builder, 1, 2, 6)
    for snapshot_id in (2, 10, 6, -1, 0, 1 << 63):
        with pytest.raises(RefusedError, match=rf"no snapshot {snapshot_id}; expected one of snapshots 3 to 9"):
            find(builder, Version(snapshot_id=snapshot_id))
    with pytest.raises(RefusedError, match="expected one of snapshots 3 to 9"):
        find(builder, Version(timestamp_ms=299))
    with pytest.raises(RefusedError, match="expected one, found none"):
        find(TableBuilder(MemoryStore()), Version(snapshot_id=1))


def test_a_hole_stops_no_search() -> None:
    """Where ids are missing the nearest one below takes their place; the engine fails there."""
    builder = timed(*range(100, 1000, 100))
    remove(builder, 1, 5, 6)
    expected = {200: 2, 499: 4, 500: 4, 600: 4, 699: 4, 700: 7, 900: 9}
    for time_ms, snapshot_id in expected.items():
        assert said(builder, Version(timestamp_ms=time_ms)) == f"snapshot {snapshot_id}"


def test_nothing_asked_for_is_the_latest() -> None:
    """An empty branch has none, which is no error."""
    builder = timed(100, 200)
    for purpose in ("read", "rollback", "tag"):
        assert said(builder, Version(), purpose) == "snapshot 2"
        assert find(TableBuilder(MemoryStore()), Version(), purpose) is None


@pytest.mark.parametrize(
    "version",
    [
        Version(snapshot_id=1, tag="a"),
        Version(timestamp_ms=0, watermark=0),
        Version(version="1", snapshot_id=1),
        Version(tag="a", version="a"),
    ],
)
def test_one_version_at_a_time(version: Version) -> None:
    """Two versions are one too many."""
    with pytest.raises(UsageError, match="at most one of snapshot, tag, timestamp, watermark and version"):
        find(timed(100), version)


def test_tags_of_expired_times() -> None:
    """Only if it is said: before the first snapshot the greatest tag of that time or before."""
    builder = timed(100, 200, 300, 400, 500)
    for name, snapshot in (("one", 1), ("three", 3), ("four", 4)):
        builder.tag(name, snapshot=snapshot)
    remove(builder, 1, 2, 3)
    for time_ms, expected in ((99, "no_such_version"), (100, "tag one"), (299, "tag one"), (399, "tag three")):
        assert said(builder, Version(timestamp_ms=time_ms)) == "no_such_version"
        assert said(builder, Version(timestamp_ms=time_ms), tags=True) == expected
    for time_ms, expected in ((400, "snapshot 4"), (499, "snapshot 4"), (500, "snapshot 5")):
        assert said(builder, Version(timestamp_ms=time_ms), tags=True) == expected


def test_tags_of_expired_watermarks() -> None:
    """Only if it is said: the first tag that reaches it, where that is before the first snapshot that does."""
    builder = marked(None, 10, 20, 30)
    builder.tag("one", snapshot=1)
    builder.tag("two", snapshot=2)
    remove(builder, 1, 2)
    assert said(builder, Version(watermark=5)) == "snapshot 3"
    assert said(builder, Version(watermark=5), tags=True) == "tag two"
    assert said(builder, Version(watermark=11), tags=True) == "snapshot 3"
    assert said(builder, Version(watermark=31), tags=True) == "no_such_version"
    assert said(builder, Version(watermark=5), "rollback", tags=True) == "no_such_version"


def test_a_tag_that_does_not_parse() -> None:
    """It could be the one that is meant, so the search among tags is refused; by id another one will do."""
    builder = timed(100, 200, 300)
    builder.tag("whole", snapshot=1)
    builder.corrupt(builder.tag("broken", snapshot=2))
    remove(builder, 1, 2)
    assert said(builder, Version(timestamp_ms=250), tags=True) == "unreadable_root"
    assert said(builder, Version(tag="broken")) == "unreadable_root"
    assert said(builder, Version(snapshot_id=1), tags=True) == "tag whole"
    assert said(builder, Version(snapshot_id=2), tags=True) == "no_such_version"


def test_a_branch_has_versions_of_its_own() -> None:
    """Tags and snapshots of main mean nothing there."""
    builder = timed(100, 200)
    builder.tag("base", snapshot=1)
    builder.tag("other", snapshot=2)
    branch = builder.branch("rt", "base")
    branch.commit("+B", time_ms=900)
    assert str(find(builder, Version(version="base"), branch="rt")) == str(
        find(builder, Version(tag="base"), branch="rt")
    )
    root = find(builder, Version(timestamp_ms=899), branch="rt")
    assert root is not None
    assert root.ref.path == "branch/branch-rt/snapshot/snapshot-1"
    with pytest.raises(RefusedError, match="tag 'other'"):
        find(builder, Version(tag="other"), branch="rt")


def naive_last(values: Sequence[int | None], wanted: int) -> int | None:
    return max((n for n, value in enumerate(values, 1) if value is not None and value <= wanted), default=None)


def naive_first(values: Sequence[int | None], wanted: int) -> int | None:
    return min((n for n, value in enumerate(values, 1) if value is not None and value >= wanted), default=None)


def test_random_histories_with_holes() -> None:
    """Halving finds what reading everything finds, as far as values differ; else one with the same value."""
    for seed in range(20):
        random_ = random.Random(seed)
        value, values = 0, []
        for _ in range(random_.randrange(1, 24)):
            value += random_.choice((0, 1, 1, 2, 5))
            values.append(None if random_.random() < 0.3 else value)
        builder = marked(*values)
        gone = [n for n in range(1, len(values)) if random_.random() < 0.2]
        remove(builder, *gone)
        kept = [None if n in gone else value for n, value in enumerate(values, 1)]
        for wanted in range(-1, value + 2):
            for purpose, naive in (("read", naive_first), ("rollback", naive_last), ("tag", naive_first)):
                expected = naive(kept, wanted)
                try:
                    root = find(builder, Version(watermark=wanted), purpose)  # type: ignore[arg-type]
                except RefusedError:
                    assert expected is None, (seed, wanted, purpose)
                    continue
                assert root is not None
                assert expected is not None
                if purpose == "tag":
                    assert root.snapshot.id == expected, (seed, wanted)
                assert root.snapshot.watermark == kept[expected - 1], (seed, wanted, purpose)
