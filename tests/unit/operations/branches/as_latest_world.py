"""A table with an older version to commit again, and an independent look at what the newest snapshot has."""

import json
from typing import Any

from lakesweep.model.commits.as_latest import AsLatestReport
from lakesweep.model.report import RunReport
from tests.support.faulty_store import Switch
from tests.support.reader import RootNeeds, read_all
from tests.support.world import World

PREFIX = "rollback-to-as-latest-"
LOCKED = {"as_latest": True, "catalog_type": "filesystem", "catalog_lock": True}


class AsLatestWorld(World):
    """Snapshot 1 has A and B, snapshot 2 replaced A by C, snapshot 3 added D."""

    def __init__(self, *, is_empty: bool = False, **table: Any) -> None:
        super().__init__(**table)
        if not is_empty:
            self.commit("+A", "+B")
            self.commit("-A", "+C")
            self.commit("+D")

    def commit(self, *entries: str, **details: Any) -> int:
        """Let a minute pass, and commit as a writer does."""
        self.now_ms += 60_000
        self.forget_what_is_gone()
        return self.table.commit(*entries, time_ms=self.now_ms, **details)

    def commit_the_same(self, time_ms: int | None = None) -> None:
        """Commit on top of what is there as a writer does that changes no file."""
        newest = self.ids()[-1]
        document = json.loads(self.store.read(f"snapshot/snapshot-{newest}").data)
        document |= {"id": newest + 1, "uuid": f"same-{newest}", "commitUser": "flink"}
        document["timeMillis"] = self.now_ms if time_ms is None else time_ms
        self.store.put(f"snapshot/snapshot-{newest + 1}", json.dumps(document).encode())
        self.table.hint("LATEST", newest + 1)

    def back(
        self, snapshot: int | None = 1, *, execute: bool = True, switch: Switch | None = None, **words: Any
    ) -> RunReport:
        """Roll back as latest, with a declared catalog unless told otherwise."""
        given = {**LOCKED, "snapshot": snapshot, **words}
        self.now_ms += 1000
        return self.maintainer(switch).run("rollback", execute=execute, **given)

    def refused(self, snapshot: int | None = 1, **words: Any) -> tuple[str, str]:
        """Roll back as latest, which must be refused before anything changes."""
        return self.refusal("rollback", **{**LOCKED, "snapshot": snapshot, **words})

    def newest(self) -> RootNeeds:
        """Read every root, and return the newest snapshot."""
        return read_all(self.store)[f"snapshot/snapshot-{self.ids()[-1]}"]

    def live(self) -> set[str]:
        """Return the symbols of the live files, once every root reads."""
        return self.table.symbols(self.newest().live)

    def tags(self) -> list[str]:
        """Return the names of all tags."""
        return sorted(key.removeprefix("tag/tag-") for key in self.keys("tag/"))


def facts(report: RunReport) -> AsLatestReport:
    """Return what a report says of the commit."""
    assert isinstance(report.commits, AsLatestReport), report
    return report.commits
