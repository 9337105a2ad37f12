"""The engine's part of a play: it commits, expires, tags and rolls back, one thing after another, in a thread."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.differential.branch_steps import branches_of
from tests.differential.engine import Engine, EngineError
from tests.differential.live_cli import is_begun
from tests.differential.writing import branch_root, snapshot_ids

ENGINE_EXPIRES = ("expiry", "everything", "expiry alone")
"""Plays in which the engine may take files that ours goes back to: docs/safety.md says what is open then."""
CASTS = ("writer", "tags", "rollbacks", "ours twice", *ENGINE_EXPIRES)
"""What the engine does meanwhile. In `ours twice` another process of Lakesweep's works on the table as well."""

Commit = tuple[str, str]
"""Base and delta manifest list: the same wherever a snapshot was copied to."""


@dataclass(slots=True)
class Play:
    """What happened."""

    seed: int
    cast: str
    log: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    windows: Counter[str] = field(default_factory=Counter)
    """What docs/safety.md leaves open."""
    facts: Counter[str] = field(default_factory=Counter)

    def say(self, what: str) -> None:
        """Note what happened just now."""
        self.log.append(f"{time.monotonic():.3f} {what}")

    def __str__(self) -> str:
        return "\n".join([f"seed {self.seed} ({self.cast}): {len(self.problems)} problems", *self.problems, *self.log])


def commit_of(document: Mapping[str, Any]) -> Commit:
    """Return which commit a snapshot or tag is of."""
    return document["baseManifestList"], document["deltaManifestList"]


def documents_in(root: Path, kind: str = "snapshot") -> dict[str, dict[str, Any]]:
    """Read the snapshots or tags of a branch that are there: name -> document."""
    found = {}
    for path in (root / kind).glob(f"{kind}-*"):
        name = path.name.removeprefix(f"{kind}-")
        if kind == "snapshot" and not name.isdigit():
            continue  # somebody is writing it
        with contextlib.suppress(OSError, ValueError):
            found[name] = json.loads(path.read_text())
    return found


def tags_of(location: Path) -> list[str]:
    """List the tags of main."""
    return sorted(documents_in(location, "tag"))


def live_tags(location: Path) -> list[str]:
    """List the tags whose snapshots are there: of others the engine makes half a branch."""
    ids = snapshot_ids(location)
    return sorted(name for name, document in documents_in(location, "tag").items() if document["id"] in ids)


