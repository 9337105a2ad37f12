"""One history of a table with branches, each judged step of it done twice: by the engine to a copy, and by Lakesweep.

After such a step both tables must hold the same branches, documents, hints and files, and the engine must read from
every root of every branch what it read before. What differs needs a rule with its proof. The history goes on with one
of the two, drawn by lot, so the engine goes on committing where ours has rolled back, and the other way round.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from random import Random
from typing import Any

from tests.differential.branch_steps import ORPHANS, age_files, commit, draw_kind, draw_step
from tests.differential.engine import Engine
from tests.differential.files import Listing, remove
from tests.differential.judged_step import (
    OWNER_RULES,
    Evidence,
    Maintainer,
    Outcome,
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
from tests.differential.tag_steps import Clock
from tests.differential.truth import Root, read_roots

STEPS = 22
MOVES = ("rollback", "fast-forward")
"""After these, writers go on where they are told to."""

RULES: Mapping[str, str] = {
    **OWNER_RULES,
    "hint-by-listing": "only one of both has the hint, or the engine's names nothing; the other says what a "
    "listing would",
    "hidden-snapshots": "an EARLIEST hides older snapshots: the engine's expiry and its searches begin there, ours at "
    "the oldest",
    "equal-watermarks": "several snapshots have the watermark that a rollback goes to: the engine takes one that its "
    "search meets, ours the last",
    "lower-watermark": "no snapshot has so low a watermark: the engine rolls back to the oldest, ours refuses",
    "expired-source": "the engine fails half way where a tag's snapshot has expired; ours makes the branch of the tag",
    "tag-protected": "ours does not go past a tag from which a branch was made, unless it is told to lose it",
    "schema-conflict": "ours does not put a branch's schemas over others that something was written with that stays",
}
"""Differences that are allowed."""


def run_branch_history(
    engine: Engine, work: Path, seed: int, maintainer: Maintainer, name: str = "branches"
) -> Verdict:
    """Draw a history and judge each of its steps; it ends with the first problem, whose table stays for inspection."""
    random = Random(seed)
    kind, clock = draw_kind(random), Clock()
    verdict = Verdict("branches", seed, kind.create)
    table, copy = f"d.{name}{seed}", f"d.{name}{seed}e"
    location, control = engine.location(table), work / "control" / f"{name}{seed}"
    engine("create", table=table, **kind.create)
    moved: str | None = None
    """The branch that ours has just moved, for a writer to go on with."""
    while len(verdict.steps) < STEPS and not verdict.problems:
        is_last = len(verdict.steps) == STEPS - 1
        step = ORPHANS if is_last else draw_step(random, kind, clock, location)
        goes_on_with_ours = random.random() < 0.7
        if moved is not None and not is_last and random.random() < 0.9:
            step = commit(random, kind, clock, moved)
            verdict.facts["commits on what ours moved"] += 1
        moved = None
        if step is None:
            continue
        verdict.steps.append(step)
        verdict.facts[step.name] += 1
        if step.ours is None:
            engine(step.command, table=table, **step.arguments)
            continue
        if is_last:
            age_files(location)
        evidence = do_twice(engine, table, copy, step, maintainer, control, _documents_of)
        verdict.problems += problems(evidence)
        verdict.explained += Counter(explained(evidence).values())
        verdict.facts += _facts_of(evidence)
        if not verdict.problems and not goes_on_with_ours and not _broken(engine, copy, evidence):
            go_on_with(engine.location(copy), location, work)
        elif step.name in MOVES and evidence.answer.exit_code == 0:
            moved = step.branch
        remove(engine.location(copy))
    if not verdict.problems:
        remove(location)
    return verdict


def _documents_of(location: Path, files: Listing) -> dict[str, str]:
    """Return the snapshots, changelogs, tags and schemas of each branch."""
    return {path: (location / path).read_text() for path in files.files if _is_document(path)}


def _is_document(path: str) -> bool:
    """Tell whether a file is a snapshot, changelog, tag or schema of some branch."""
    parts = PurePosixPath(path).parts
    return parts[-2:-1] in (("snapshot",), ("changelog",), ("tag",), ("schema",)) and parts[-1].startswith(
        f"{parts[-2]}-"
    )


def _broken(engine: Engine, copy: str, evidence: Evidence) -> bool:
    """Tell whether the engine broke a root, or left something half done, so that nobody can go on with its table."""
    if evidence.engines.refusal is not None and evidence.engines.files != evidence.before.files:
        return True
    gave = {str(root): root.reads for root in evidence.roots if root.path in evidence.before.documents}
    text = evidence.before.documents
    return any(
        root.error is not None
        or isinstance(root.reads, str)
        or (
            text.get(root.path) == evidence.engines.documents[root.path]
            and str(root) in gave
            and root.reads != gave[str(root)]
        )
        for root in read_roots(engine, copy)
    )


def problems(evidence: Evidence) -> Iterator[str]:
    """Say everything that is wrong, the worst first."""
    yield from lost_files(evidence)
    yield from _read_differently(evidence)
    yield from _status(evidence)
    if evidence.step.name not in explained(evidence) and evidence.engines.refusal is None and not evidence.ours.refusal:
        yield from _documents(evidence)
        yield from _hints(evidence)
        yield from _files(evidence)
        yield from _said(evidence)


def explained(evidence: Evidence) -> dict[str, str]:
    """Return each difference that a rule explains: path, or name of the step -> the rule's name."""
    found = dict.fromkeys(_equal_by_listing(evidence), "hint-by-listing")
    for rule, explains in _OF_STEPS.items():
        if explains(evidence):
            return {evidence.step.name: rule}
    if evidence.step.name == "expire-snapshots" and (hint := _hides_snapshots(evidence)):
        found |= dict.fromkeys(evidence.engines.files.paths - evidence.ours.files.paths, "hidden-snapshots")
        if (evidence.ours.files.hints.get(hint) or "").strip() == _listed(hint, evidence.ours):
            found[hint] = "hidden-snapshots"
    for path in evidence.ours.files.paths - evidence.engines.files.paths:
        rule = _why_ours_keeps(path, evidence)
        if rule is not None:
            found[path] = rule
    return found


