"""One history of commits: the engine writes a table, Lakesweep drops partitions of it, and the engine goes on.

Each judged act is done twice, by the engine to a copy and by Lakesweep to the table. Afterwards both must hold the same
files, and of the table the engine must read what the model says: by a full scan, and by every filter that goes by what
manifests say of themselves. Other implementations read the same rows, Lakesweep's own commands find nothing wrong, and
then the engine appends, overwrites, drops, compacts, expires and rolls back. What differs needs a rule with its reason.
"""

from __future__ import annotations

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from lakesweep.storage.local.store import LocalStore
from tests.differential import ours
from tests.differential.commit_acts import Act, Maintainer, State, by_engine, draw_act, due, gone, state_of
from tests.differential.commit_model import Contents, Model, contents_of, differences
from tests.differential.commit_readers import readers
from tests.differential.commit_tables import DEFAULT_NAME, Kind, Partition, draw_kind
from tests.differential.commit_writers import Writers
from tests.differential.engine import Engine, EngineError
from tests.differential.ours import Answer
from tests.support.reader import TableReader

ROUNDS = 2
ACTS = ("drop-partition", "truncate", "expire-partitions")
"""What is judged."""
RULES: Mapping[str, str] = {
    "nothing to do": "no partition is meant: the engine commits a snapshot without changes, ours commits nothing",
    "comma": "a value holds a comma: the engine takes it for several values and drops others or fails",
    "timestamp keys": "the engine cannot drop what it finds expired where a key is a timestamp",
    "two defaults": "a string is spelt as null is: ours refuses to guess, the engine takes null",
}
"""Differences that are allowed."""


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


@dataclass(frozen=True, slots=True)
class Evidence:
    """One judged act."""

    kind: Kind
    act: Act
    before: State
    engines: State
    refusal: str | None
    """Why the engine would not."""
    ours: State
    answer: Answer
    documents: tuple[Mapping[str, Any], Mapping[str, Any]]
    """The newest snapshot of the engine's table, and of ours."""

    @property
    def expected(self) -> frozenset[Partition]:
        """Return the partitions that must be gone."""
        return gone(self.kind, self.act, self.before)


def run_commit_history(engine: Engine, work: Path, seed: int, maintainer: Maintainer, name: str = "commits") -> Verdict:
    """Draw a history and judge its acts; it ends with the first problem, whose table stays for inspection."""
    random = Random(seed)
    kind = draw_kind(random)
    table, copy = f"d.{name}{seed}", f"d.{name}{seed}e"
    location = engine.location(table)
    model = Model(kind)
    writers = Writers(engine, table, kind, random, model)
    verdict = Verdict(seed, kind, writers.done)
    verdict.facts[kind.shape] += 1
    writers.begin()
    judge = _Judge(engine, table, kind, model, verdict, work / "control" / f"{name}{seed}")
    for number in range(ROUNDS):
        if number:
            writers.anything()
        act = draw_act(random, kind, (partition for partition, rows in model.contents.items() if rows))
        writers.done.append(f"JUDGED: {act}")
        verdict.facts[act.name] += 1
        evidence = _do(engine, table, copy, kind, act, maintainer, judge.control)
        verdict.problems += problems(evidence)
        verdict.explained.update(explained(evidence))
        verdict.facts["partitions gone"] += len(evidence.before.partitions - evidence.ours.partitions)
        if not verdict.problems:
            model.drop((evidence.before.partitions - evidence.ours.partitions).__contains__)
            model.committed(evidence.ours.snapshot)
            judge.rows_and_filters()
            judge.by_others(engine.location(copy))
            judge.by_ours(random)
        shutil.rmtree(engine.location(copy), ignore_errors=True)
        if verdict.problems:
            break
        _on_top(writers, judge, sorted(evidence.before.partitions - evidence.ours.partitions, key=repr))
        if verdict.problems:
            break
    if not verdict.problems:
        judge.by_our_expiry()
    if not verdict.problems:
        shutil.rmtree(location, ignore_errors=True)
    return verdict


