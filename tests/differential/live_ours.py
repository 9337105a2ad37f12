"""Lakesweep's part of a play: operations that move branches, in processes of which some are killed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.differential.branch_steps import branches_of
from tests.differential.live_actor import Play, tags_of
from tests.differential.live_cli import End, Forks, Line
from tests.differential.writing import snapshot_ids

AFTER_LEASE_MS = 700_000
"""So long after a process was killed, the next one finds its lease free."""
PASSES = 4
"""So many runs at most finish what was begun."""


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """A plan and what became of it."""

    document: dict[str, Any]
    status: str
    """How it ended; empty when it did not."""
    message: str
    """Why it is not done."""


class Ours:
    """What Lakesweep does to one table."""

    def __init__(
        self, forks: Forks, location: Path, control: Path, random: Random, play: Play, first: Ours | None = None
    ) -> None:
        """Begin.

        Args:
            forks: Where the command lines run.
            location: Of the table.
            control: The control location.
            random: Draws what is done.
            play: Takes what happens.
            first: Whose clock this one has, of two that work at once.
        """
        self.runs: list[str] = []
        self._forks = forks
        self._location = location
        self._control = control
        self._random = random
        self._play = play
        self._first = first or self
        self._turn = threading.Lock()
        """Of the second one. Time may only pass when that is not at work, as its own clock would not show it."""
        self._ahead_ms = 0
        self._wait_s = random.choice([0, 0.002, 0.006, 0.012])
        self._typical: dict[str, float] = {}
        self._number = 0

    def call(self, words: list[str], *, may_die: bool = False, slowly: bool = False, only_plans: bool = False) -> End:
        """Run a command line.

        Args:
            words: Without the table.
            may_die: It may be killed.
            slowly: Its requests take time.
            only_plans: It changes nothing.
        """
        line = [words[0], str(self._location), *words[1:], "--control", str(self._control), "--json"]
        line += [] if only_plans or words[0] == "execute" else ["--execute"]
        once_begun, kill_after_s = self._random.random() < 0.6, None
        if may_die:
            kill_after_s = self._random.random() * self._typical.get(words[0], 0.3) * (0.5 if once_begun else 1.1)
        wait_s, seed = self._wait_s if slowly else 0.0, self._random.randrange(1 << 30)
        end = self._forks.run(
            Line(
                line,
                str(self._location),
                str(self._control),
                self._first._ahead_ms,
                wait_s,
                seed,
                kill_after_s,
                once_begun,
            )
        )
        self._note(words, end)
        return end

    def _note(self, words: list[str], end: End) -> None:
        play, name, document = self._play, words[0], end.document
        if end.was_killed:
            with self._turn:
                self._ahead_ms += AFTER_LEASE_MS
            play.facts["killed under way" if self.is_begun() else "killed"] += 1
        else:
            self._typical[name] = (self._typical.get(name, end.seconds) + end.seconds) / 2
        refusal = document.get("refusal") or {}
        play.facts[f"ours: {name} {'killed' if end.was_killed else document.get('status')}"] += 1
        if "code" in refusal:
            play.facts[f"code: {name} {refusal['code']}"] += 1
        play.say(f"OURS {' '.join(words)} -> {end.status} {document.get('status')} {end.seconds:.3f} s {refusal}")
        if end.has_crashed:
            play.problems.append(f"CRASH: {words}: {end.status} {end.messages[-3000:]}")
        if document.get("run_id"):
            self.runs.append(document["run_id"])

    def round(self) -> None:
        """Do an operation, which is killed maybe, and what people do after that."""
        words, random = self._draw(), self._random
        if random.random() < 0.2:
            planned = self.call(words, only_plans=True).document
            if planned.get("plan_id"):
                words = ["execute", planned["plan_id"]]
                time.sleep(random.random() * 0.2)
        end = self.call(words, may_die=random.random() < 0.5, slowly=True)
        for _ in range(3):
            if not end.was_killed:
                break
            if random.random() < 0.2:
                self.call(["plans"], only_plans=True)
            again = random.choice([["maintain"], words, ["undo", self._recent()]])
            end = self.call(again, may_die=random.random() < 0.35, slowly=True)
        if self.runs and not end.was_killed and random.random() < 0.25:
            self.call(["undo", self.runs[-1]], may_die=random.random() < 0.4, slowly=True)

    def _draw(self) -> list[str]:
        random, draw = self._random, self._random.random()
        branches = branches_of(self._location)
        if draw < 0.4:
            return self._rollback(branches)
        if draw < 0.6 or not branches:
            return self._create_branch()
        if draw < 0.75:
            return ["delete-branch", random.choice(branches)]
        if draw < 0.92 or not self.runs:
            return ["fast-forward", random.choice(branches)]
        return ["undo", self._recent()]

    def _rollback(self, branches: list[str]) -> list[str]:
        random, tags, ids = self._random, tags_of(self._location), snapshot_ids(self._location)
        to = ["--snapshot", str(random.choice(ids[:-1] or [1]))]
        if tags and random.random() < 0.35:
            to = ["--tag", random.choice(tags)]
        lose = [word for tag in tags for word in ("--lose-tag", tag)] if random.random() < 0.8 else []
        branch = ["--branch", random.choice(branches)] if branches and random.random() < 0.15 else []
        return ["rollback", *to, *lose, *branch]

    def _create_branch(self) -> list[str]:
        random, tags, ids = self._random, tags_of(self._location), snapshot_ids(self._location)
        self._number += 1
        draw, words = random.random(), ["create-branch", f"o{self._number}"]
        if draw < 0.45 and tags:
            return [*words, "--tag", random.choice(tags)]
        return [*words, "--snapshot", str(random.choice(ids))] if draw < 0.85 and ids else words

    def _recent(self) -> str:
        return self._random.choice(self.runs[-3:] or ["20260101T000000Z-00000000"])

    def maintain(self) -> None:
        """Do what other maintainers do: tags, an expiry, a pass."""
        random, tags, ids = self._random, tags_of(self._location), snapshot_ids(self._location)
        keep, now_ms = str(random.randint(1, 4)), str(int(time.time() * 1000))
        self._number += 1
        of = ["--snapshot", str(random.choice(ids))] if ids else []
        words = random.choice(
            [
                ["create-tag", f"x{self._number}", *of],
                ["expire-snapshots", "--retain-min", keep, "--retain-max", keep, "--older-than", now_ms],
                ["delete-tag", random.choice(tags)] if tags else ["maintain"],
                ["maintain"],
            ]
        )
        with self._first._turn:
            self.call(words, slowly=True)

    def settle(self) -> None:
        """Finish what was begun."""
        for _ in range(PASSES):
            if not self.is_begun():
                return
            self.call(["maintain"])
        if self.is_begun():
            self._play.problems.append(f"UNSETTLED: an intent stays after {PASSES} passes")

    def is_begun(self) -> bool:
        """Tell whether somebody left an intent."""
        lease = next(self._control.glob("tables/*/lease.json"), None)
        return lease is not None and json.loads(lease.read_text())["intent"] is not None

    def plans(self) -> Iterator[StoredPlan]:
        """Yield all plans of the table."""
        ended: dict[str, Any] = {}
        for path in sorted(self._control.glob("tables/*/reports/*.json")):
            report = json.loads(path.read_text())
            if report["ended"]:
                ended[report["report"].get("plan_id")] = report
        for path in sorted(self._control.glob("tables/*/plans/*/header.json")):
            plan = json.loads(path.read_text())
            report = ended.get(plan["plan_id"])
            refusal = (report or {"report": {}})["report"].get("refusal") or {}
            yield StoredPlan(plan, report["ended"] if report else "", refusal.get("message", ""))
