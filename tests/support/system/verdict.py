"""The judgement of what is left of tables after writers wrote and the system maintained them.

Two readers look: the tests' own reader of metadata, for which every file that a root needs must be there in the stated
size, and the engine that wrote, for which every snapshot and tag must hold the rows that were written. Nothing here
asks Lakesweep; only its stores fetch bytes. It is called when writers have stopped and nothing is on its way any more.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from types import MappingProxyType

from lakesweep.storage.open import StoreSettings, open_store
from lakesweep.storage.store import Store
from tests.support.reader import TableReader, UnreadableRootError
from tests.support.system.writers import ReadError, Writer
from tests.support.system.written import Commit, Table, Tag

_SNAPSHOT = re.compile(r"snapshot/snapshot-([0-9]+)")
_DOCUMENT = re.compile(
    r"(branch/branch-[^/]+/)?"
    r"((snapshot|changelog)/(snapshot-\d+|changelog-\d+|EARLIEST|LATEST)|schema/schema-\d+|tag/tag-[^/]+|consumer/consumer-[^/]+)"
)
"""What is no root's file: roots themselves, and what says how to read them."""
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found. Verdicts of several tables add up."""

    tables: int = 0
    commits: int = 0
    roots: int = 0
    """Snapshots, tags and changelogs of all branches that are there."""
    files: int = 0
    """Objects of the tables, documents included."""
    snapshots_verified: int = 0
    """Snapshots and tags that hold the rows that were written."""
    rows_verified: int = 0
    unreported: int = 0
    """Snapshots that no writer reported, because its commit failed and came through: their rows are not known."""
    failed_commits: int = 0
    left: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    """Table -> files that no root needs. They are no damage."""
    problems: tuple[str, ...] = ()
    """Sentences. None means that everything is as it should be."""

    @property
    def unreferenced(self) -> int:
        """Return how many files no root needs."""
        return sum(map(len, self.left.values()))

    def __add__(self, other: "Verdict") -> "Verdict":
        return Verdict(
            tables=self.tables + other.tables,
            commits=self.commits + other.commits,
            roots=self.roots + other.roots,
            files=self.files + other.files,
            snapshots_verified=self.snapshots_verified + other.snapshots_verified,
            rows_verified=self.rows_verified + other.rows_verified,
            unreported=self.unreported + other.unreported,
            failed_commits=self.failed_commits + other.failed_commits,
            left={**self.left, **other.left},
            problems=self.problems + other.problems,
        )

    def __str__(self) -> str:
        counts = (
            f"{self.tables} tables, {self.commits} commits, {self.roots} roots, "
            f"{self.snapshots_verified} snapshots and tags with {self.rows_verified} rows as written, "
            f"{self.files} files, {self.unreferenced} unreferenced, "
            f"{self.failed_commits} failed commits, {len(self.problems)} problems"
        )
        left = (
            f"  {table}: unreferenced: {', '.join(keys[:_SHOWN])}{' ...' if len(keys) > _SHOWN else ''}"
            for table, keys in self.left.items()
            if keys
        )
        return "\n".join([counts, *left, *(f"  PROBLEM {problem}" for problem in self.problems)])


def judge(writers: Iterable[Writer], settings: StoreSettings, *, maintained: bool = True) -> Verdict:
    """Judge every table of writers that have stopped and whose processes can still read.

    Args:
        writers: They are asked at the same time.
        settings: For the stores of the tables; credentials are those of this process.
        maintained: Whether the tables must have been expired down to what they retain at most.
    """
    asked = tuple(writers)
    with ThreadPoolExecutor(len(asked) or 1) as pool:
        return sum(pool.map(lambda writer: _judge_writer(writer, settings, maintained), asked), Verdict())


def _judge_writer(writer: Writer, settings: StoreSettings, maintained: bool) -> Verdict:
    found = sum((_judge_table(writer, table, settings, maintained) for table in writer.tables), Verdict())
    abandoned = (f"{each.table}: {each.error}" for each in writer.failures if each.abandoned)
    failed = sum(not each.abandoned for each in writer.failures)
    return found + Verdict(failed_commits=failed, problems=tuple(abandoned))


def _judge_table(writer: Writer, table: Table, settings: StoreSettings, maintained: bool) -> Verdict:
    store = open_store(writer.location(table), settings=settings)
    commits = {commit.snapshot_id: commit for commit in writer.commits if commit.table == table.name}
    tags = {tag.name: tag for tag in writer.tags if tag.table == table.name}
    keys = frozenset(entry.key for entry in store.list("") if not entry.key.endswith("/"))
    ids = sorted(int(match[1]) for match in map(_SNAPSHOT.fullmatch, keys) if match)

    problems: list[str] = []
    roots, needed, unreadable = _read_metadata(store)
    problems += unreadable
    problems += _retention_problems(table, ids, max(commits, default=0), maintained)
    problems += (f"tag {name} is gone" for name in tags if f"tag/tag-{name}" not in keys)
    verified = rows = 0
    there = [commits[snapshot_id] for snapshot_id in ids if snapshot_id in commits]
    readable: list[Commit | Tag] = [*there, *(tag for tag in tags.values() if f"tag/tag-{tag.name}" in keys)]
    for wanted in readable:
        problem = _row_problem(writer, wanted)
        if problem is not None:
            problems.append(problem)
            continue
        verified += 1
        rows += wanted.rows
    unreferenced = () if unreadable else sorted(key for key in keys - needed if not _DOCUMENT.fullmatch(key))
    return Verdict(
        tables=1,
        commits=len(commits),
        roots=roots,
        files=len(keys),
        snapshots_verified=verified,
        rows_verified=rows,
        unreported=len(ids) - len(there),
        left={table.name: tuple(unreferenced)},
        problems=tuple(f"{table.name}: {problem}" for problem in problems),
    )


def _read_metadata(store: Store) -> tuple[int, frozenset[str], list[str]]:
    """Return how many roots there are, the paths that they need, and which of them cannot be read."""
    reader = TableReader(store)
    roots, needed, problems = reader.roots(), set[str](), list[str]()
    for root in roots:
        try:
            needed |= reader.read(root).paths
        except UnreadableRootError as error:
            problems.append(str(error))
        except Exception as error:  # bytes that make no sense at all
            problems.append(f"{root} cannot be read: {type(error).__name__}: {error}")
    return len(roots), frozenset(needed), problems


def _retention_problems(table: Table, ids: list[int], newest: int, maintained: bool) -> Iterator[str]:
    if newest == 0 and not ids:
        return
    if not ids or ids[-1] != newest:
        yield f"the latest snapshot is {ids[-1] if ids else 'gone'}; the writer's last commit made {newest}"
        if not ids:
            return
    if ids != list(range(ids[0], ids[-1] + 1)):
        yield f"snapshots {ids} are left; expected one after the other, since only the oldest expire"
    if len(ids) < min(table.retain_min, newest):
        yield f"{len(ids)} snapshots are left of {newest}; expected {table.retain_min} or more"
    if maintained and len(ids) > table.retain_max:
        yield f"{len(ids)} snapshots are left of {newest}; expected {table.retain_max} or fewer"


def _row_problem(writer: Writer, wanted: Commit | Tag) -> str | None:
    name = f"tag {wanted.name}" if isinstance(wanted, Tag) else f"snapshot {wanted.snapshot_id}"
    try:
        if isinstance(wanted, Tag):
            found = writer.read(wanted.table, tag=wanted.name)
        else:
            found = writer.read(wanted.table, snapshot_id=wanted.snapshot_id)
    except ReadError as error:
        return f"{name} cannot be read by {writer.kind}: {error}"
    if (found.rows, found.digest) == (wanted.rows, wanted.digest):
        return None
    return f"{name} holds {found.rows} rows ({found.digest}); expected the {wanted.rows} ({wanted.digest}) written"