class Actor:
    """What the engine does. Nobody else may use it before `join`."""

    def __init__(
        self, engine: Engine, table: str, random: Random, play: Play, control: Path, *, is_append: bool
    ) -> None:
        self.engine = engine
        self.table = table
        self.location = engine.location(table)
        self.play = play
        self.is_append = is_append
        self.maintain: Callable[[], object] | None = None
        """What another process does now and then, which this thread waits for."""
        self.rows: dict[Commit, Any] = {}
        """What commits read as when they were new."""
        self.seen: dict[int, tuple[str, int]] = {}
        """Identifier of a commit -> branch and id."""
        self.acked: dict[int, str] = {}
        """Identifier of a commit that succeeded -> branch."""
        self.excused: set[int] = set()
        """Identifiers of commits that the engine itself may have taken away."""
        self.broken: set[str] = set()
        """Roots of which the engine took files."""
        self._random = random
        self._control = control
        self._pace_s = random.choice([0.01, 0.05, 0.3, 1.0])
        self._waits_for_ours = random.random() < 0.5
        self._number = 0
        self._stop = threading.Event()
        self._crash: BaseException | None = None
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Begin to act."""
        self._thread.start()

    def join(self) -> None:
        """End that."""
        self._stop.set()
        self._thread.join()
        if self._crash is not None:
            raise self._crash

    def next(self) -> int:
        """Return a number that nothing else has."""
        self._number += 1
        return self._number

    def do(self, command: str, branch: str = "main", **words: Any) -> Any:
        """Let the engine do something; `None` where it would not, which is its right while things move."""
        at = {} if branch == "main" else {"branch": branch}
        try:
            result = self.engine(command, table=self.table, **at, **words)
        except EngineError as error:
            self.play.facts[f"engine: {command} failed"] += 1
            self.play.say(f"engine {command} {branch} {words} failed: {error.error[:200]}")
            return None
        self.play.facts[f"engine: {command}"] += 1
        self.play.say(f"engine {command} {branch} {words} -> {str(result)[:80]}")
        return result

    def write(self, branch: str) -> None:
        """Commit a few rows, and note what the table reads then."""
        identifier, random = self.next(), self._random
        words: dict[str, Any] = {"n": random.randint(1, 5), "seed": random.randrange(1 << 20), "keys": [0, 40]}
        if not self.is_append and random.random() < 0.25:
            words["compact"] = True
        if self.do("write", branch, parts=[["a"], ["b"]], identifier=identifier, **words) is None:
            return
        self.acked[identifier] = branch
        self._note()
        if random.random() < 0.6:
            self._record(branch)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._act()
                self._rest()
        except BaseException as error:
            self._crash = error

    def _rest(self) -> None:
        """Wait for some time; in half of the plays until ours has begun with something, and a moment more."""
        if not self._waits_for_ours:
            self._stop.wait(self._random.random() * self._pace_s)
            return
        for _ in range(200):
            if is_begun(str(self._control)) or self._stop.wait(0.002):
                break
        self._stop.wait(self._random.random() * 0.06)

    def _act(self) -> None:
        draw, cast = self._random.random(), self.play.cast
        if self.maintain is not None and draw < 0.5:
            self.maintain()
        elif cast == "expiry alone" or (cast in ENGINE_EXPIRES and draw < 0.3):
            self._expire()
        elif cast in ("tags", "everything") and draw < 0.55:
            self._tag()
        elif (cast == "rollbacks" and draw < 0.2) or (cast == "everything" and draw > 0.95):
            self._rollback()
        elif cast == "everything" and draw > 0.92:
            self._branch()
        elif 0.88 < draw < 0.9:
            self.do("alter", add_columns=[[f"c{self.next()}", "STRING"]])
        else:
            self.write("main" if self._random.random() < 0.8 else self._random.choice(self._branches()))

    def _branches(self) -> list[str]:
        return ["main", *branches_of(self.location)]

    def _note(self) -> None:
        """Remember where each commit was seen first."""
        for branch in self._branches():
            for name, document in documents_in(branch_root(self.location, branch)).items():
                self.seen.setdefault(document["commitIdentifier"], (branch, int(name)))

    def _record(self, branch: str) -> None:
        """Note what the newest snapshot reads, if it stays until it was read."""
        root = branch_root(self.location, branch)
        at = {} if branch == "main" else {"branch": branch}
        with contextlib.suppress(OSError, ValueError, EngineError):
            newest = max(snapshot_ids(root))
            path = root / "snapshot" / f"snapshot-{newest}"
            before = path.read_text()
            rows = self.engine("scan", table=self.table, snapshot=newest, **at)
            if path.read_text() == before:
                self.rows.setdefault(commit_of(json.loads(before)), rows)

    def _expire(self) -> None:
        keep = self._random.randint(1, 5)
        self._note()
        self.do("expire", retain_max=keep, retain_min=keep, time_retain_s=0)
        first = min(snapshot_ids(self.location), default=0)
        self.excused.update(number for number, (branch, id) in self.seen.items() if branch == "main" and id < first)

    def _tag(self) -> None:
        tags, ids = tags_of(self.location), snapshot_ids(self.location)
        # Of a tag whose snapshot a rollback has just taken the engine takes the files, and that may be taken back.
        if tags and self.play.cast == "everything" and self._random.random() < 0.4:
            self.do("tag", op="delete", name=self._random.choice(tags))
            return
        of = {"snapshot": self._random.choice(ids)} if ids and self._random.random() < 0.6 else {}
        self.do("tag", op="create", name=f"t{self.next()}", **of)

    def _rollback(self) -> None:
        ids = snapshot_ids(self.location)
        if ids:
            self._take_away("rollback", snapshot=self._random.choice(ids[-4:]))

    def _branch(self) -> None:
        names, tags, draw = branches_of(self.location), live_tags(self.location), self._random.random()
        if names and draw < 0.3:
            self._take_away("branch", op="delete", name=self._random.choice(names))
        elif names and draw < 0.45:
            self._take_away("branch", op="fast_forward", name=self._random.choice(names))
        else:
            self.do("branch", op="create", name=f"e{self.next()}", **({"tag": tags[-1]} if tags else {}))

    def _take_away(self, command: str, **words: Any) -> None:
        """Do what takes commits away; whatever is there now may be gone by that."""
        self._note()
        self.do(command, **words)
        self.excused.update(self.acked)
