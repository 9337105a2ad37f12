"""What must be true of a table after a play, now that nobody works on it.

Every snapshot and tag of every branch reads in the engine, and reads what its commit read when it was new. Hints name
what is there. Each commit that succeeded is there, or has expired, or a plan of ours that says so took it. What
docs/safety.md leaves open is counted: ids that are missing below a commit that came after the last look, files and
documents that an expiry of the engine takes which began before a rollback, and a commit to a branch that is gone.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.differential.branch_steps import branches_of
from tests.differential.live_actor import ENGINE_EXPIRES, Actor, Play, commit_of, documents_in
from tests.differential.live_ours import Ours, StoredPlan
from tests.differential.writing import branch_root, snapshot_ids

Reads = Mapping[str, Any]

_NOT_REVERTED = ("is kept", "Not reverted")
"""What the message of a plan says when the plan took a commit and did not bring it back."""


def judge(actor: Actor, ours: Ours, play: Play) -> None:
    """Note what is wrong with a table at rest, and what was left open."""
    if not snapshot_ids(actor.location):
        _return_from_nothing(actor, ours, play)
    _set_aside(actor.location, play)
    read_all(actor, play, actor.engine("scan_all", table=actor.table))
    for branch in ("main", *branches_of(actor.location)):
        _check_hints(branch_root(actor.location, branch), branch, play)
    _check_commits(actor, ours, play)
    for plan in ours.plans():
        files = [each["path"] for each in plan.document["actions"] if each["kind"] in ("data", "manifest", "index")]
        if files and actor.maintain is None:
            play.problems.append(f"FILES: plan {plan.document['plan_id']} is about {files[:3]}")


def _return_from_nothing(actor: Actor, ours: Ours, play: Play) -> None:
    """Main has no snapshot: an expiry that had chosen its range before a rollback took the target as well."""
    moved = [plan for plan in ours.plans() if plan.status == "done" and plan.document["branch"] == "main"]
    if play.cast not in ENGINE_EXPIRES or not moved:
        play.problems.append("EMPTY: main has no snapshot")
        return
    play.windows["the engine's expiry took the last snapshot"] += 1
    for name in sorted(documents_in(actor.location, "tag")):
        if ours.call(["rollback", "--tag", name]).status == 0:
            play.windows["and a tag brought it back"] += 1
            return
    actor.broken.add("main/snapshot-")


def _set_aside(location: Path, play: Play) -> None:
    """Move branches away that nobody can open: the engine fails on a table that has one."""
    for name in branches_of(location):
        root = branch_root(location, name)
        if any((root / "schema").glob("schema-*")):
            continue
        there = sorted(path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
        play.windows["a commit came to a branch that was gone" if there else "a branch's empty folder is left"] += 1
        play.say(f"branch {name} has no schema: {there}")
        aside = _aside(location)
        aside.mkdir(exist_ok=True)
        shutil.move(root, aside / f"{len(list(aside.iterdir()))}-{name}")


def _aside(location: Path) -> Path:
    return location.parent / f"{location.name}.aside"


def forget(location: Path) -> None:
    """Remove a table, and what was set aside of it."""
    shutil.rmtree(location, ignore_errors=True)
    shutil.rmtree(_aside(location), ignore_errors=True)


def read_all(actor: Actor, play: Play, reads: Reads) -> None:
    """Note which roots do not read, or read something else than they did."""
    location = actor.location
    references = actor.engine("references", table=actor.table)
    roots = {f"{root['branch']}/{root['kind']}-{root['name']}": root for root in references}
    for name, document in _roots(location):
        root, rows = roots.get(name), reads.get(name)
        if root is None or rows is None:
            play.problems.append(f"HIDDEN: {name} is there, and the engine does not see it")
            continue
        missing = [path for path in root.get("files", ()) if not (location / path).exists()]
        if missing or "error" in root or isinstance(rows, str):
            _note_broken(actor, play, name, f"{rows} {root.get('error')} missing {missing[:5]}")
            continue
        expected = actor.rows.get(commit_of(document))
        if expected not in (None, rows):
            play.problems.append(f"ROWS: {name} reads {rows}, expected {expected}")
        if actor.is_append and rows["rows"] != document["totalRecordCount"]:
            play.problems.append(f"ROWS: {name} reads {rows}, its document says {document['totalRecordCount']}")
        play.facts["roots read"] += 1
        play.facts["roots read whose rows were known"] += expected is not None


def _roots(location: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for branch in ("main", *branches_of(location)):
        for kind in ("snapshot", "tag"):
            for name, document in documents_in(branch_root(location, branch), kind).items():
                yield f"{branch}/{kind}-{name}", document


def _note_broken(actor: Actor, play: Play, name: str, how: str) -> None:
    """Note a root that does not read. No plan of ours is about files where the engine expires."""
    if play.cast not in ENGINE_EXPIRES:
        play.problems.append(f"BROKEN: {name}: {how}")
        return
    branch, _, root = name.partition("/")
    what = _what(branch_root(actor.location, branch), root)
    if name not in actor.broken:
        play.windows[f"the engine's expiry took files of {what} of {'main' if branch == 'main' else 'a branch'}"] += 1
    play.say(f"{name}: {how}")
    actor.broken.add(name)


def _what(folder: Path, root: str) -> str:
    """Say which kind of root of a branch one is, by the name of its document."""
    kind, _, name = root.partition("-")
    if kind == "tag":
        return "a tag"
    earliest = folder / "snapshot" / "EARLIEST"
    if earliest.exists() and int(name) < int(earliest.read_text()):
        return "a snapshot that EARLIEST hides from the engine"
    return "the newest snapshot" if int(name) == max(snapshot_ids(folder)) else "a snapshot"


def _check_hints(root: Path, branch: str, play: Play) -> None:
    ids = snapshot_ids(root)
    if ids and ids != list(range(ids[0], ids[-1] + 1)):
        play.windows["ids are missing"] += 1
        play.say(f"{branch} has {ids}")
    for name in ("LATEST", "EARLIEST"):
        path = root / "snapshot" / name
        if not ids or not path.exists():
            continue
        said = path.read_text()
        if said.isdigit() and int(said) in ids:
            if int(said) != (ids[-1] if name == "LATEST" else ids[0]):
                play.facts[f"{name} lags"] += 1
                play.say(f"{branch} {name} says {said} of {ids}")
        elif name == "EARLIEST" and said.isdigit() and play.cast in (*ENGINE_EXPIRES, "rollbacks"):
            play.facts["EARLIEST names a snapshot that is gone"] += 1  # then engines look for themselves
        else:
            play.problems.append(f"HINT: {branch} {name} says {said!r}, there are {ids}")


def _check_commits(actor: Actor, ours: Ours, play: Play) -> None:
    location = actor.location
    there = {document["commitIdentifier"] for _, document in _roots(location)}
    there |= {json.loads(path.read_text())["commitIdentifier"] for path in _aside(location).glob("*/*/snapshot-*")}
    taken = _taken(ours)
    expires = play.cast in ENGINE_EXPIRES or actor.maintain is not None
    for identifier, branch in actor.acked.items():
        if identifier in there or identifier in actor.excused:
            continue
        seen_in, number = actor.seen.get(identifier, (branch, 0))
        ids = snapshot_ids(branch_root(location, seen_in))
        plans = taken.get(identifier, [])
        if any(plan.status == "done" or any(word in plan.message for word in _NOT_REVERTED) for plan in plans):
            play.facts["commits that a plan took"] += 1
        elif expires and (not ids or number < ids[0] or play.cast == "everything"):  # the engine's hints hide some
            play.facts["commits that expired"] += 1
        else:
            said = [(plan.document["plan_id"], plan.status, plan.message) for plan in plans]
            play.problems.append(f"COMMIT: {identifier} to {branch} succeeded and is gone; plans that have it: {said}")


def _taken(ours: Ours) -> dict[int, list[StoredPlan]]:
    """Return the identifiers of the commits whose documents a plan takes or replaces, with those plans."""
    found: dict[int, list[StoredPlan]] = {}
    for plan in ours.plans():
        for action in plan.document["actions"]:
            text = action["body"] if action["action"] == "delete" else action.get("former")
            with contextlib.suppress(ValueError, TypeError, KeyError):
                found.setdefault(json.loads(text)["commitIdentifier"], []).append(plan)
    return found
