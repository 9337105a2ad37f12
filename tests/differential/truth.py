"""What the engine says of a table before anybody touches it: what each root refers to, and what it reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.differential.engine import Engine


@dataclass(frozen=True, slots=True)
class Root:
    """A snapshot, tag or changelog of some branch."""

    branch: str
    kind: str
    name: str
    files: frozenset[str]
    """Every file that it needs, relative to the table or absolute outside of it; its changelog too, but for a tag."""
    error: str | None
    """Why the engine could not say which files those are."""
    reads: Mapping[str, int] | str | None
    """Rows and checksum; the failure when it cannot be read; `None` for a changelog."""
    facts: Mapping[str, Any]
    """What else the engine said of it."""

    @property
    def path(self) -> str:
        """Return the path of its document, relative to the table."""
        place = "" if self.branch == "main" else f"branch/branch-{self.branch}/"
        return f"{place}{self.kind}/{self.kind}-{self.name}"

    def __str__(self) -> str:
        return f"{self.branch}/{self.kind}-{self.name}"


def read_roots(engine: Engine, table: str) -> tuple[Root, ...]:
    """Ask the engine about every root of every branch."""
    reads = engine("scan_all", table=table)
    return tuple(
        Root(
            branch=root["branch"],
            kind=root["kind"],
            name=root["name"],
            files=frozenset(root.get("files", ())) | frozenset(root.get("changelog", ())),
            error=root.get("error"),
            reads=reads.get(f"{root['branch']}/{root['kind']}-{root['name']}"),
            facts=root,
        )
        for root in engine("references", table=table)
    )
