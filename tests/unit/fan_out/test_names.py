"""Segments: every name of every entry, with its manifest, however often it was copied."""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pytest

from lakesweep.control.area import ControlArea
from lakesweep.errors import AccessDeniedError, FormatError
from lakesweep.format.manifest import ManifestEntry, ManifestMeta, read_manifest
from lakesweep.operations.orphans.fan_out.names import ROW, Names, manifests_of, names_of_table
from lakesweep.operations.orphans.fan_out.spill import SpillWriter, head_of, read_slots
from lakesweep.storage.store import Body
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.reach.live_set import name_hash
from lakesweep.table.reach.named_entries import ADDED, BY_ROOT, COMPACTED, number_of
from tests.support.memory_store import MemoryStore
from tests.support.metadata_files import DataFile, Entry, Manifest, encode_manifest, stable_uuid

Row = tuple[bytes, int, str, int]
"""With its manifest's name in the place of its number."""


def entry(number: int, sign: Any = "+", **words: Any) -> Entry:
    name = words.pop("name", f"data-{stable_uuid(str(number))}-0.orc")
    file = DataFile("f", name, "bucket-0/", (), bytes(12), number % 3, 3, 100, 10, 0, 0, **words)
    return Entry(sign, file)


def put_manifest(store: MemoryStore, name: str, entries: Iterable[Entry]) -> ManifestMeta:
    entries = tuple(entries)
    body = encode_manifest(entries)
    store.put(f"manifest/{name}", body)
    record = Manifest(name, len(body), entries).record()
    return ManifestMeta(name, len(body), record["_NUM_ADDED_FILES"], record["_NUM_DELETED_FILES"], 0, None, None, ())


