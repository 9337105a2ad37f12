"""What is asked of a table after a commit of ours, and of whom."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from lakesweep.storage.local.store import LocalStore
from tests.differential import ours
from tests.differential.commit_model import Contents, Model, contents_of, differences
from tests.differential.commit_readers import readers
from tests.differential.commit_tables import Kind
from tests.differential.engine import Engine
from tests.support.reader import TableReader


@dataclass(slots=True)
class Verdict:
    """What a history showed."""

    seed: int
    kind: Kind
    steps: list[str]
    problems: list[str] = field(default_factory=list)
    explained: Counter[str] = field(default_factory=Counter)
    facts: Counter[str] = field(default_factory=Counter)

    def summary(self) -> dict[str, object]:
        """Return what the summary of a session is made of."""
        problems = len(self.problems)
        return {"seed": self.seed, "problems": problems, "explained": dict(self.explained), "facts": dict(self.facts)}

    def __str__(self) -> str:
        return "\n".join(
            [
                f"seed {self.seed}: {len(self.problems)} problems after {len(self.steps)} steps",
                *(f"  {problem}" for problem in self.problems[:20]),
                f"the table: {json.dumps(self.kind.create, ensure_ascii=False)} {self.kind.shape}",
                *(f"  {number:3} {step}" for number, step in enumerate(self.steps)),
                f"run it again with: LAKESWEEP_DIFFERENTIAL_SEED={self.seed} make differential-commits COMMITS=1",
            ]
        )


_ONE = ("--retain-max", "1", "--retain-min", "1")
"""Expire all snapshots but the newest."""


@dataclass(frozen=True, slots=True)
class Judge:
    """Asks everybody what a table holds, and writes down what is wrong."""

    engine: Engine
    table: str
    kind: Kind
    model: Model
    verdict: Verdict
    control: Path

    @property
    def location(self) -> Path:
        return self.engine.location(self.table)

    def rows(self, when: str) -> None:
        """The engine's full scan gives the model's rows."""
        self._compare(
            f"the engine after {when}", contents_of(self.kind, self.engine("rows", **self.kind.at(self.table)))
        )

    def version(self, what: str, rows: Sequence[Sequence[str | None]], wanted: Contents) -> None:
        """Rows that the engine read of some version are those that it held."""
        self._compare(what, contents_of(self.kind, rows), wanted)

    def rows_and_filters(self) -> None:
        """And every filter of it gives what a look at each entry does."""
        judged = self.engine("judge", **self.kind.at(self.table))
        self.verdict.facts["filtered scans"] += judged["filters"]
        self._compare("the engine", contents_of(self.kind, judged["rows"]))
        for name in sorted(path.name.removeprefix("tag-") for path in (self.location / "tag").glob("tag-*")):
            read = contents_of(self.kind, self.engine("rows", table=self.table, tag=name))
            self._compare(f"tag {name}", read, self.model.tagged[name])
            self.verdict.facts["tags read"] += 1
        if self.kind.branch != "main":
            self._compare(
                "main", contents_of(self.kind, self.engine("rows", table=self.table)), self.model.tagged["begin"]
            )
        self.verdict.problems += [f"WRONG FILTER: {text}" for text in judged["wrong"]]

    def by_others(self, engines: Path) -> None:
        """Other implementations read the same, or cannot read what the engine itself left either."""
        if self.kind.branch != "main":
            return
        for name, read in readers().items():
            try:
                self._compare(name, read(self.location, self.kind))
                self.verdict.facts[f"read by {name}"] += 1
                continue
            except Exception as error:
                why = f"{type(error).__name__}: {error}"
            try:
                read(engines, self.kind)
            except Exception:
                self.verdict.facts[f"not readable by {name} at all"] += 1
            else:
                self.verdict.problems.append(f"{name} reads the engine's table and not ours: {why}")

    def by_ours(self, random: Random) -> None:
        """The tests' own reader and Lakesweep's commands find nothing wrong."""
        reader = TableReader(LocalStore(self.location))
        try:
            for root in reader.roots():
                reader.read(root)
                self.verdict.facts["roots read by the tests' reader"] += 1
        except NotImplementedError:
            self.verdict.facts["not readable by the tests' reader at all"] += 1
        quiet = ["--no-writers", "a test"]
        past = str(int(time.time() * 1000) - 100)  # files are dated by a clock that ticks a few times in this span
        words = random.choice(
            (
                ["check", str(self.location), "--all-roots"],
                ["remove-orphan-files", str(self.location), "--older-than", past, *quiet],
                ["expire-snapshots", str(self.location), "--branch", self.kind.branch, *_ONE],
            )
        )
        answer = ours.run([*words, "--json", "--control", str(self.control)])
        self.verdict.facts[f"{words[0]} after ours"] += 1
        if answer.exit_code != 0:
            self.verdict.problems.append(f"{words[0]} ended with {answer.exit_code}: {answer}")
        if words[0] == "remove-orphan-files":
            roots = self.engine("references", table=self.table)
            needed = {path for root in roots for path in (*root["files"], *root["changelog"])}
            planned = {str(action["path"]) for action in answer.document.get("actions", ())}
            self.verdict.facts["orphans found"] += len(planned)
            taken = needed & planned
            self.verdict.problems += [f"remove-orphan-files would take what a root needs: {path}" for path in taken]

    def by_our_expiry(self) -> None:
        """Lakesweep expires all snapshots but the newest, and nothing that is needed goes."""
        words = ["--branch", self.kind.branch, *_ONE, "--older-than", "0 s", "--execute", "--json"]
        answer = ours.run(["expire-snapshots", str(self.location), *words, "--control", str(self.control)])
        if answer.exit_code != 0:
            self.verdict.problems.append(f"expire-snapshots ended with {answer.exit_code}: {answer}")
        self.rows_and_filters()

    def _compare(self, who: str, found: Contents, wanted: Contents | None = None) -> None:
        wanted = self.model.contents if wanted is None else wanted
        expected = {partition: rows for partition, rows in wanted.items() if rows}
        self.verdict.problems += [f"{who}: {text}" for text in differences(expected, found)]