def _refused_as(code: str, evidence: Evidence) -> bool:
    refusal = evidence.answer.document.get("refusal") or {}
    return refusal.get("code") == code and evidence.step.name in MOVES


def _is_of_expired_source(evidence: Evidence) -> bool:
    """Tell whether a branch was asked for of a tag whose snapshot is gone."""
    tag = evidence.before.documents.get(f"tag/tag-{evidence.step.arguments.get('tag')}")
    if evidence.step.name != "create-branch" or tag is None or "create branch" not in (evidence.engines.refusal or ""):
        return False
    return f"snapshot/snapshot-{json.loads(tag)['id']}" not in evidence.before.documents


def _newest(outcome: Outcome, branch: str) -> Mapping[str, Any]:
    """Return the document of a branch's newest snapshot."""
    folder = ("" if branch == "main" else f"branch/branch-{branch}/") + "snapshot/snapshot-"
    ids = [int(path.removeprefix(folder)) for path in outcome.documents if path.startswith(folder)]
    return dict(json.loads(outcome.documents[f"{folder}{max(ids)}"]))


def _took_the_last(evidence: Evidence) -> bool:
    """Tell whether a rollback went to a watermark that both snapshots have, and ours is the later one."""
    if "watermark" not in evidence.step.arguments or evidence.engines.refusal or evidence.ours.refusal:
        return False
    ours, theirs = (_newest(outcome, evidence.step.branch) for outcome in (evidence.ours, evidence.engines))
    mark = evidence.step.arguments["watermark"]
    return theirs["id"] < ours["id"] and theirs["watermark"] == ours["watermark"] <= mark


def _is_too_low(evidence: Evidence) -> bool:
    """Tell whether the engine rolled back to a higher watermark than it was told to, which ours would not."""
    if "watermark" not in evidence.step.arguments or evidence.engines.refusal or not evidence.ours.refusal:
        return False
    return bool(_newest(evidence.engines, evidence.step.branch)["watermark"] > evidence.step.arguments["watermark"])


def _hides_snapshots(evidence: Evidence) -> str | None:
    """Return the hint that says that the branch begins later than it does."""
    hint = ("" if evidence.step.branch == "main" else f"branch/branch-{evidence.step.branch}/") + "snapshot/EARLIEST"
    said, listed = evidence.before.files.hints.get(hint), _listed(hint, evidence.before)
    return hint if said and listed and int(said) > int(listed) else None


