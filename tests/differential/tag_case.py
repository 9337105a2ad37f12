"""One history of a table with tags, each step of it done twice: by the engine to a copy, and by Lakesweep.

After a judged step both tables must hold the same tags, documents and files. What differs needs a rule with its proof.
The history then goes on with one of the two, drawn by lot, so each has to live with what the other left.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any

from tests.differential.engine import Engine, EngineError
from tests.differential.files import Listing, listing, remove, restore, save
from tests.differential.ours import REFUSED, Answer
from tests.differential.tag_steps import (
    Clock,
    Kind,
    Step,
    age_tags,
    date_commits,
    draw_kind,
    draw_prologue,
    draw_step,
    without_time,
)
from tests.differential.truth import Root, read_roots

STEPS = 24

TagMaintainer = Callable[[Path, Step, Path], Answer]
"""Does a step to the table at the first path, and keeps its own notes below the second one."""

RULES: Mapping[str, str] = {
    "retained-root": "only ours keeps the file: a root that stays names it, and is no neighbour of the tag that went",
    "branch-root": "only ours keeps the file: a root of another branch names it",
    "basename-live": "only ours keeps the file: a root that stays names one of the same name in another folder",
    "manual-tags": "only ours keeps the tag: it was not made by a batch job, and the limit is about those that are",
    "batch-again": "the newest snapshot has the tag of its batch job already; the engine makes it anew, ours leaves it",
    "batch-replaced": "only ours keeps the file: a batch job's tag moved on from a snapshot that is gone",
    "two-automatic": "the engine throws where several automatic tags name one snapshot; ours leaves them as they are",
    "out-of-order": "somebody moved an automatic tag to a later snapshot: the engine goes on from there, ours from the "
    "latest period",
    "equal-values": "several snapshots have the watermark, or the time, that was asked for: the engine takes one that "
    "its search meets, ours the first",
    "local-lock": "only ours has the lock file by which a store without conditional requests replaces a document",
}
"""Differences that are allowed."""


@dataclass(slots=True)
class TagVerdict:
    """What a history showed."""

    seed: int
    kind: Kind
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
                f"the table: {json.dumps(self.kind.create)}",
                *(f"  {number:3} {step}" for number, step in enumerate(self.steps)),
                f"run it again with: LAKESWEEP_DIFFERENTIAL_SEED={self.seed} make differential-tags COUNT=1",
            ]
        )


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a table in one hand."""

    files: Listing
    tags: Mapping[str, str]
    """Path -> text of each tag of each branch."""
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


def run_tag_history(engine: Engine, work: Path, seed: int, maintainer: TagMaintainer, name: str = "tags") -> TagVerdict:
    """Draw a history and judge each of its steps; it ends with the first problem, whose table stays for inspection."""
    random = Random(seed)
    kind, clock = draw_kind(random), Clock()
    verdict = TagVerdict(seed, kind)
    table, copy = f"d.{name}{seed}", f"d.{name}{seed}e"
    location, control = engine.location(table), work / "control" / f"{name}{seed}"
    engine("create", table=table, **kind.create)
    for step in draw_prologue(random, kind, clock) if random.random() < 0.4 else ():
        verdict.steps.append(step)
        verdict.facts[step.name] += 1
        engine(step.command, table=table, **step.arguments)
    begun = len(verdict.steps)
    while len(verdict.steps) < begun + STEPS and not verdict.problems:
        step = draw_step(random, kind, clock, location)
        goes_on_with_ours = random.random() < 0.5
        if step is None:
            continue
        verdict.steps.append(step)
        if step.ours is None:
            verdict.facts[step.name] += 1
            engine(step.command, table=table, **step.arguments)
            continue
        if step.operation == "expire_tags" or random.random() < 0.1:
            age_tags(location, step.branch, random)
        if step.name == "process-time":
            date_commits(location, random)
        evidence = _judge(engine, table, copy, step, maintainer, control)
        verdict.problems += problems(evidence)
        verdict.explained += Counter(explained(evidence).values())
        verdict.facts += facts_of(evidence)
        if not verdict.problems and not goes_on_with_ours and not _broken(engine, copy, evidence):
            # the table must not move: what is remembered of it goes by its place
            save(engine.location(copy), work / "saved" / copy)
            restore(work / "saved" / copy, location)
            remove(work / "saved" / copy)
        remove(engine.location(copy))
    if not verdict.problems:
        remove(location)
    return verdict


