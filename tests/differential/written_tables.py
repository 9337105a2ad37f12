"""Small tables that the engine writes, with one partition key: commits, and an overwrite of one partition."""

from tests.differential.commit_tables import Kind, Partition
from tests.differential.engine import Engine

PARTITIONS: tuple[Partition, ...] = (("a",), ("b",), ("c",))


def kind_of(shape: str, **options: str) -> Kind:
    """Return a kind of table with one partition key."""
    return Kind(shape, (("p", "STRING"),), PARTITIONS, options, None)


APPEND = kind_of("append", bucket="-1")
PRIMARY_KEY = kind_of("primary key", bucket="2")


def rows_of(commit: int) -> list[list[str | None]]:
    return [[partition[0], str(id), f"v{commit}"] for partition in PARTITIONS for id in range(4)]


def write(engine: Engine, table: str, kind: Kind) -> None:
    """Commit to each partition three times, and overwrite one of them."""
    engine("create", table=table, **kind.create)
    for commit in range(3):
        engine("put", table=table, rows=rows_of(commit))
    if "vectors" in kind.shape:
        if kind.primary_key:
            engine("compact", table=table)
        else:
            engine("dv_delete", table=table, n=1)
    engine("put", table=table, rows=[["c", "9", "v"]], overwrite=True)
