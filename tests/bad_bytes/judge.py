"""Is what happened to a damaged table what may happen?

A damaged table ends in an error that says what is wrong, or is maintained as if less could go. Nothing that a root of
the undamaged table needs may be gone, but for the damaged metadata itself.

Some damage no reader can see, since the bytes are as good as the true ones. Such a loss is excused, and counted, for
one of these reasons only:

- *value*: readers that share no code with ours decode the damaged file, too, and nothing differs but values of
  `UNSEEN`: the name of a file, a partition. Then another file is protected than the true one.
- *list*: a whole manifest list where no size is stated (before release 1.1) or one of the same size is swapped in.
- *manifest*: a whole manifest of the same size, with as many added and deleted files, is swapped in.
- *tag*: a tag that holds the document of another snapshot is a tag of that snapshot.
"""

import io
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from time import process_time
from typing import Any

import fastavro
import pytest

from lakesweep.errors import MaintenanceError
from lakesweep.model.report import RunReport
from tests.bad_bytes.worlds import LOCATION, World, maintain
from tests.support.memory_store import MemoryStore
from tests.support.reader import all_roots

MAX_SECONDS = 10.0
"""Of one case; what is usual is a hundredth of a second."""

UNSEEN = frozenset(
    (
        "_FILE_NAME", "_EXTRA_FILES", "_PARTITION", "_BUCKET", "_LEVEL", "_EXTERNAL_PATH",
        "baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "statistics",
        "timeMillis", "nextSnapshot", "options",
    )
)  # fmt: skip
"""Fields of which any value could be true."""


@dataclass(frozen=True)
class Case:
    """One way to damage a table."""

    name: str
    changes: Mapping[str, bytes | None]
    """Path -> what is there instead; `None` removes it."""
    is_swap: bool = False
    is_forged: bool = False
    """The sizes that other metadata states were changed with it."""