def _judge(engine: Engine, table: str, copy: str, step: Step, maintainer: TagMaintainer, control: Path) -> Evidence:
    location, copied = engine.location(table), engine.location(copy)
    before, roots = _outcome(location), read_roots(engine, table)
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
        engines=_outcome(copied, refusal),
        ours=_outcome(location, answer.messages if answer.exit_code else None),
        answer=answer,
        after=read_roots(engine, table),
    )


def _outcome(location: Path, refusal: str | None = None) -> Outcome:
    roots = [location, *sorted((location / "branch").glob("branch-*"))]
    paths = [path for root in roots for path in sorted((root / "tag").glob("tag-*")) if path.is_file()]
    return Outcome(
        listing(location), {path.relative_to(location).as_posix(): path.read_text() for path in paths}, refusal
    )


def _broken(engine: Engine, copy: str, evidence: Evidence) -> bool:
    """Tell whether the engine broke a root, so that nobody can go on with its table."""
    gave = {str(root): root.reads for root in evidence.roots}
    return any(
        root.error is not None or (str(root) in gave and root.reads != gave[str(root)])
        for root in read_roots(engine, copy)
    )


def problems(evidence: Evidence) -> Iterator[str]:
    """Say everything that is wrong, the worst first."""
    yield from _lost(evidence)
    yield from _read_differently(evidence)
    if _throws_at_two(evidence) or _is_out_of_order(evidence):
        return
    yield from _status(evidence)
    yield from _tags(evidence)
    yield from _files(evidence)
    yield from _rewritten(evidence)


def explained(evidence: Evidence) -> dict[str, str]:
    """Return each difference that a rule explains: path -> the rule's name."""
    found: dict[str, str] = {}
    if _throws_at_two(evidence):
        found[evidence.step.name] = "two-automatic"
    elif _is_out_of_order(evidence):
        found[evidence.step.name] = "out-of-order"
    for path in evidence.ours.tags.keys() - evidence.engines.tags.keys():
        if evidence.step.name == "batch" and path in evidence.before.tags and not _is_batch_made(path):
            found[path] = "manual-tags"
    for path in evidence.engines.tags.keys() - evidence.ours.tags.keys():
        before = evidence.before.tags.get(path)
        again = json.loads(evidence.engines.tags[path])["id"]
        if evidence.step.name == "batch" and before is not None and json.loads(before)["id"] == again:
            found[path] = found[_success_file(path)] = "batch-again"  # its time was over, and the engine makes it anew
    for path in [path for path, rule in found.items() if rule == "manual-tags"]:
        found[_success_file(path)] = "manual-tags"
    for path, text in evidence.ours.tags.items():
        again = evidence.engines.tags.get(path, text)
        was_there = evidence.step.name == "batch" and evidence.before.tags.get(path) == text
        if was_there and again != text and json.loads(text)["id"] == json.loads(again)["id"]:
            found[path] = "batch-again"
    for path in evidence.ours.tags.keys() & evidence.engines.tags.keys():
        if _took_the_first(evidence, json.loads(evidence.ours.tags[path]), json.loads(evidence.engines.tags[path])):
            found[path] = "equal-values"
    for path in evidence.ours.files.paths - evidence.engines.files.paths - evidence.ours.tags.keys():
        rule = _why_ours_keeps(path, evidence)
        if rule is not None:
            found[path] = rule
    return found