def _searches_among_hidden(evidence: Evidence) -> bool:
    """Tell whether a rollback to a time or a watermark met snapshots that the engine does not see."""
    searches = not {"timestamp_ms", "watermark"}.isdisjoint(evidence.step.arguments)
    return evidence.step.name == "rollback" and searches and _hides_snapshots(evidence) is not None


_OF_STEPS: Mapping[str, Callable[[Evidence], bool]] = {
    "tag-protected": partial(_refused_as, "tag_protected"),
    "schema-conflict": partial(_refused_as, "schema_conflict"),
    "expired-source": _is_of_expired_source,
    "equal-watermarks": _took_the_last,
    "lower-watermark": _is_too_low,
    "hidden-snapshots": _searches_among_hidden,
}
"""Rule -> whether it explains that a step ended otherwise."""


def _why_ours_keeps(path: str, evidence: Evidence) -> str | None:
    if PurePosixPath(path).name == ".lakesweep.lock":
        return "local-lock"
    return rule_of_owner(path, evidence)


def _commit_of(text: str) -> tuple[Any, ...]:
    """Say which commit a document is of, wherever it was copied to."""
    document = json.loads(text)
    return document["baseManifestList"], document["deltaManifestList"], document["schemaId"]


def _read_differently(evidence: Evidence) -> Iterator[str]:
    """Everything that is there reads as what it is a copy of."""
    gave: dict[tuple[Any, ...], list[object]] = {}
    for root in evidence.roots:
        if root.kind != "changelog":
            gave.setdefault(_commit_of(evidence.before.documents[root.path]), []).append(root.reads)
    for root in evidence.after:
        if isinstance(root.reads, str) or (root.error is not None and not _lacks_its_changelog(root, evidence)):
            yield f"BROKEN: {root} {root.error} {root.reads}"
        elif root.kind != "changelog":
            expected = gave.get(_commit_of(evidence.ours.documents[root.path]), [])
            if root.reads not in expected:
                yield f"READS DIFFERENTLY: {root} gave {expected}, gives {root.reads}"


def _lacks_its_changelog(root: Root, evidence: Evidence) -> bool:
    """Tell whether a snapshot came back from a tag, which holds no changelog files: they went with the changelog."""
    text = evidence.ours.documents[root.path]
    tags = (other for path, other in evidence.before.documents.items() if "tag/tag-" in path)
    return root.kind == "snapshot" and "changelogManifestList" in text and _commit_of(text) in map(_commit_of, tags)


def _status(evidence: Evidence) -> Iterator[str]:
    """Both do it, or both refuse and touch nothing."""
    ours, theirs = evidence.answer.exit_code, evidence.engines.refusal
    said = f"{evidence.answer.messages} {evidence.answer.document}"
    if theirs is None and ours != 0 and not explained(evidence):
        yield f"ours ended with {ours}, the engine did its work: {said}"
    if theirs is not None and ours not in REFUSED and not explained(evidence):
        yield f"ours ended with {ours}, the engine refused: {theirs} | {said}"
    if ours in REFUSED and _without_locks(evidence.before.files) != _without_locks(evidence.ours.files):
        yield "ours refused and changed files all the same"


def _without_locks(files: Listing) -> tuple[Mapping[str, object], Mapping[str, str]]:
    return {path: state for path, state in files.files.items() if ".lakesweep.lock" not in path}, files.hints


def _documents(evidence: Evidence) -> Iterator[str]:
    """The same documents, byte for byte."""
    ours, theirs = evidence.ours.documents, evidence.engines.documents
    for path in sorted(ours.keys() - theirs.keys()):
        yield f"only ours has {path}"
    for path in sorted(theirs.keys() - ours.keys() - explained(evidence).keys()):
        yield f"only the engine has {path}"
    for path in sorted(ours.keys() & theirs.keys()):
        if ours[path] != theirs[path]:
            yield f"{path} differs:\n{ours[path]}\n{theirs[path]}"


