"""A case: one history, written once and expired twice at the same place.

The engine goes first, two or three times (see `Evidence.reference`); the table is put back from a copy each time, since
paths in its metadata may be absolute and it cannot move. What the engine says of the table beforehand is taken as the
truth.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.differential.compare import Evidence, explained, problems
from tests.differential.engine import Engine, EngineError
from tests.differential.facts import facts_of
from tests.differential.files import listing, remove, restore, save
from tests.differential.history import History, Step
from tests.differential.ours import REFUSED, Answer, Call
from tests.differential.truth import read_roots
from tests.differential.writing import TICK_MS, apply, snapshot_ids

Maintainer = Callable[[Path, Call, Path], Answer]
"""Expires the table at the first path, and keeps its own notes below the second one."""


@dataclass(slots=True)
class Verdict:
    """What a case showed."""

    space: str
    seed: int
    call: Call
    steps: tuple[Step, ...]
    problems: list[str] = field(default_factory=list)
    explained: Counter[str] = field(default_factory=Counter)
    """Differences by rule."""
    facts: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, float] = field(default_factory=dict)

    def summary(self) -> dict[str, object]:
        """Return what the summary of a session is made of."""
        return {
            "seed": self.seed,
            "problems": len(self.problems),
            "facts": dict(self.facts),
            "explained": dict(self.explained),
            "seconds": sum(self.seconds.values()),
        }

    def __str__(self) -> str:
        shown = [f"  {problem}" for problem in self.problems[:20]]
        if len(self.problems) > 20:
            shown.append(f"  and {len(self.problems) - 20} more")
        return "\n".join(
            [
                f"seed {self.seed} ({self.space}): {len(self.problems)} problems after {self.call}",
                *shown,
                "the table's history:",
                *(f"  {number:3} {step}" for number, step in enumerate(self.steps)),
                f"run it again with: LAKESWEEP_DIFFERENTIAL_SEED={self.seed} make differential COUNT=1",
            ]
        )


def run_case(
    engine: Engine,
    work: Path,
    history: History,
    maintainer: Maintainer,
    half_way: Callable[[Path, Path], object] | None = None,
) -> Verdict:
    """Write the table of a history, expire it twice and compare.

    What ours left of a table with problems stays for inspection, and beside it the copy from before.

    Args:
        engine: Writes the table and expires it first.
        work: A folder for all of it.
        history: What happened to the table.
        maintainer: Expires it second.
        half_way: Called with the table and its control location in the middle of the history.
    """
    seconds: dict[str, float] = {}
    table = f"d.{history.space}{history.seed}"
    location = engine.location(table)
    saved = work / "saved" / location.name
    with _clock(seconds, "history"):
        control = work / "control" / location.name
        applied = apply(engine, table, history.steps, half_way and (lambda at: half_way(at, control)))
        ticks = history.expire.older_than_ticks
        call = Call(
            retain_max=history.expire.retain_max,
            retain_min=history.expire.retain_min,
            older_than_ms=None if ticks is None else applied.anchor_ms - ticks * TICK_MS,
            max_deletes=history.expire.max_deletes,
            operation=history.expire.operation,
            delete_all=history.expire.delete_all,
        )
    with _clock(seconds, "truth"):
        before, roots = listing(location), read_roots(engine, table)
        save(location, saved)
    with _clock(seconds, "engine"):
        earliest_too_high = _earliest_too_high(location, before.hints.get("snapshot/EARLIEST", ""))
        refusal = _expire(engine, table, call)
        engines = listing(location)
        references = [engines]
        restore(saved, location)
        if refusal is None and call.operation != "expire-changelogs":  # that one asks no snapshot for its age
            (location / "snapshot" / "EARLIEST").unlink(missing_ok=True)
            _expire(engine, table, call, successor=True)
            references = [listing(location)]
            restore(saved, location)
            if earliest_too_high:  # then what the engine does with its own rule of age is not known yet
                (location / "snapshot" / "EARLIEST").unlink(missing_ok=True)
                _expire(engine, table, call)
                references.append(listing(location))
                restore(saved, location)
    with _clock(seconds, "ours"):
        answer = maintainer(location, call, control)
    with _clock(seconds, "comparison"):
        left = listing(location)
        reference = next((other for other in references if other.snapshots == left.snapshots), references[0])
        evidence = Evidence(
            before=before,
            roots=roots,
            engines=engines,
            engine_refusal=refusal,
            reference=reference,
            earliest_too_high=earliest_too_high,
            ours=left,
            answer=answer,
            reads=engine("scan_all", table=table),
            after=read_roots(engine, table),
        )
        verdict = Verdict(
            space=history.space,
            seed=history.seed,
            call=call,
            steps=applied.steps,
            problems=list(problems(evidence)),
            explained=Counter(explained(evidence).values()),
            facts=facts_of(evidence, applied.steps),
            seconds=seconds,
        )
    if not verdict.problems:
        remove(location)
        remove(saved)
    return verdict


def engine_as_maintainer(engine: Engine) -> Maintainer:
    """Let the engine stand where Lakesweep does: what the comparison itself is tested with."""

    def expire(location: Path, call: Call, control: Path) -> Answer:
        refusal = _expire(engine, f"{location.parent.name.removesuffix('.db')}.{location.name}", call)
        return Answer(0, {}, "") if refusal is None else Answer(REFUSED[-1], {}, refusal)

    return expire


def _expire(engine: Engine, table: str, call: Call, *, successor: bool = False) -> str | None:
    """Expire with the engine; return its exception when it refuses.

    Args:
        successor: Judge a snapshot's age by its successor.
    """
    try:
        match call.operation:
            case "expire-changelogs":
                engine("expire_changelogs", table=table, all=call.delete_all, **call.arguments())
            case "maintain":
                engine("expire", table=table, via="commit", successor=successor)
            case _:
                engine("expire", table=table, via="successor" if successor else "procedure", **call.arguments())
    except EngineError as error:
        return error.error
    return None


def _earliest_too_high(location: Path, hint: str) -> bool:
    ids = snapshot_ids(location)
    return hint.strip().isdigit() and bool(ids) and int(hint) > ids[0]


@contextmanager
def _clock(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.monotonic()
    yield
    seconds[name] = time.monotonic() - start