@dataclass
class Tally:
    """What became of many cases."""

    counts: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    """Losses by what no reader can see."""
    problems: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Fail with the first problems."""
        if self.problems:
            shown = "\n".join(self.problems[:12])
            pytest.fail(f"{len(self.problems)} of {self.counts.total()} cases: {dict(self.counts)}\n{shown}")


def judge_all(world: World, cases: Iterable[Case]) -> Tally:
    """Maintain the table once for each way to damage it."""
    tally = Tally()
    for case in cases:
        _judge(world, case, tally)
    print(f"{world.name}: {dict(sorted(tally.counts.items()))}, not to be seen: {dict(tally.excused)}")
    return tally


def _judge(world: World, case: Case, tally: Tally) -> None:
    store, outside = world.stores(case.changes)
    started = process_time()
    try:
        outcome = _words_of(maintain(world.operation, store, outside))
    except MaintenanceError as error:
        outcome = (error.code, str(error))
        if error.exit_code not in range(1, 6):
            tally.problems.append(f"{case.name}: exit code {error.exit_code}")
    except Exception as error:
        tally.counts["crashed"] += 1
        tally.problems.append(f"{case.name}: {type(error).__name__}: {str(error)[:200]}")
        return
    if process_time() - started > MAX_SECONDS:
        tally.problems.append(f"{case.name}: {process_time() - started:.1f} seconds")
    code, message = outcome
    tally.counts[code] += 1
    if message is not None and not _is_clear(message, case):
        tally.problems.append(f"{case.name}: unclear: {message[:300]!r}")
    lost = _lost(world, case, store, outside)
    if lost:
        excuse = _excuse_forged(world, case, lost) if case.is_forged else _excuse(world, case)
        if excuse:
            tally.excused[excuse] += 1
        else:
            tally.problems.append(f"{case.name}: {code}, lost {sorted(lost)[:3]} of {len(lost)}")


def _words_of(report: RunReport) -> tuple[str, str | None]:
    refusals = [step.refusal for step in (report, *(report.steps or ())) if step.refusal is not None]
    if refusals:
        return refusals[0].code, refusals[0].message
    return report.status, None


def _is_clear(message: str, case: Case) -> bool:
    names = [name for path in case.changes for name in (path, path.rpartition("/")[2])]
    is_sentence = 0 < len(message) < 2000 and message.isprintable()
    return is_sentence and (LOCATION in message or message.startswith("option ") or any(n in message for n in names))


def _lost(world: World, case: Case, store: MemoryStore, outside: MemoryStore) -> set[str]:
    """Return what is gone of the roots that are there, or should be."""
    left = {*store._objects, *(f"{outside.location}/{key}" for key in outside._objects)}
    there = frozenset(all_roots(store))
    roots = {_present(root, there) for root in world.retained} | (there & world.needs.keys())
    needed = set[str]().union(*(world.needs[root] for root in roots if root not in case.changes or root in there))
    left = {*store._objects, *(f"{outside.location}/{key}" for key in outside._objects)}
    return {path for path in needed - left if path not in case.changes}


def _present(root: str, there: frozenset[str]) -> str:
    """Return a root, or the snapshot that would have become this changelog document."""
    return root if root in there else root.replace("changelog", "snapshot")


def _excuse(world: World, case: Case) -> str | None:
    decoded = []
    for path, body in case.changes.items():
        if body is None:
            return None
        try:
            decoded.append((path, _decoded(world.body(path)), _decoded(body)))
        except Exception:  # readers have error classes of their own
            return None
    is_value = all(set(_changed(before, after)) <= UNSEEN for _, before, after in decoded)
    if is_value and not case.is_swap:
        return "value"
    fits = all(len(world.body(path)) == len(body or b"") for path, body in case.changes.items())
    if (fits or not world.states_list_sizes) and all(
        "-list-" in path and _is_list(after) for path, _, after in decoded
    ):
        return "list"
    if case.is_swap and fits and all(_counts(before) == _counts(after) is not None for _, before, after in decoded):
        return "manifest"
    if case.is_swap and all(path.startswith("manifest/index-manifest-") for path, _, _ in decoded):
        return "index manifest"  # no root states how long one is, or how many files it names
    if case.is_swap and all("tag/tag-" in path and "baseManifestList" in after for path, _, after in decoded):
        return "tag"
    return "value" if is_value else None


def _counts(records: Any) -> Counter[int] | None:
    """Return how many files a manifest adds (0) and deletes (1), `None` of anything else."""
    if not isinstance(records, list) or not all("_FILE" in record for record in records):
        return None
    return Counter(record["_KIND"] for record in records)


def _excuse_forged(world: World, case: Case, lost: set[str]) -> str | None:
    """Whoever changes a name, and every size to match, may take away what that name was; nothing else."""
    named: set[str] = set()
    records = ""
    for path, body in case.changes.items():
        try:
            before, after = _decoded(world.body(path)), _decoded(body or b"")
        except Exception:  # readers have error classes of their own
            return None
        if not {name.removeprefix("no ") for name in _changed(before, after)} <= UNSEEN | _SIZES:
            return None
        named |= world.needs.get(path, frozenset())
        records += repr(before)
    return "value" if all(path in named or path.rpartition("/")[2] in records for path in lost) else None


_SIZES = frozenset(("_FILE_SIZE", "baseManifestListSize", "deltaManifestListSize", "changelogManifestListSize"))


def _is_list(records: Any) -> bool:
    return isinstance(records, list) and all("_NUM_ADDED_FILES" in record for record in records)


def _decoded(body: bytes) -> Any:
    if body.startswith(b"Obj\x01"):
        return list(fastavro.reader(io.BytesIO(body)))
    if body.startswith(b"ORC"):
        import pyarrow
        from pyarrow import orc

        return orc.ORCFile(pyarrow.BufferReader(body)).read().to_pylist()
    return json.loads(body)


def _changed(before: Any, after: Any, name: str = "") -> Iterator[str]:
    """Yield the names of the fields that differ, the innermost ones."""
    if name == "options":
        if before != after:
            yield name
    elif isinstance(before, dict) and isinstance(after, dict):
        for key in before.keys() | after.keys():
            if key not in before or key not in after:
                yield f"no {key}"
            else:
                yield from _changed(before[key], after[key], key)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for one, other in zip(before, after, strict=True):
            yield from _changed(one, other, name)
    elif type(before) is not type(after) or before != after:
        yield name
