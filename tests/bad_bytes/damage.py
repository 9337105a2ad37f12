"""Ways to damage bytes: cut them, flip a bit, swap them."""

import itertools
import os
import random
from collections.abc import Iterable, Iterator

from tests.bad_bytes.judge import Case
from tests.bad_bytes.worlds import World

STEP = 64 if os.environ.get("LAKESWEEP_BAD_BYTES") == "all" else 512


def cuts(world: World) -> Iterator[Case]:
    """Yield every metadata file cut at every so many-th byte and wherever something begins or ends."""
    for path in world.metadata:
        body = world.body(path)
        ends = {*range(0, len(body), STEP), *boundaries(body), len(body) - 1} - {len(body)}
        for end in sorted(ends):
            yield Case(f"{path} cut to {end} of {len(body)} bytes", {path: body[:end]})


def boundaries(body: bytes) -> Iterable[int]:
    """Return where the parts of a file meet: Avro's magic, header entries, sync markers, blocks; brackets of JSON."""
    if body.startswith(b"Obj\x01"):
        return _avro_boundaries(body)
    if body.startswith(b"ORC"):
        tail = body[-1]
        return (3, len(body) - 1 - tail, len(body) - 2)
    return [place + 1 for place, byte in enumerate(body) if byte in b"{}[],"]


def _avro_boundaries(body: bytes) -> list[int]:
    places = [4]
    count, place = _long(body, 4)
    places.append(place)
    while count:
        for _ in range(2 * count):
            size, place = _long(body, place)
            place += size
            places.append(place)
        count, place = _long(body, place)
        places.append(place)
    place += 16
    places += [place - 8, place]
    while place < len(body):
        _, place = _long(body, place)
        places.append(place)
        size, place = _long(body, place)
        places += [place, place + size, place + size + 8]
        place += size + 16
        places.append(place)
    return places


def _long(body: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = body[place]
        place += 1
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return number >> 1 ^ -(number & 1), place


def flips(world: World, count: int | None) -> Iterator[Case]:
    """Yield single bits flipped: all, or a sample that is the same in every run and spread over all files."""
    for path in world.metadata:
        body = world.body(path)
        bits = range(8 * len(body))
        chosen = bits if count is None else sorted(random.Random(path).sample(bits, min(count, len(bits))))
        for bit in chosen:
            changed = bytearray(body)
            changed[bit // 8] ^= 1 << bit % 8
            yield Case(f"{path} with bit {bit} flipped", {path: bytes(changed)})


def swaps(world: World) -> Iterator[Case]:
    """Yield every metadata file with the bytes of another one: the next of its kind, and the first of each other."""
    kinds: dict[str, list[str]] = {}
    for path in world.metadata:
        kinds.setdefault(_kind(path), []).append(path)
    for kind, paths in kinds.items():
        others = [found[0] for other, found in kinds.items() if other != kind]
        for place, path in enumerate(paths):
            for other in {paths[(place + 1) % len(paths)], paths[place - 1], *others} - {path}:
                if world.body(other) != world.body(path):
                    yield Case(f"{path} with the bytes of {other}", {path: world.body(other)}, is_swap=True)
            other = paths[(place + 1) % len(paths)]
            yield Case(f"{path} and {other} swapped", {path: world.body(other), other: world.body(path)}, is_swap=True)


def look_alikes(world: World) -> Iterator[Case]:
    """Yield every list and manifest with the bytes of each of its kind that is as long, and each such two swapped."""
    for path, other in itertools.permutations((path for path in world.metadata if "/manifest-" in path), 2):
        if _kind(path) == _kind(other) and len(world.body(path)) == len(world.body(other)):
            yield Case(f"{path} with the bytes of {other}", {path: world.body(other)}, is_swap=True)
            if path < other:
                changes = {path: world.body(other), other: world.body(path)}
                yield Case(f"{path} and {other} swapped", changes, is_swap=True)


def _kind(path: str) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder.rpartition('/')[2]}/{name.split('-')[0]}{'-list' if '-list-' in name else ''}"


def removals(world: World) -> Iterator[Case]:
    """Yield every metadata file gone, and every one empty."""
    for path in world.metadata:
        yield Case(f"{path} removed", {path: None})
        yield Case(f"{path} emptied", {path: b""})
