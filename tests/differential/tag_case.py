"""One history of a table with tags, each step of it done twice: by the engine to a copy, and by Lakesweep.

After a judged step both tables must hold the same tags, documents and files. What differs needs a rule with its proof.
The history then goes on with one of the two, drawn by lot, so each has to live with what the other left.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any

from tests.differential.engine import Engine
from tests.differential.files import Listing, remove
from tests.differential.judged_step import (
    OWNER_RULES,
    Evidence,
    Maintainer,
    Verdict,
    do_twice,
    facts_of,
    go_on_with,
    kept_by_one,
    lost_files,
    rewritten_files,
    rule_of_owner,
)
from tests.differential.ours import REFUSED
from tests.differential.tag_steps import (
    Clock,
    age_tags,
    date_commits,
    draw_kind,
    draw_prologue,
    draw_step,
    without_time,
)
from tests.differential.truth import Root, read_roots

STEPS = 24

RULES: Mapping[str, str] = {
    **OWNER_RULES,
    "retained-root": "only ours keeps the file: a root that stays names it, and is no neighbour of the tag that went",
    "basename-live": "only ours keeps the file: a root that stays names one of the same name in another folder",
    "manual-tags": "only ours keeps the tag: it was not made by a batch job, and the limit is about those that are",
    "batch-again": "the newest snapshot has the tag of its batch job already; the engine makes it anew, ours leaves it",
    "batch-replaced": "only ours keeps the file: a batch job's tag moved on from a snapshot that is gone",
    "two-automatic": "the engine throws where several automatic tags name one snapshot; ours leaves them as they are",
    "out-of-order": "somebody moved an automatic tag to a later snapshot: the engine goes on from there, ours from the "
    "latest period",
    "equal-values": "several snapshots have the watermark, or the time, that was asked for: the engine takes one that "
    "its search meets, ours the first",
}
"""Differences that are allowed."""


def run_tag_history(engine: Engine, work: Path, seed: int, maintainer: Maintainer, name: str = "tags") -> Verdict:
    """Draw a history and judge each of its steps; it ends with the first problem, whose table stays for inspection."""
    random = Random(seed)
    kind, clock = draw_kind(random), Clock()
    verdict = Verdict("tags", seed, kind.create)
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
        if step.operation == "expire-tags" or random.random() < 0.1:
            age_tags(location, step.branch, random)
        if step.name == "process-time":
            date_commits(location, random)
        evidence = do_twice(engine, table, copy, step, maintainer, control, _tags_of)
        verdict.problems += problems(evidence)
        verdict.explained += Counter(explained(evidence).values())
        verdict.facts += _facts_of(evidence)
        if not verdict.problems and not goes_on_with_ours and not _broken(engine, copy, evidence):
            go_on_with(engine.location(copy), location, work)
        remove(engine.location(copy))
    if not verdict.problems:
        remove(location)
    return verdict


def _tags_of(location: Path, files: Listing) -> dict[str, str]:
    """Return the tags of each branch; other documents count as files."""
    roots = [location, *sorted((location / "branch").glob("branch-*"))]
    paths = [path for root in roots for path in sorted((root / "tag").glob("tag-*")) if path.is_file()]
    return {path.relative_to(location).as_posix(): path.read_text() for path in paths}


def _broken(engine: Engine, copy: str, evidence: Evidence) -> bool:
    """Tell whether the engine broke a root, so that nobody can go on with its table."""
    gave = {str(root): root.reads for root in evidence.roots}
    return any(
        root.error is not None or (str(root) in gave and root.reads != gave[str(root)])
        for root in read_roots(engine, copy)
    )


def problems(evidence: Evidence) -> Iterator[str]:
    """Say everything that is wrong, the worst first."""
    yield from lost_files(evidence)
    yield from _read_differently(evidence)
    if _throws_at_two(evidence) or _is_out_of_order(evidence):
        return
    yield from _status(evidence)
    yield from _tags(evidence)
    yield from kept_by_one(evidence, explained(evidence).keys())
    yield from _rewritten(evidence)


def explained(evidence: Evidence) -> dict[str, str]:
    """Return each difference that a rule explains: path -> the rule's name."""
    found: dict[str, str] = {}
    if _throws_at_two(evidence):
        found[evidence.step.name] = "two-automatic"
    elif _is_out_of_order(evidence):
        found[evidence.step.name] = "out-of-order"
    for path in evidence.ours.documents.keys() - evidence.engines.documents.keys():
        if evidence.step.name == "batch" and path in evidence.before.documents and not _is_batch_made(path):
            found[path] = "manual-tags"
    for path in evidence.engines.documents.keys() - evidence.ours.documents.keys():
        before = evidence.before.documents.get(path)
        again = json.loads(evidence.engines.documents[path])["id"]
        if evidence.step.name == "batch" and before is not None and json.loads(before)["id"] == again:
            found[path] = found[_success_file(path)] = "batch-again"  # its time was over, and the engine makes it anew
    for path in [path for path, rule in found.items() if rule == "manual-tags"]:
        found[_success_file(path)] = "manual-tags"
    for path, text in evidence.ours.documents.items():
        again = evidence.engines.documents.get(path, text)
        was_there = evidence.step.name == "batch" and evidence.before.documents.get(path) == text
        if was_there and again != text and json.loads(text)["id"] == json.loads(again)["id"]:
            found[path] = "batch-again"
    for path in evidence.ours.documents.keys() & evidence.engines.documents.keys():
        if _took_the_first(
            evidence, json.loads(evidence.ours.documents[path]), json.loads(evidence.engines.documents[path])
        ):
            found[path] = "equal-values"
    for path in evidence.ours.files.paths - evidence.engines.files.paths - evidence.ours.documents.keys():
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
        now = evidence.ours.documents.get(root.path)
        if root.kind == "tag" and now is not None and json.loads(now)["id"] != root.facts["snapshot_id"]:
            yield root