def _hints(evidence: Evidence) -> Iterator[str]:
    ours, theirs = evidence.ours.files.hints, evidence.engines.files.hints
    for path in sorted((ours.keys() | theirs.keys()) - explained(evidence).keys()):
        if ours.get(path) != theirs.get(path):
            yield f"{path} says {ours.get(path)!r}, the engine's says {theirs.get(path)!r}"


def _equal_by_listing(evidence: Evidence) -> frozenset[str]:
    """Return the hints of one that say what a listing would, where the other has none or, the engine, a void one."""
    hints, others = evidence.ours.files.hints, evidence.engines.files.hints
    alone = {path: (hints | others)[path] for path in hints.keys() ^ others.keys()}
    mended = {path: hints[path] for path in hints.keys() & others.keys() if _names_nothing(path, evidence.engines)}
    return frozenset(
        path
        for path, said in {**alone, **mended}.items()
        if said.strip() == _listed(path, evidence.ours) == _listed(path, evidence.engines)
    )


def _names_nothing(hint: str, outcome: Outcome) -> bool:
    folder = hint.rpartition("/")[0]
    return f"{folder}/{PurePosixPath(folder).name}-{outcome.files.hints[hint].strip()}" not in outcome.documents


def _listed(hint: str, outcome: Outcome) -> str | None:
    """Say what a listing says in place of a hint."""
    folder, _, name = hint.rpartition("/")
    prefix = f"{folder}/{PurePosixPath(folder).name}-"
    ids = [int(path.removeprefix(prefix)) for path in outcome.documents if path.startswith(prefix)]
    return str(min(ids) if name == "EARLIEST" else max(ids)) if ids else None


def _files(evidence: Evidence) -> Iterator[str]:
    yield from kept_by_one(evidence, explained(evidence).keys())
    documents = evidence.ours.documents.keys() | evidence.engines.documents.keys()
    yield from (f"rewritten: {path}" for path in rewritten_files(evidence) if path not in documents)


def _said(evidence: Evidence) -> Iterator[str]:
    """What ours says that is lost, and left behind, is what is."""
    findings = evidence.answer.document.get("findings")
    if evidence.step.name not in (*MOVES, "delete-branch") or not findings:
        return
    if evidence.step.name == "rollback":
        yield from _said_of_a_rollback(evidence, findings["lost"])
    if any(root.error is not None for root in (*evidence.roots, *evidence.after)):
        return  # then the engine does not say what that root needs
    left_behind = _needed(evidence.roots) - _needed(evidence.after)
    there = left_behind & evidence.ours.files.paths
    newly_orphaned = findings["newly_orphaned"]["files"]
    if newly_orphaned != len(there):
        yield f"ours says that {newly_orphaned} files are left behind, and {len(there)} are: {sorted(there)[:5]}"


def _said_of_a_rollback(evidence: Evidence, lost: Mapping[str, Any]) -> Iterator[str]:
    folder = "" if evidence.step.branch == "main" else f"branch/branch-{evidence.step.branch}/"
    gone = evidence.before.documents.keys() - evidence.ours.documents.keys()
    for what, kind in (("snapshots", "snapshot"), ("changelogs", "changelog"), ("tags", "tag")):
        named = {f"{folder}{kind}/{kind}-{name}" for name in lost[what]}
        if named != {path for path in gone if path.startswith(f"{folder}{kind}/")}:
            yield f"ours says that {what} {lost[what]} are lost, and these are: {sorted(gone)}"
    before, after = (_newest(outcome, evidence.step.branch) for outcome in (evidence.before, evidence.ours))
    if lost["rows"] != before["totalRecordCount"] - after["totalRecordCount"]:
        yield f"ours says that {lost['rows']} rows are lost of {before['totalRecordCount']}: {after}"


def _needed(roots: tuple[Root, ...]) -> frozenset[str]:
    return frozenset().union(*(root.files for root in roots))


def _facts_of(evidence: Evidence) -> Counter[str]:
    """Count what a step held."""
    before, ours = evidence.before.documents.keys(), evidence.ours.documents.keys()
    return facts_of(evidence) + Counter(
        {
            "documents made": len(ours - before),
            "documents gone": len(before - ours),
            "roots of branches read": sum(root.branch != "main" for root in evidence.after),
        }
    )
