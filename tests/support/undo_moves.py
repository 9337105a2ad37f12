"""Runs that moved a branch, and how they are undone."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from lakesweep.errors import ObjectNotFoundError
from tests.support.fast_forwards import SCENES, documents
from tests.support.table_builder import TableBuilder
from tests.support.world import World

Scene = Callable[[TableBuilder], None]


def eight(table: TableBuilder) -> None:
    """Eight snapshots that replace each other, with changelogs that outlive snapshots, success files and hints."""
    table.commit("+A1", "+K")
    for number in range(2, 9):
        table.commit(f"-A{number - 1}", f"+A{number}", user=f"user-{number % 3}")
    for name, snapshot in (("four", 4), ("seven", 7), ("eight", 8)):
        table.tag(name, snapshot=snapshot)
        table.store.put(f"tag/tag-success-file/{name}_SUCCESS", b"{}")
    table.alter(options={"tag.create-success-file": "true"})
    for number in (5, 6):
        table.changelog_document(number)
    table.hint("EARLIEST", 1)
    table.hint("LATEST", 8)


def expired(table: TableBuilder) -> None:
    """The earliest is 6, and a tag holds 3."""
    eight(table)
    table.tag("three", snapshot=3)
    for number in range(1, 6):
        table.remove(table.root(number))
    table.hint("EARLIEST", 6)


def branched(table: TableBuilder) -> None:
    """A branch with snapshots, tags, a changelog, a consumer, hints and schemas of its own."""
    eight(table)
    branch = table.branch("b", "four")
    branch.alter(options={"k": "v"})
    branch.commit("+B5", "-A4")
    branch.commit("+B6")
    branch.tag("mine")
    branch.changelog_document(5)
    branch.consumer("reader", 6)
    branch.hint("EARLIEST", 4)
    branch.hint("LATEST", 6)


def rebuilt_after_a_schema(table: TableBuilder) -> None:
    """Nothing in common with the branch, whose ids are lower; main has a schema that the branch lacks."""
    branch = table.branch("b")
    branch.commit("+B1")
    branch.commit("+B2")
    table.commit("+A1")
    table.commit("+A2")
    table.alter(options={"k": "v"})
    table.commit("+A3")
    table.commit("+A4")
    for number in (1, 2):
        table.remove(table.root(number))


@dataclass(frozen=True)
class Case:
    scene: Scene
    operation: str
    arguments: Mapping[str, Any]


CASES: dict[str, Case] = {
    "rollback": Case(eight, "rollback", {"snapshot": 5}),
    "rollback_all": Case(eight, "rollback", {"snapshot": 1}),
    "rollback_to_expired": Case(expired, "rollback", {"tag": "three"}),
    "rollback_branch": Case(branched, "rollback", {"snapshot": 5}),
    "create_empty": Case(eight, "create-branch", {"branch": "n"}),
    "create_from_tag": Case(eight, "create-branch", {"branch": "n", "tag": "four"}),
    "create_from_snapshot": Case(eight, "create-branch", {"branch": "n", "snapshot": 8}),
    "delete": Case(branched, "delete-branch", {"branch": "b"}),
    "forward_rebuilt_after_a_schema": Case(rebuilt_after_a_schema, "fast-forward", {"branch": "b"}),
    **{f"forward_{name}": Case(scene, "fast-forward", {"branch": "b"}) for name, scene in SCENES.items()},
}


class MovedWorld(World):
    """The table of a case, and the run that moves a branch of it."""

    def __init__(self, name: str) -> None:
        super().__init__(location="memory://bucket/db.db/t", branch="b" if name == "rollback_branch" else "main")
        self.case = CASES[name]
        self.case.scene(self.table)
        self.before = self.documents()

    def move(self) -> str:
        """Carry the operation out, and return the id of the run."""
        return self.run_id(self.case.operation, **self.case.arguments)

    def documents(self) -> dict[str, bytes]:
        return documents(self.store)

    def commit(self, folder: str = "") -> int | None:
        """Commit as the engine would, on top of the newest snapshot that LATEST or else the listing shows."""
        there = {entry.key.removeprefix(f"{folder}snapshot/") for entry in self.store.list(f"{folder}snapshot/")}
        ids = {int(name[9:]) for name in there if name.startswith("snapshot-")}
        with suppress(ObjectNotFoundError):
            latest = int(self.store.read(f"{folder}snapshot/LATEST").data)
            if latest + 1 not in ids:
                ids &= {latest}
        if not ids:
            return None  # it would begin anew
        newest = max(ids)
        document = json.loads(self.store.read(f"{folder}snapshot/snapshot-{newest}").data)
        document |= {"id": newest + 1, "commitUser": "somebody else"}
        self.store.put(f"{folder}snapshot/snapshot-{newest + 1}", json.dumps(document).encode(), if_absent=True)
        self.store.put(f"{folder}snapshot/LATEST", str(newest + 1).encode())
        return newest + 1

    def check_refused(self, run_id: str, code: str, sentence: str) -> None:
        """Fail unless undoing is refused, and nothing changes."""
        there = self.documents()
        for execute in (False, True):
            report = self.undo(run_id, execute=execute)
            assert report.refusal is not None, report
            assert (report.status, report.refusal.code) == ("refused", code), report.refusal
            assert sentence in report.refusal.message
        assert self.documents() == there