def _is_out_of_order(evidence: Evidence) -> bool:
    """Tell whether both made other automatic tags, and the periods of those from before do not follow the snapshots."""
    same = evidence.ours.documents.keys() == evidence.engines.documents.keys()
    if same or evidence.step.name not in ("watermark", "process-time"):
        return False
    before = evidence.before.documents.items()
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
    if rule := rule_of_owner(path, evidence):
        return rule
    if evidence.step.name == "batch" and any(path in root.files for root in _moved_on(evidence)):
        return "batch-replaced"
    name = PurePosixPath(path).name
    if name == ".lakesweep.lock" and path.split("/")[-2] in ("tag", "tag-success-file"):
        return "local-lock"
    if any(PurePosixPath(other).name == name for root in evidence.surviving for other in root.files):
        return "basename-live"
    return None


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
        unchanged = evidence.before.documents.get(root.path) == evidence.ours.documents.get(root.path)
        expected = gave[root.path] if root.path in gave and unchanged else by_commit.get(commit)
        if root.reads != expected:
            yield f"READS DIFFERENTLY: {root} gave {expected}, gives {root.reads}"


def _status(evidence: Evidence) -> Iterator[str]:
    """Both do it, or both refuse and touch nothing."""
    ours, theirs = evidence.answer.exit_code, evidence.engines.refusal
    said = f"{evidence.answer.messages} {evidence.answer.document}"
    if theirs is None and ours != 0:
        yield f"ours ended with {ours}, the engine did its work: {said}"
    if theirs is not None and ours not in REFUSED and evidence.engines.documents == evidence.before.documents:
        yield f"ours ended with {ours}, the engine refused: {theirs} | {said}"
    if theirs is not None and evidence.engines.documents != evidence.before.documents:
        yield f"the engine threw half way: {theirs}"
    if ours in REFUSED and evidence.before.files != evidence.ours.files:
        yield "ours refused and changed files all the same"


def _tags(evidence: Evidence) -> Iterator[str]:
    """The same tags, of the same snapshots, with the same lives."""
    known = explained(evidence)
    ours, theirs = evidence.ours.documents, evidence.engines.documents
    for path in sorted(ours.keys() - theirs.keys() - known.keys()):
        yield f"only ours has {path}: {_short(ours[path])}"
    for path in sorted(theirs.keys() - ours.keys() - known.keys()):
        yield f"only the engine has {path}: {_short(theirs[path])}"
    for path in sorted((ours.keys() & theirs.keys()) - known.keys()):
        if without_time(ours[path]) != without_time(theirs[path]):
            yield f"{path} differs:\n{ours[path]}\n{theirs[path]}"
        elif path in evidence.before.documents and evidence.before.documents[path] == theirs[path] != ours[path]:
            yield f"only ours wrote {path} anew"


def _short(text: str) -> str:
    document = json.loads(text)
    keys = ("id", "timeMillis", "watermark", "tagCreateTime", "tagTimeRetained")
    return json.dumps({key: document[key] for key in keys if key in document})


def _rewritten(evidence: Evidence) -> Iterator[str]:
    for path in rewritten_files(evidence):
        if "tag/tag-" not in path and not path.endswith("_SUCCESS"):
            yield f"rewritten: {path}"


def _facts_of(evidence: Evidence) -> Counter[str]:
    """Count what a step held."""
    before, ours = evidence.before, evidence.ours
    gone = before.files.paths - ours.files.paths
    return facts_of(evidence) + Counter(
        {
            evidence.step.name: 1,
            "tags made": len(ours.documents.keys() - before.documents.keys()),
            "tags gone": len(before.documents.keys() - ours.documents.keys()),
            "data files gone": sum("/bucket-" in path for path in gone),
        }
    )
