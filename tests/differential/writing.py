"""Histories become tables: picks are resolved, the engine runs the steps, and the commits are dated anew."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from tests.differential.engine import Engine
from tests.differential.history import Pick, Step

TICK_MS = 10 * 60 * 1000
"""Commits are dated half a tick off the grid and cutoffs lie on it, so the milliseconds a run takes decide nothing."""


@dataclass(frozen=True, slots=True)
class Applied:
    """A history that was written."""

    table: str
    steps: tuple[Step, ...]
    """With every pick resolved, and without the steps that had nothing to pick from."""
    anchor_ms: int
    """The instant just after the last commit, after the table was dated anew."""


def apply(
    engine: Engine, table: str, steps: Sequence[Step], half_way: Callable[[Path], object] | None = None
) -> Applied:
    """Write a history as `table` and date its commits anew, ending now.

    Args:
        engine: The writer.
        table: Its name.
        steps: What happens to it.
        half_way: Called with the table's folder in the middle of the history.
    """
    location = engine.location(table)
    anchor_ms = int(time.time() * 1000)
    applied: list[Step] = []
    for number, step in enumerate(steps):
        if half_way is not None and number == len(steps) // 2 and location.exists():
            half_way(location)
        resolved = _resolve(step, location)
        if resolved is None:
            continue
        match resolved.command:
            case "retime":
                retime(location, anchor_ms, **resolved.arguments)
            case "hint":
                _write_hint(location, **resolved.arguments)
            case _:
                engine(resolved.command, table=table, **resolved.arguments)
        applied.append(resolved)
    return Applied(table, tuple(applied), anchor_ms)


def external_root(location: Path) -> Path:
    """Say where the files of a table lie that its options send elsewhere."""
    return location.parents[2] / "external" / location.name


def branch_root(location: Path, branch: str | None) -> Path:
    """Say where the roots of a branch lie."""
    return location if branch in (None, "main") else location / "branch" / f"branch-{branch}"


def snapshot_ids(root: Path) -> list[int]:
    """List the snapshots of a branch, ascending."""
    names = (path.name.removeprefix("snapshot-") for path in (root / "snapshot").glob("snapshot-*"))
    return sorted(int(name) for name in names if name.isdigit())


def _resolve(step: Step, location: Path) -> Step | None:
    """Replace picks by what exists; `None` when there is nothing to pick from."""
    arguments = dict(step.arguments)
    if step.command == "create":
        external = external_root(location).as_uri()
        arguments["options"] = {k: v.replace("{external}", external) for k, v in arguments["options"].items()}
    if isinstance(arguments.get("branch"), Pick):
        branch = _picked(arguments["branch"], location)
        if branch is None:
            return None
        arguments["branch"] = branch
    root = branch_root(location, arguments.get("branch"))
    for key, value in arguments.items():
        if isinstance(value, Pick):
            found = _picked(value, root)
            if found is None:
                return None
            arguments[key] = found
    return replace(step, arguments=arguments)


def _picked(pick: Pick, root: Path) -> int | str | None:
    found: list[int] | list[str]
    if pick.kind == "snapshot":
        found = snapshot_ids(root)
    elif pick.kind == "tag":
        found = sorted(path.name.removeprefix("tag-") for path in (root / "tag").glob("tag-*"))
    else:
        branches = (path for path in (root / "branch").glob("branch-*") if pick.kind == "branch" or snapshot_ids(path))
        found = sorted(path.name.removeprefix("branch-") for path in branches)
    return found[int(pick.at * len(found))] if found else None


def retime(location: Path, anchor_ms: int, *, seed: int, skew: bool) -> None:
    """Date all commits anew: the last one half a tick before the anchor, the others some ticks apart.

    Commits of one test lie milliseconds apart. Ten minutes apart, the time rules of an expiry have something to decide,
    and the second that passes between the engine's run and ours decides nothing.
    """
    documents: dict[str, list[Path]] = {}
    times: dict[str, tuple[int, int]] = {}
    roots = [location, *(location / "branch").glob("branch-*")]
    for path in (
        p for root in roots for kind in ("snapshot", "tag", "changelog") for p in root.glob(f"{kind}/{kind}-*")
    ):
        if path.is_dir():
            continue  # of success files
        document = json.loads(path.read_text())
        commit = document["deltaManifestList"]  # one commit, wherever it was copied to
        documents.setdefault(commit, []).append(path)
        times[commit] = (document["timeMillis"], document["id"])
    random = Random(seed)
    gaps = [0, 1, 1, 1, 2, 3, 6, *([-2] if skew else [])]
    at_ms = anchor_ms - TICK_MS // 2
    for commit in sorted(times, key=times.__getitem__, reverse=True):
        for path in documents[commit]:
            path.write_text(re.sub(r'("timeMillis"\s*:\s*)\d+', rf"\g<1>{at_ms}", path.read_text()))
        at_ms = min(at_ms - random.choice(gaps) * TICK_MS, anchor_ms - TICK_MS // 2)


def _write_hint(location: Path, name: str, id: int | None) -> None:
    path = location / "snapshot" / name
    if id is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(str(id))
