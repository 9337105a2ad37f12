"""Damage of a table that rows are deleted from, or that is compacted."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from tests.support.metadata_files import encode_vectors
from tests.support.row_world import RowWorld

Damage = Callable[[RowWorld], str]
"""Damages a table, and returns the path that a message has to name."""


def scene() -> RowWorld:
    """Two data files in partition `d`, whose vectors share an index file, and one in `e`."""
    world = RowWorld()
    world.append(1, 2, 3, 4, 5, 6)
    world.append(7, 8, 9, 10)
    world.append(21, 22, dt="e")
    world.deleted("id IN (1, 7)")
    return world


def index_file(world: RowWorld) -> str:
    (row,) = world.index_rows()
    return f"index/{row['_FILE_NAME']}"


def data_file(world: RowWorld) -> str:
    return world.files[world.live()[0]].path


def changed(path: Callable[[RowWorld], str], change: Callable[[bytes], bytes | None]) -> Damage:
    def damage(world: RowWorld) -> str:
        found = path(world)
        body = change(world.store.read(found).data)
        if body is None:
            world.lose(found)
        else:
            world.store.put(found, body)
        return found

    return damage


def vectors(*positions: Sequence[int]) -> Damage:
    """Write other vectors for the first data files."""

    def damage(world: RowWorld) -> str:
        body, ranges = encode_vectors(dict(zip(world.live(), positions, strict=False)))
        world.store.put("index/index-bad-0", body)
        (row,) = world.index_rows()
        places = [{"f0": name, "f1": at, "f2": size, "_CARDINALITY": rows} for name, at, size, rows in ranges]
        world.put_index([{
            **row, "_FILE_NAME": "index-bad-0", "_FILE_SIZE": len(body), "_ROW_COUNT": len(ranges),
            "_DELETIONS_VECTORS_RANGES": places,
        }])  # fmt: skip
        return "index/index-bad-0"

    return damage


def other_format(world: RowWorld) -> str:
    file = world.files[world.append(51, 52)]
    world.foreign(adds=[replace(file, name=file.name.replace(".parquet", ".lance"))])
    return ".lance"


def stated_rows(count: int) -> Damage:
    def damage(world: RowWorld) -> str:
        name = world.append(51, 52)
        file = world.files[name]
        world.overwrite(name)
        path = file.folder + (other := name.replace("-0.parquet", "-1.parquet"))
        world.store.put(path, world.store.read(file.path).data)
        world.foreign(adds=[replace(file, name=other, rows=count)])
        return path

    return damage


DAMAGES: dict[str, tuple[Damage, str]] = {
    "no index file": (changed(index_file, lambda body: None), "missing_index_file"),
    "a flipped bit in a vector": (
        changed(index_file, lambda body: body[:20] + bytes([body[20] ^ 1]) + body[21:]),
        "damaged",
    ),
    "a shorter index file": (changed(index_file, lambda body: body[:-3]), "too_short"),
    "a longer index file": (changed(index_file, lambda body: body + b"xx"), "corrupt_vectors"),
    "another container": (changed(index_file, lambda body: b"\2" + body[1:]), "corrupt_vectors"),
    "rows beyond the file": (vectors([0, 6], [0]), "corrupt_vectors"),
    "more rows than the file has": (vectors([0, 1, 2, 3, 4, 5, 6], [0]), "corrupt_vectors"),
    "no data file": (changed(data_file, lambda body: None), "missing_data_file"),
    "a shorter data file": (changed(data_file, lambda body: body[:-30]), "too_short"),
    "an empty data file": (changed(data_file, lambda body: b""), "too_short"),
    "noise": (changed(data_file, lambda body: b"x" * len(body)), "damaged"),
    "another format": (other_format, "unsupported_file_format"),
    "fewer rows than stated": (stated_rows(3), "damaged"),
    "more rows than stated": (stated_rows(1), "damaged"),
}
