"""One history with rollbacks as latest: Lakesweep commits old versions on top, and the engine goes on, and expires.

After each rollback the engine and other implementations must read exactly the rows of the target. Then the engine
appends, overwrites, compacts, deletes tags and expires, to any point: before, at and behind the snapshots that deleted
what came back. After each of these, every version that is left must have its rows. Only what Lakesweep asks for is
heeded: the tags that it makes stay. In each third history Lakesweep expires and deletes tags instead, and then it may
delete any tag, its own too.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from unittest.mock import patch

from tests.differential.commit_judge import Judge, Verdict
from tests.differential.commit_model import Contents, Model
from tests.differential.commit_tables import draw_kind
from tests.differential.commit_writers import Writers
from tests.differential.engine import Engine, EngineError
from tests.differential.ours import Answer, operate
from tests.differential.writing import branch_root, snapshot_ids

ROUNDS = 3
EXPECTED = ("unsafe_lives", "only_main", "row_ids")
"""Why a rollback may be refused in these histories."""
PREFIX = "rollback-to-as-latest-"

RollBack = Callable[[Path, dict[str, object], str, Path], Answer]
"""Commits an old version: the table, the arguments, the branch, and where notes are kept."""


def by_ours(location: Path, words: dict[str, object], branch: str, control: Path) -> Answer:
    """Let Lakesweep do it; nobody else writes meanwhile, so it need not wait before it looks again."""
    words = {"as_latest": True, "catalog_type": "filesystem", "catalog_lock": True, **words}
    with patch("lakesweep.commit.loop.SEEN_AGAIN_S", 0.0):
        return operate(location, "rollback", words, branch=branch, control=control)


class History:
    """One table, its writers and its judge."""

    def __init__(self, engine: Engine, work: Path, seed: int, roll_back: RollBack = by_ours) -> None:
        self.random = Random(seed)
        kind = draw_kind(self.random)
        self.engine, self.table, self.kind, self.roll_back = engine, f"d.latest{seed}", kind, roll_back
        self.location = engine.location(self.table)
        self.model = Model(kind)
        self.writers = Writers(engine, self.table, kind, self.random, self.model)
        self.verdict = Verdict(seed, kind, self.writers.done)
        self.control = work / "control" / f"latest{seed}"
        self.is_ours = seed % 3 == 0
        """Lakesweep expires and deletes tags, and the engine does not."""
        self.deleted: dict[str, Contents] = {}
        """What deleted tags held; a rollback makes one again that its engine needs."""
        self.judge = Judge(engine, self.table, kind, self.model, self.verdict, self.control)

    def run(self) -> Verdict:
        """Play the history; it ends with the first problem, whose table stays for inspection."""
        self.verdict.facts[self.kind.shape] += 1
        self.writers.begin()
        for _ in range(ROUNDS):
            for _ in range(self.random.randint(0, 4)):
                self._anything()
            self._roll_back()
            for _ in range(self.random.randint(2, 6)):
                if self.verdict.problems:
                    return self.verdict
                self._anything()
        self._expire(1)
        if not self.verdict.problems:
            self.judge.rows_and_filters()
            self.judge.by_our_expiry()
        if not self.verdict.problems:
            shutil.rmtree(self.location, ignore_errors=True)
        return self.verdict

    def _anything(self) -> None:
        """Do what writers and the engine's maintenance do."""
        draw = self.random.random()
        try:
            if draw < 0.22:
                self._expire(self.random.randint(1, 6))
            elif draw < 0.3:
                self._delete_tag()
            elif draw < 0.4 and self.kind.branch == "main":
                self.writers.tag()
            elif draw < 0.43:
                self._withdraw()
            else:
                self.writers.anything()
        except EngineError as error:
            self._problem(f"the engine fails at {self.writers.done[-1]}: {error}")

    def _roll_back(self) -> None:
        words, expected = self._draw_target()
        answer = self._call(words)
        code = self._code(answer)
        if code is not None:
            self.verdict.facts[f"refused: {code}"] += 1
            if code not in EXPECTED or (code == "row_ids") != ("row ids" in self.kind.shape):
                self._problem(f"refused: {answer}")
            return
        if answer.exit_code != 0:
            self._problem(f"ended with {answer.exit_code}: {answer}")
            return
        self.verdict.facts[f"rollback {answer.document['status']}"] += 1
        self.model.contents = expected
        newest = max(snapshot_ids(branch_root(self.location, self.kind.branch)))
        self.model.committed(newest)
        for tag in self._tags():
            if tag not in self.model.tagged:  # it keeps the target or the new snapshot, or was missed of an earlier run
                self.model.tagged[tag] = self.deleted.get(tag, expected)
        self.judge.rows_and_filters()
        self.judge.by_others(self.location)
        self.judge.by_ours(self.random)
        if answer.document["status"] == "done":
            self._look(answer)
        self._versions()

    def _look(self, answer: Answer) -> None:
        """Compare what was said with what there is."""
        commits = answer.document["commits"]
        self.verdict.facts["files back"] += commits["back"]["files"]
        self.verdict.facts["files gone"] += commits["gone"]["files"]
        self.verdict.facts["index back"] += commits["index"]
        staying = [tag for tag in self._tags() if tag.endswith(answer.document["run_id"])]
        if sorted(commits["kept_by"]) != staying:
            self._problem(f"the tags that are said to stay: {commits['kept_by']}, and there are {staying}")
        self.verdict.facts["without tags"] += not staying

    def _draw_target(self) -> tuple[dict[str, object], Contents]:
        there = snapshot_ids(branch_root(self.location, self.kind.branch))
        known = [id for id in sorted(there) if id in self.model.at]
        tags = [tag for tag in self._tags() if self.kind.branch == "main"]
        if tags and self.random.random() < 0.3:
            tag = self.random.choice(tags)
            return {"tag": tag}, self.model.tagged[tag]
        snapshot = self.random.choice(known)
        return {"snapshot": str(snapshot)}, self.model.at[snapshot]

    def _call(self, words: dict[str, object]) -> Answer:
        self.writers.done.append(f"ROLLBACK AS LATEST {words}")
        return self.roll_back(self.location, words, self.kind.branch, self.control)

    def _expire(self, keep: int) -> None:
        """Let the engine expire to any point, and look at all that is left."""
        if self.is_ours:
            arguments = {"retain_max": keep, "retain_min": keep, "older_than": "0 s"}
            self._maintain("expire-snapshots", arguments)
        else:
            self.writers.expire(keep)
            self.verdict.facts["expiries by the engine"] += 1
        self._versions()

    def _maintain(self, operation: str, arguments: Mapping[str, object]) -> None:
        """Let Lakesweep do its part."""
        self.writers.done.append(f"ours: {operation} {arguments}")
        answer = operate(self.location, operation, arguments, branch=self.kind.branch, control=self.control)
        self.verdict.facts[f"ours: {operation}"] += 1
        if answer.exit_code != 0:
            self._problem(f"{operation} ended with {answer.exit_code}: {answer}")

    def _withdraw(self) -> None:
        """Let the engine roll back as usual, which deletes later snapshots and tags."""
        self.writers.roll_back()
        newest = max(snapshot_ids(branch_root(self.location, self.kind.branch)))
        self.model.at = {id: rows for id, rows in self.model.at.items() if id <= newest}
        if self.kind.branch == "main":
            self.model.tagged = {tag: rows for tag, rows in self.model.tagged.items() if tag in self._tags()}
        self._versions()

    def _delete_tag(self) -> None:
        """Delete a tag; the engine deletes none that Lakesweep asked to keep."""
        free = [tag for tag in self._tags() if (self.is_ours or not tag.startswith(PREFIX)) and tag != "begin"]
        if not free:
            return
        tag = self.random.choice(free)
        if self.is_ours:
            self._maintain("delete-tag", {"tag": [tag]})
        else:
            self.engine("tag", table=self.table, op="delete", name=tag)
            self.writers.done.append(f"delete tag {tag}")
            self.verdict.facts["tags deleted by the engine"] += 1
        self.deleted[tag] = self.model.tagged.pop(tag)
        self._versions()

    def _versions(self) -> None:
        """The engine reads every version that is left, and each has its rows."""
        at = self.kind.at(self.table)
        for id in sorted(snapshot_ids(branch_root(self.location, self.kind.branch))):
            if id in self.model.at:
                self._read(f"snapshot {id}", self.model.at[id], {**at, "snapshot": id})
        if self.kind.branch == "main":
            for tag in self._tags():
                self._read(f"tag {tag}", self.model.tagged[tag], {"table": self.table, "tag": tag})

    def _read(self, what: str, wanted: Contents, words: dict[str, object]) -> None:
        self.verdict.facts["versions read"] += 1
        try:
            self.judge.version(what, self.engine("rows", **words), wanted)
        except EngineError as error:
            self._problem(f"{what} cannot be read: {str(error)[:600]}")

    def _tags(self) -> list[str]:
        folder = branch_root(self.location, self.kind.branch) / "tag"
        return sorted(path.name.removeprefix("tag-") for path in folder.glob("tag-*"))

    def _code(self, answer: Answer) -> str | None:
        refusal = answer.document.get("refusal")
        return refusal["code"] if refusal else None

    def _problem(self, text: str) -> None:
        self.verdict.problems.append(text)