def table(count: int = 4, per: int = 60) -> tuple[MemoryStore, list[ManifestMeta]]:
    """Manifests with names of all sorts, some of them in several."""
    store = MemoryStore("memory://bucket/t")
    metas = []
    for number in range(count):
        entries = [entry(number * per // 2 + each) for each in range(per)]
        entries += [
            entry(number, "-"),
            entry(5, file_source=1),
            entry(6, extra_files=(f"x-{number}.index", "ü.row")),
            entry(7, name=f"compacted-changelog-{stable_uuid('c')}$0-10-20-{number}.cc-orc"),
            Entry("+", DataFile("e", "e.orc", "s3://other/p/", (), bytes(12), 0, 3, 1, 1, 0, 0, is_external=True)),
        ]
        metas.append(put_manifest(store, f"manifest-{stable_uuid(f'm{number}')}-{number}", entries))
    return store, metas


def expected_rows(store: MemoryStore, metas: Iterable[ManifestMeta]) -> Counter[Row]:
    return Counter(row for meta in metas for row in rows_in(store, meta.file_name))


def rows_in(store: MemoryStore, name: str) -> list[Row]:
    body = store.read(f"manifest/{name}").data
    return [row for found in read_manifest(body, name) for row in rows_of_entry(found, name)]


def rows_of_entry(found: ManifestEntry, manifest: str) -> Iterable[Row]:
    flags = (ADDED if found.is_add else 0) | (COMPACTED if found.file_source == 1 else 0)
    names = [found.file_name, *found.extra_files]
    if "$" in found.file_name:
        whole, length = found.file_name.split("-10-20-")[0], "10"
        names.append(f"{whole}-{length}.cc-orc")
    if found.external_path is not None:
        names += [found.external_path.rsplit("/", 1)[1]] * 2
    for name in names:
        yield name_hash(name), number_of(repr(found.identity)), manifest, flags


def area() -> ControlArea:
    return names_of_table(ControlArea(MemoryStore("memory://control"), "memory://bucket/t"))


def rows_of(place: ControlArea, segment: str) -> Counter[Row]:
    spill = head_of(place.store, place.prefix + segment)
    manifests = manifests_of(spill, segment)
    found: Counter[Row] = Counter()
    for slot, block in enumerate(read_slots(place.store, place.prefix + segment, spill)):
        for hashed, ident, number, flags in ROW.iter_unpack(block):
            assert hashed[0] == slot
            found[hashed, ident, manifests[number], flags] += 1
    return found


def decoded(place: ControlArea, segment: str, store: MemoryStore, metas: Iterable[ManifestMeta]) -> Names:
    names = Names()
    names.decode(MetadataReader(store), metas)
    place.put(segment, names.to_bytes())
    return names


def test_every_name_of_every_entry_is_a_row() -> None:
    store, metas = table()
    place = area()
    names = decoded(place, "one", store, metas)
    assert names.manifests == [meta.file_name for meta in metas]
    assert names.entries == 4 * 65
    assert rows_of(place, "one") == expected_rows(store, metas)
    spill = head_of(place.store, place.prefix + "one")
    assert spill.info["entries"] == 260


def test_the_same_manifest_counts_once() -> None:
    store, metas = table(2)
    names = Names()
    names.decode(MetadataReader(store), [*metas, metas[0]])
    names.decode(MetadataReader(store), metas)
    assert names.manifests == [meta.file_name for meta in metas]
    place = area()
    place.put("one", names.to_bytes())
    assert rows_of(place, "one") == expected_rows(store, metas)


def test_of_an_unreadable_manifest_nothing_is_there() -> None:
    """Missing, cut off, of another count, of another size: the others have the numbers that they would have anyway."""
    store, metas = table(6)
    body = store.read(f"manifest/{metas[1].file_name}").data
    store.put(f"manifest/{metas[1].file_name}", body[:-30] + bytes(30))
    metas[2] = metas[2]._replace(added_count=metas[2].added_count + 1)
    metas[3] = metas[3]._replace(file_name="manifest-gone-0")
    metas[4] = metas[4]._replace(file_size=metas[4].file_size - 1)
    place = area()
    names = decoded(place, "one", store, metas)
    assert rows_of(place, "one") == expected_rows(store, [metas[0], metas[5]])
    spill = head_of(place.store, place.prefix + "one")
    assert manifests_of(spill, "one") == (metas[0].file_name, metas[5].file_name)
    assert sorted(names.unreadable) == sorted(metas[number].file_name for number in (1, 2, 3, 4))
    assert [names.unreadable[metas[number].file_name].missing for number in (1, 2, 3, 4)] == [False, False, True, False]


def test_a_failed_request_is_no_unreadable_manifest() -> None:
    _, metas = table(2)

    class Denying(MemoryStore):
        def read(self, key: str, max_bytes: int | None = None) -> Body:
            raise AccessDeniedError("no")

    with pytest.raises(AccessDeniedError):
        Names().decode(MetadataReader(Denying()), metas)


def test_scans_of_roots_need_no_manifest() -> None:
    place = area()
    names = Names()
    names.add_hashes(map(name_hash, ("manifest-list-1", "\udcff")))
    place.put("own", names.to_bytes())
    spill = head_of(place.store, place.prefix + "own")
    rows = [row for block in read_slots(place.store, place.prefix + "own", spill) for row in ROW.iter_unpack(block)]
    assert sorted(rows) == sorted((name_hash(name), 0, 0, BY_ROOT) for name in ("manifest-list-1", "\udcff"))
    assert manifests_of(spill, "own") == ()


def test_copies_have_the_rows_of_what_is_alive() -> None:
    """Of several segments, with some manifests in two of them; then copies of copies."""
    store, metas = table(6, per=20)
    place = area()
    decoded(place, "one", store, metas[:3])
    decoded(place, "two", store, metas[2:5])
    alive = {metas[number].file_name for number in (0, 2, 4, 5)}
    names = Names()
    assert names.copy(place, "one", alive)
    assert names.copy(place, "two", alive)
    assert names.entries == 0
    names.decode(MetadataReader(store), [metas[5]])
    assert names.manifests == [metas[number].file_name for number in (0, 2, 4, 5)]
    place.put("three", names.to_bytes())
    assert rows_of(place, "three") == expected_rows(store, [metas[number] for number in (0, 2, 4, 5)])
    again = Names()
    assert again.copy(place, "three", alive)
    place.put("four", again.to_bytes())
    assert rows_of(place, "four") == rows_of(place, "three")
    none = Names()
    assert none.copy(place, "three", set())
    assert (none.manifests, none.writer.rows) == ([], 0)


def test_what_is_gone_or_damaged_is_not_copied() -> None:
    """Not even in part; whoever asked has its manifests decoded."""
    store, metas = table(3)
    place = area()
    decoded(place, "one", store, metas)
    data = place.read("one").data
    alive = {meta.file_name for meta in metas}
    chosen = random.Random(7)
    for _ in range(200):
        bit = chosen.randrange(8 * len(data))
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        place.put("bad", bytes(damaged))
        names = Names()
        assert not names.copy(place, "bad", alive)
        assert (names.manifests, names.writer.rows) == ([], 0)
    assert not Names().copy(place, "none", alive)
    for length in (0, 100, len(data) - 1):
        place.put("cut", data[:length])
        assert not Names().copy(place, "cut", alive)


def test_scans_of_no_manifest_are_damage() -> None:
    place = area()
    for row in (ROW.pack(bytes(16), 0, 1, ADDED), ROW.pack(bytes(16), 0, 2**32 - 1, ADDED), bytes(28), bytes(30)):
        writer = SpillWriter(packed=False)
        writer.add(bytes(16), row)
        place.put("bad", writer.to_bytes({"manifests": ["a"], "entries": 1}))
        assert not Names().copy(place, "bad", {"a"})


@pytest.mark.parametrize("manifests", [None, 1, "a", [1], [None], {"a": 1}])
def test_heads_without_manifests(manifests: object) -> None:
    place = area()
    place.put("bad", SpillWriter(packed=False).to_bytes({"manifests": manifests}))
    spill = head_of(place.store, place.prefix + "bad")
    with pytest.raises(FormatError):
        manifests_of(spill, "bad")
    assert not Names().copy(place, "bad", {"a"})


def test_numbers_are_never_that_of_roots() -> None:
    assert all(number_of(str(number)) for number in range(1000))
    assert number_of("a") != number_of("b")