def _success_file(path: str) -> str:
    return path.replace("tag/tag-", "tag/tag-success-file/", 1) + "_SUCCESS"


def _throws_at_two(evidence: Evidence) -> bool:
    return "more than 1 auto-created tags of the same snapshot" in (evidence.engines.refusal or "")


def _moved_on(evidence: Evidence) -> Iterator[Root]:
    """Yield the tags as they were that have another snapshot now."""
    for root in evidence.roots:
        now = evidence.ours.tags.get(root.path)
        if root.kind == "tag" and now is not None and json.loads(now)["id"] != root.facts["snapshot_id"]:
            yield root


def _is_out_of_order(evidence: Evidence) -> bool:
    """Tell whether both made other automatic tags, and the periods of those from before do not follow the snapshots."""
    same = evidence.ours.tags.keys() == evidence.engines.tags.keys()
    if same or evidence.step.name not in ("watermark", "process-time"):
        return False
    before = evidence.before.tags.items()
    names = {PurePosixPath(path).name[4:]: text for path, text in before if path.startswith("tag/")}
    periods = [
        (json.loads(text)["id"], re.sub("[- ]", "", name))
        for name, text in names.items()
        if re.fullmatch(r"\d{4}-?\d\d-?\d\d( ?\d\d(\d\d)?)?", name)
    ]
    return [period for _, period in sorted(periods)] != sorted(period for _, period in periods)