def _do(engine: Engine, table: str, copy: str, kind: Kind, act: Act, maintainer: Maintainer, control: Path) -> Evidence:
    location, copied = engine.location(table), engine.location(copy)
    before = state_of(engine("live", table=table))
    shutil.copytree(location, copied)
    refusal = None
    try:
        by_engine(engine, copy, kind, act)
    except EngineError as error:
        refusal = error.error
    answer = maintainer(location, kind, act, control)
    engines, ours = state_of(engine("live", table=copy)), state_of(engine("live", table=table))
    documents = _newest(copied, engines.snapshot), _newest(location, ours.snapshot)
    return Evidence(kind, act, before, engines, refusal, ours, answer, documents)


def _newest(location: Path, snapshot: int | None) -> Mapping[str, Any]:
    return json.loads((location / "snapshot" / f"snapshot-{snapshot}").read_text()) if snapshot is not None else {}


def _on_top(writers: Writers, judge: _Judge, touched: list[Partition]) -> None:
    """Let the engine do everything on top of our commit."""
    steps = writers.on_top(touched)
    for number, step in enumerate(steps):
        try:
            step()
        except EngineError as error:
            judge.verdict.problems.append(f"the engine fails on top at {writers.done[-1]}: {error}")
            return
        judge.verdict.facts["steps on top"] += 1
        if number % 3 == 2 or number >= len(steps) - 3:
            judge.rows(writers.done[-1])
        if judge.verdict.problems:
            return
    judge.rows_and_filters()


# ------------------------------------------------------------------------------------------------ comparison


def problems(evidence: Evidence) -> Iterator[str]:
    """Say everything that is wrong."""
    before, ours, expected = evidence.before, evidence.ours, evidence.expected
    rules = frozenset(explained(evidence))
    said = f"{evidence.answer.messages} {json.dumps(evidence.answer.document, ensure_ascii=False)[:1500]}"
    if "two defaults" in rules:
        if ours != before:
            yield "ours refused and committed all the same"
        return
    if evidence.refusal is not None and evidence.answer.messages == evidence.refusal:
        return  # the engine stands beside itself
    if evidence.answer.exit_code != 0:
        yield f"ours ended with {evidence.answer.exit_code}; the engine: {evidence.refusal} | {said}"
        return
    left = frozenset(file for file in before.files if file[0] not in expected)
    if ours.files != left:
        yield f"ours left other files: too many {sorted(ours.files - left, key=repr)[:5]}, lost " + (
            f"{sorted(left - ours.files, key=repr)[:5]}; to be gone: {sorted(expected, key=repr)}; {said}"
        )
    index = frozenset(file for file in before.index if file[0] not in expected)
    if ours.index != index:
        yield f"ours left other index files: {sorted(ours.index ^ index, key=repr)[:5]}"
    if not expected and ours.snapshot != before.snapshot and evidence.answer.document:  # the engine has none
        yield "ours committed though nothing is meant"
    if not rules & {"comma", "timestamp keys"}:
        if evidence.refusal is not None:
            yield f"the engine refused: {evidence.refusal}"
        elif (evidence.engines.files, evidence.engines.index) != (ours.files, ours.index):
            yield f"the engine left other files: {sorted(ours.files ^ evidence.engines.files, key=repr)[:6]}"
        elif "nothing to do" not in rules:
            yield from _documents(evidence)


_SAME = ("version", "schemaId", "commitIdentifier", "commitKind", "totalRecordCount", "deltaRecordCount", "watermark")
_SAME += ("statistics", "nextRowId", "changelogManifestList", "changelogRecordCount", "properties", "id")


def _documents(evidence: Evidence) -> Iterator[str]:
    """Both snapshots say the same of what they have in common."""
    theirs, own = evidence.documents
    for key in _SAME:
        if theirs.get(key) != own.get(key):
            yield f"the snapshot's {key} is {own.get(key)}, the engine's is {theirs.get(key)}"
    if ("indexManifest" in theirs) != ("indexManifest" in own):
        yield f"only one snapshot has an index manifest: {theirs.get('indexManifest')} {own.get('indexManifest')}"


