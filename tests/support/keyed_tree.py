"""Data files of one bucket with keys that are whole numbers, and trees of them drawn at random."""

import random
from typing import Any

from lakesweep.model.keyed import KeyedFile
from lakesweep.model.reading.plan import ReadFile
from lakesweep.model.vectors import LocatedVector


def keyed_file(
    name: str,
    low: int,
    high: int,
    *,
    level: int = 0,
    size: int = 100,
    rows: int = 10,
    sequence: tuple[int, int] = (0, 9),
    deletes: int | None = 0,
    vector: bool = False,
    created_ms: int | None = 0,
    bucket: int = 0,
    partition: bytes = b"",
) -> KeyedFile:
    """Return a file; `vector` deletes one of its rows."""
    place = LocatedVector("index/i", 100, name, 1, 10, 32, 1) if vector else None
    file = ReadFile(
        path=f"bucket-{bucket}/{name}",
        size_bytes=size,
        rows=rows,
        format="parquet",
        schema_id=0,
        level=level,
        bucket=bucket,
        partition=partition,
        vector=place,
        min_sequence=sequence[0],
        created_ms=created_ms,
    )
    return KeyedFile(file, (low,), (high,), sequence[1], deletes, 1)


def random_tree(seed: int, *, num_levels: int = 6) -> list[KeyedFile]:
    """Draw the files of a bucket: some on level 0, and runs on some of the other levels, in any order."""
    draw = random.Random(seed)
    span = draw.choice((20, 60, 200))
    files = [_drawn(draw, f"new-{number}", *_range(draw, span)) for number in range(draw.choice((0, 0, 1, 2, 4, 7)))]
    for level in range(1, num_levels):
        if draw.random() < 0.4:
            cuts = sorted(draw.sample(range(span), 2 * draw.randint(1, 5)))
            grown = draw.choice((1, 1, 4, 20))
            files += [
                _drawn(draw, f"l{level}-{number}", low, high, level=level, grown=grown)
                for number, (low, high) in enumerate(zip(cuts[::2], cuts[1::2], strict=True))
            ]
    draw.shuffle(files)
    return files


def _range(draw: random.Random, span: int) -> tuple[int, int]:
    low = draw.randrange(span)
    return low, min(span, low + draw.choice((0, 3, span)))


def _drawn(draw: random.Random, name: str, low: int, high: int, *, level: int = 0, grown: int = 1) -> KeyedFile:
    first = draw.randrange(20)
    details: dict[str, Any] = {
        "size": draw.choice((40, 69, 70, 71, 100, 150)) * grown,
        "sequence": (first, first + draw.randrange(20)),
        "deletes": draw.choice((0, 0, 1, None)),
        "vector": level > 0 and draw.random() < 0.3,
        "created_ms": draw.randrange(3),
    }
    return keyed_file(name, low, high, level=level, **details)
