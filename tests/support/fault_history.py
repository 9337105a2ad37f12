"""The table that the fault tests break runs on: one of everything that a pass after a commit has to mind.

Tags (one with its snapshot, one without), two branches (one with commits of its own), changelog documents that
outlive their snapshots, changelog files, statistics, merged manifests, index manifests with deletion vectors and hash
indexes, a consumer that is forgotten and one that reads on.
"""

from lakesweep.storage.store import Store
from tests.support.table_builder import TableBuilder

DAY_MS = 86_400_000
OPTIONS = {
    "deletion-vectors.enabled": "true",
    "snapshot.num-retained.min": "1",
    "snapshot.num-retained.max": "2",
    "snapshot.time-retained": "1000 d",
    "changelog.num-retained.max": "4",
    "consumer.expiration-time": "2 d",
}
CONSUMER_AGES_MS = {"consumer/consumer-gone": 3 * DAY_MS, "consumer/consumer-reader": 0}
"""How long ago each consumer reported. A store that gives its own times has to be told."""
ROOTS_LEFT = frozenset(
    {
        "snapshot/snapshot-6",
        "snapshot/snapshot-7",
        "changelog/changelog-4",
        "changelog/changelog-5",
        "tag/tag-kept",
        "tag/tag-first",
        "branch/branch-b/snapshot/snapshot-3",
        "branch/branch-b/snapshot/snapshot-4",
        "branch/branch-b/tag/tag-kept",
        "branch/branch-c/snapshot/snapshot-3",
        "branch/branch-c/tag/tag-kept",
    }
)
"""What a pass leaves of the roots."""


def build(store: Store, now_ms: int, producer: str = "lookup") -> TableBuilder:
    """Write the table: changelogs 1 and 2 of an earlier pass, snapshots 3 to 7.

    Args:
        producer: The table's `changelog-producer`; with `none` new data files are what a changelog consists of.
    """
    options = OPTIONS | {"changelog-producer": producer}
    table = TableBuilder(
        store, partition_keys=("dt",), primary_keys=("dt", "k"), options=options, start_ms=now_ms - DAY_MS
    )
    numbers = iter(range(1, 10))

    def commit(*entries: str, kind: str = "APPEND", day: str = "d1", **more: object) -> None:
        changelog = [f"+L{next(numbers)}"] if kind == "APPEND" and producer != "none" else ()
        source = {entry[1:]: int(kind == "COMPACT") for entry in entries if entry.startswith("+")}
        details = {"kind": kind, "changelog": changelog, "file_source": source, "partition": (day,), **more}
        table.commit(*entries, **details)  # type: ignore[arg-type]

    commit("+A", "+B", statistics="s1", index={"h1": b"\0\0\0\1"})
    table.tag("first", snapshot=1)
    commit("-A", "+C", kind="COMPACT", index={"h1": None, "v1": {"B": (1,)}})
    for number in (1, 2):
        table.changelog_document(number)
    commit("-B", "+D", index={"h2": b"\0\0\0\1\0\0\0\2", "v2": {"C": (3, 4)}})
    table.tag("kept", snapshot=3)
    table.branch("b", from_tag="kept").commit("+X", "-C", partition=("d2",))
    table.branch("c", from_tag="kept")
    commit("-C", "-D", "+E", kind="COMPACT", index={"h2": None, "v3": {}})
    commit("-E", "+F", statistics="s2", index={"h3": b"\0\0\0\7", "v4": {"F": (1, 2)}})
    table.merge_manifests(changelog=["+L9"] if producer != "none" else ())
    commit("-F", "+H", "+I", index={"h3": None, "v5": {"H": (0,)}})
    for number in (1, 2):
        table.remove(f"snapshot/snapshot-{number}")
    table.hint("EARLIEST", 3)
    table.consumer("gone", 4)
    table.consumer("reader", 7)
    return table