def explained(evidence: Evidence) -> Iterator[str]:
    """Yield the rules by which the engine or ours may differ here."""
    act, kind, expected = evidence.act, evidence.kind, evidence.expected
    theirs = evidence.before.partitions - evidence.engines.partitions
    if not expected and evidence.ours.snapshot == evidence.before.snapshot != evidence.engines.snapshot:
        yield "nothing to do"
    if _asks_for_two(kind, act, evidence.before) and evidence.answer.exit_code in ours.REFUSED:
        yield "two defaults"
    if act.name != "expire-partitions" or (theirs == expected and evidence.refusal is None):
        return
    if any("," in (value or "") for partition in due(kind, act, evidence.before) for value in partition):
        yield "comma"
    elif evidence.refusal and any("TIMESTAMP" in type for _, type in kind.keys):
        yield "timestamp keys"


def _asks_for_two(kind: Kind, act: Act, before: State) -> bool:
    """Tell whether a spec names null, and a string of the same spelling is there too."""
    name = kind.options.get("partition.default-name", DEFAULT_NAME)
    for spec in act.specs:
        for position, key in enumerate(kind.names):
            there = {partition[position] for partition in before.partitions}
            if spec.get(key, "") in (None, name) and {None, name} <= there:
                return True
    return False


# ------------------------------------------------------------------------------------------------ judges


@dataclass(frozen=True, slots=True)
class _Judge:
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
        self._compare(f"the engine after {when}", contents_of(self.kind, self.engine("rows", table=self.table)))

    def rows_and_filters(self) -> None:
        """And every filter of it gives what a look at each entry does."""
        judged = self.engine("judge", table=self.table)
        self.verdict.facts["filtered scans"] += judged["filters"]
        self._compare("the engine", contents_of(self.kind, judged["rows"]))
        for name in sorted(path.name.removeprefix("tag-") for path in (self.location / "tag").glob("tag-*")):
            read = contents_of(self.kind, self.engine("rows", table=self.table, tag=name))
            expected = {partition: rows for partition, rows in self.model.tagged[name].items() if rows}
            self.verdict.problems += [f"tag {name}: {text}" for text in differences(expected, read)]
            self.verdict.facts["tags read"] += 1
        self.verdict.problems += [f"WRONG FILTER: {text}" for text in judged["wrong"]]

    def by_others(self, engines: Path) -> None:
        """Other implementations read the same, or cannot read what the engine itself left either."""
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
        words = random.choice(
            (
                ["check", str(self.location), "--all-roots"],
                ["remove-orphan-files", str(self.location), "--older-than", str(int(time.time() * 1000)), *quiet],
                ["expire-snapshots", str(self.location), "--retain-max", "1", "--retain-min", "1"],
            )
        )
        answer = ours.run([*words, "--json", "--control", str(self.control)])
        self.verdict.facts[f"{words[0]} after ours"] += 1
        if answer.exit_code != 0:
            self.verdict.problems.append(f"{words[0]} ended with {answer.exit_code}: {answer}")
        if words[0] == "remove-orphan-files":
            roots = self.engine("references", table=self.table)
            needed = {path for root in roots for path in (*root["files"], *root["changelog"])}
            taken = needed & {str(action["path"]) for action in answer.document.get("actions", ())}
            self.verdict.problems += [f"remove-orphan-files would take what a root needs: {path}" for path in taken]

    def by_our_expiry(self) -> None:
        """Lakesweep expires all snapshots but the newest, and nothing that is needed goes."""
        words = ["--retain-max", "1", "--retain-min", "1", "--older-than", "0 s", "--execute", "--json"]
        answer = ours.run(["expire-snapshots", str(self.location), *words, "--control", str(self.control)])
        if answer.exit_code != 0:
            self.verdict.problems.append(f"expire-snapshots ended with {answer.exit_code}: {answer}")
        self.rows_and_filters()

    def _compare(self, who: str, found: Contents) -> None:
        expected = {partition: rows for partition, rows in self.model.contents.items() if rows}
        self.verdict.problems += [f"{who}: {text}" for text in differences(expected, found)]
