"""A step of a history that is done twice, by the engine to a copy and by Lakesweep, and what is asked of each of them.

Whatever the step is about, nothing that a root needs may be gone, and a file that only one of both keeps needs a rule.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.differential.engine import Engine, EngineError
from tests.differential.files import Listing, listing, remove, restore, save
from tests.differential.ours import REFUSED, Answer
from tests.differential.tag_steps import Step
from tests.differential.truth import Root, read_roots

Maintainer = Callable[[Path, Step, Path], Answer]
"""Does a step to the table at the first path, and keeps its own notes below the second one."""

ReadDocuments = Callable[[Path, Listing], Mapping[str, str]]
"""Returns path -> text of the documents of the table at a path that are compared."""

OWNER_RULES: Mapping[str, str] = {
    "retained-root": "only ours keeps the file: a root that stays names it, and the engine did not ask that one",
    "branch-root": "only ours keeps the file: a root of another branch names it",
    "local-lock": "only ours has the lock file by which a store without conditional requests replaces a document",
}
"""Differences that are allowed whatever the step is about."""


@dataclass(slots=True)
class Verdict:
    """What a history showed."""

    target: str
    """What is compared: the last word of the target of `make` that does so."""
    seed: int
    create: Mapping[str, Any]
    """What the table was made with."""
    steps: list[Step] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    explained: Counter[str] = field(default_factory=Counter)
    facts: Counter[str] = field(default_factory=Counter)

    def summary(self) -> dict[str, object]:
        """Return what the summary of a session is made of."""
        return {"seed": self.seed, "explained": dict(self.explained), "facts": dict(self.facts)}

    def __str__(self) -> str:
        return "\n".join(
            [
                f"seed {self.seed}: {len(self.problems)} problems at the last of {len(self.steps)} steps",
                *(f"  {problem}" for problem in self.problems[:20]),
                f"the table: {json.dumps(self.create)}",
                *(f"  {number:3} {step}" for number, step in enumerate(self.steps)),
                f"run it again with: LAKESWEEP_DIFFERENTIAL_SEED={self.seed} make differential-{self.target} COUNT=1",
            ]
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a table in one hand."""

    files: Listing
    documents: Mapping[str, str]
    """Path -> text of each document that is compared."""
    refusal: str | None
    """Why it would not."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """One judged step."""

    step: Step
    before: Outcome
    roots: tuple[Root, ...]
    engines: Outcome
    ours: Outcome
    answer: Answer
    after: tuple[Root, ...]
    """What the engine says of what ours left."""

    @property
    def surviving(self) -> tuple[Root, ...]:
        """Return the roots whose documents ours left, as they were."""
        paths = self.ours.files.paths
        return tuple(root for root in self.roots if root.path in paths)


def do_twice(
    engine: Engine, table: str, copy: str, step: Step, maintainer: Maintainer, control: Path, read: ReadDocuments
) -> Evidence:
    """Let the engine do a step to a copy of a table, and a maintainer to the table."""
    location, copied = engine.location(table), engine.location(copy)
    before, roots = _outcome(location, read), read_roots(engine, table)
    save(location, copied.parent / f"{copied.name}.saved")
    (copied.parent / f"{copied.name}.saved" / "table").rename(copied)
    remove(copied.parent / f"{copied.name}.saved")
    refusal = None
    try:
        engine(step.command, table=copy, **step.arguments)
    except EngineError as error:
        refusal = error.error
    answer = maintainer(location, step, control)
    return Evidence(
        step=step,
        before=before,
        roots=roots,
        engines=_outcome(copied, read, refusal),
        ours=_outcome(location, read, answer.messages if answer.exit_code else None),
        answer=answer,
        after=read_roots(engine, table),
    )


def _outcome(location: Path, read: ReadDocuments, refusal: str | None = None) -> Outcome:
    files = listing(location)
    return Outcome(files, read(location, files), refusal)


def go_on_with(copy: Path, location: Path, work: Path) -> None:
    """Let a table be what a copy of it has become. It stays where it is: what is remembered of it goes by its place."""
    save(copy, work / "saved" / copy.name)
    restore(work / "saved" / copy.name, location)
    remove(work / "saved" / copy.name)


def lost_files(evidence: Evidence) -> Iterator[str]:
    """Say which files are gone that a root needs whose document is there."""
    for root in evidence.surviving:
        for path in sorted((root.files & evidence.before.files.paths) - evidence.ours.files.paths):
            yield f"LOST: {root} needs {path}"


def rule_of_owner(path: str, evidence: Evidence) -> str | None:
    """Return the rule by which ours keeps a file that a root names, `None` where none does."""
    owners = {root.branch for root in evidence.surviving if path in root.files}
    if evidence.step.branch in owners:
        return "retained-root"
    return "branch-root" if owners else None


def kept_by_one(evidence: Evidence, explained: Set[str]) -> Iterator[str]:
    """Say which files only one of both keeps, but for documents and what a rule explains."""
    ours, theirs = evidence.ours.files.paths, evidence.engines.files.paths
    documents = evidence.ours.documents.keys() | evidence.engines.documents.keys()
    for path in sorted(ours - theirs - explained - documents):
        yield f"only ours keeps it, and nothing that survives needs it: {path}"
    for path in sorted(theirs - ours - explained - documents):
        yield f"only the engine keeps it: {path}"


def rewritten_files(evidence: Evidence) -> Iterator[str]:
    """Yield the paths of files that ours left, but not as they were."""
    files, left = evidence.before.files.files, evidence.ours.files.files
    yield from (path for path in sorted(files.keys() & left.keys()) if files[path] != left[path])


def facts_of(evidence: Evidence) -> Counter[str]:
    """Count what any step holds."""
    before, engines, ours = evidence.before, evidence.engines, evidence.ours
    return Counter(
        {
            "judged": 1,
            "refused by both": int(engines.refusal is not None and evidence.answer.exit_code != 0),
            "files deleted by the engine": len(before.files.paths - engines.files.paths),
            "files deleted by ours": len(before.files.paths - ours.files.paths),
            "roots read": len(evidence.after),
        }
    )


def engine_as_maintainer(engine: Engine) -> Maintainer:
    """Let the engine stand where Lakesweep does: what the comparison itself is tested with."""

    def act(location: Path, step: Step, control: Path) -> Answer:
        try:
            engine(step.command, table=f"d.{location.name}", **step.arguments)
        except EngineError as error:
            return Answer(REFUSED[-1], {}, error.error)
        return Answer(0, {}, "")

    return act