def _took_the_first(evidence: Evidence, ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> bool:
    """Tell whether a tag was asked for by a value that both snapshots have, and ours is the earlier one."""
    asked = {"watermark": "watermark", "timestamp": "timeMillis"}
    return ours["id"] < theirs["id"] and any(
        name in evidence.step.arguments and ours.get(field) == theirs.get(field) for name, field in asked.items()
    )


def _is_batch_made(path: str) -> bool:
    name = PurePosixPath(path).name.removeprefix("tag-")
    return name.startswith("batch-write-") or name == "nightly"


def _why_ours_keeps(path: str, evidence: Evidence) -> str | None:
    owners = {root.branch for root in evidence.surviving if path in root.files}
    if evidence.step.branch in owners:
        return "retained-root"
    if owners:
        return "branch-root"
    if evidence.step.name == "batch" and any(path in root.files for root in _moved_on(evidence)):
        return "batch-replaced"
    name = PurePosixPath(path).name
    if name == ".lakesweep.lock" and path.split("/")[-2] in ("tag", "tag-success-file"):
        return "local-lock"
    if any(PurePosixPath(other).name == name for root in evidence.surviving for other in root.files):
        return "basename-live"
    return None


def _lost(evidence: Evidence) -> Iterator[str]:
    for root in evidence.surviving:
        for path in sorted((root.files & evidence.before.files.paths) - evidence.ours.files.paths):
            yield f"LOST: {root} needs {path}"


def _read_differently(evidence: Evidence) -> Iterator[str]:
    """What stays reads as before, and a new tag reads as its snapshot did."""
    gave = {root.path: root.reads for root in evidence.roots}
    by_commit = {
        (root.branch, root.facts["snapshot_id"], root.facts["time_ms"]): root.reads
        for root in evidence.roots
        if root.kind != "changelog"
    }
    for root in evidence.after:
        if root.error is not None or isinstance(root.reads, str):
            yield f"BROKEN: {root} {root.error} {root.reads}"
            continue
        if root.kind == "changelog":
            continue
        commit = (root.branch, root.facts["snapshot_id"], root.facts["time_ms"])
        unchanged = evidence.before.tags.get(root.path) == evidence.ours.tags.get(root.path)
        expected = gave[root.path] if root.path in gave and unchanged else by_commit.get(commit)
        if root.reads != expected:
            yield f"READS DIFFERENTLY: {root} gave {expected}, gives {root.reads}"


def _status(evidence: Evidence) -> Iterator[str]:
    """Both do it, or both refuse and touch nothing."""
    ours, theirs = evidence.answer.exit_code, evidence.engines.refusal
    said = f"{evidence.answer.messages} {evidence.answer.document}"
    if theirs is None and ours != 0:
        yield f"ours ended with {ours}, the engine did its work: {said}"
    if theirs is not None and ours not in REFUSED and evidence.engines.tags == evidence.before.tags:
        yield f"ours ended with {ours}, the engine refused: {theirs} | {said}"
    if theirs is not None and evidence.engines.tags != evidence.before.tags:
        yield f"the engine threw half way: {theirs}"
    if ours in REFUSED and evidence.before.files != evidence.ours.files:
        yield "ours refused and changed files all the same"


def _tags(evidence: Evidence) -> Iterator[str]:
    """The same tags, of the same snapshots, with the same lives."""
    known = explained(evidence)
    ours, theirs = evidence.ours.tags, evidence.engines.tags
    for path in sorted(ours.keys() - theirs.keys() - known.keys()):
        yield f"only ours has {path}: {_short(ours[path])}"
    for path in sorted(theirs.keys() - ours.keys() - known.keys()):
        yield f"only the engine has {path}: {_short(theirs[path])}"
    for path in sorted((ours.keys() & theirs.keys()) - known.keys()):
        if without_time(ours[path]) != without_time(theirs[path]):
            yield f"{path} differs:\n{ours[path]}\n{theirs[path]}"
        elif path in evidence.before.tags and evidence.before.tags[path] == theirs[path] != ours[path]:
            yield f"only ours wrote {path} anew"


def _short(text: str) -> str:
    document = json.loads(text)
    keys = ("id", "timeMillis", "watermark", "tagCreateTime", "tagTimeRetained")
    return json.dumps({key: document[key] for key in keys if key in document})


def _files(evidence: Evidence) -> Iterator[str]:
    known = explained(evidence)
    ours, theirs = evidence.ours.files.paths, evidence.engines.files.paths
    documents = evidence.ours.tags.keys() | evidence.engines.tags.keys()
    for path in sorted(ours - theirs - known.keys() - documents):
        yield f"only ours keeps it, and nothing that survives needs it: {path}"
    for path in sorted(theirs - ours - documents - known.keys()):
        yield f"only the engine keeps it: {path}"


def _rewritten(evidence: Evidence) -> Iterator[str]:
    files, left = evidence.before.files.files, evidence.ours.files.files
    for path in sorted(files.keys() & left.keys()):
        if files[path] != left[path] and "tag/tag-" not in path and not path.endswith("_SUCCESS"):
            yield f"rewritten: {path}"


def facts_of(evidence: Evidence) -> Counter[str]:
    """Count what a step held."""
    before, engines, ours = evidence.before, evidence.engines, evidence.ours
    gone = {path for path in before.tags if path not in ours.tags}
    data = {path for path in before.files.paths - ours.files.paths if "/bucket-" in path}
    return Counter(
        {
            evidence.step.name: 1,
            "judged": 1,
            "refused by both": int(engines.refusal is not None and evidence.answer.exit_code != 0),
            "tags made": len(ours.tags.keys() - before.tags.keys()),
            "tags gone": len(gone),
            "data files gone": len(data),
            "files deleted by the engine": len(before.files.paths - engines.files.paths),
            "files deleted by ours": len(before.files.paths - ours.files.paths),
            "roots read": len(evidence.after),
        }
    )


def engine_as_tag_maintainer(engine: Engine) -> TagMaintainer:
    """Let the engine stand where Lakesweep does: what the comparison itself is tested with."""

    def act(location: Path, step: Step, control: Path) -> Answer:
        try:
            engine(step.command, table=f"d.{location.name}", **step.arguments)
        except EngineError as error:
            return Answer(REFUSED[-1], {}, error.error)
        return Answer(0, {}, "")

    return act
