"""The tables that these tests put on servers, as objects by key."""

from tests.support.memory_store import MemoryStore
from tests.support.table_builder import TableBuilder


def table_of(commits: int, keep: int) -> dict[str, bytes]:
    """Return a table whose commits replace one file each, and whose options keep the newest `keep` snapshots."""
    memory = MemoryStore()
    table = TableBuilder(memory, options=keeping(keep))
    table.commit("+F1", "+A", statistics="s1")
    for number in range(2, commits + 1):
        table.commit(
            f"-F{number - 1}",
            f"+F{number}",
            changelog=[f"+L{number}"],
            index={f"i{number}": {f"F{number}": (1,)}},
            merge_base=number % 5 == 0,
        )
    return _with_hints(table, memory, commits)


def wide_table() -> dict[str, bytes]:
    """Return 100 snapshots with 20 dead files each, of which fifty stay; manifests merge every 30 commits."""
    memory = MemoryStore()
    table = TableBuilder(memory, partition_keys=("dt",), options=keeping(50))
    days = [f"2024-01-{day:02}" for day in range(1, 21)]
    for number in range(1, 101):
        gone = [f"-F{number - 1}x{index}" for index in range(20)] if number > 1 else []
        new = [f"F{number}x{index}" for index in range(20)]
        table.commit(
            *gone,
            *[f"+{name}" for name in new],
            partition={name: (days[index],) for index, name in enumerate(new)},
            kind="OVERWRITE",
            merge_base=number % 30 == 0,
        )
    return _with_hints(table, memory, 100)


def streamed_table() -> dict[str, bytes]:
    """Return a table whose changelogs outlive its snapshots, with a tag and a consumer that still needs snapshot 9."""
    memory = MemoryStore()
    options = keeping(2) | {
        "changelog-producer": "input",
        "changelog.num-retained.min": "6",
        "changelog.num-retained.max": "6",
        "changelog.time-retained": "1 ms",
    }
    table = TableBuilder(memory, primary_keys=("k",), options=options)
    for number in range(1, 13):
        gone = [f"-F{number - 1}"] if number > 1 else []
        table.commit(*gone, f"+F{number}", changelog=[f"+L{number}"], kind="APPEND")
    table.tag("kept", snapshot=3)
    table.consumer("dashboard", 9)
    return _with_hints(table, memory, 12)


def keeping(count: int) -> dict[str, str]:
    """Return the options by which the newest `count` snapshots stay."""
    return {
        "snapshot.num-retained.min": str(count),
        "snapshot.num-retained.max": str(count),
        "snapshot.time-retained": "1 ms",
    }


def snapshots(first: int, last: int) -> list[str]:
    """Return the paths of snapshot documents, in the order of a listing."""
    return sorted(f"snapshot/snapshot-{number}" for number in range(first, last + 1))


def _with_hints(table: TableBuilder, memory: MemoryStore, newest: int) -> dict[str, bytes]:
    table.hint("EARLIEST", 1)
    table.hint("LATEST", newest)
    return {entry.key: memory.read(entry.key).data for entry in memory.list("")}
