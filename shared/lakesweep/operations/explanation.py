"""The values that `explain TABLE FILE` finds."""

from dataclasses import asdict, dataclass
from typing import Literal

Status = Literal["live", "referenced", "document", "protected", "orphan", "missing", "deleted", "gone"]

WHAT = {
    "snapshot": "a snapshot",
    "changelog_document": "a long-lived changelog",
    "tag": "a tag",
    "schema": "a schema",
    "consumer": "the position of a streaming reader",
    "hint": "a hint to readers",
    "service": "the address of a service",
    "success": "a marker of a finished partition or tag",
    "iceberg": "metadata for Iceberg readers",
    "copy_into": "a record of COPY INTO",
    "pack": "a managed pack of large values",
    "cache": "a cache",
    "hive_temp": "the unfinished output of a Hive job",
    "marker": "a marker of a folder",
    "nested": "a file of another table",
    "foreign": "nothing that is known",
    "temp": "the temporary file of a write that did not end",
    "data": "a data file",
    "changelog": "a changelog file",
    "extra": "an extra file of a data file",
    "index": "an index file",
    "manifest": "a manifest",
    "manifest_list": "a manifest list",
    "index_manifest": "an index manifest",
    "statistics": "table statistics",
}


@dataclass(frozen=True, slots=True)
class Holder:
    """Roots of one kind that hold a file: snapshots or changelogs of a branch, or one tag."""

    kind: str
    branch: str
    first: str
    last: str
    count: int
    needs: bool
    """Readers of them open the file; else they only name it."""
    until: str
    """How long the last of them stays."""
    until_ms: int | None

    def __str__(self) -> str:
        names = self.first if self.count == 1 else f"{self.first} to {self.last}"
        what = self.kind if self.count == 1 else f"{self.count} {self.kind}s"
        return f"{what} {names}" + ("" if self.branch == "main" else f" of branch {self.branch}")


@dataclass(frozen=True, slots=True)
class Deletion:
    """What one of our runs did about the object."""

    run_id: str
    time_ms: int | None
    operation: str | None
    plan_id: str
    reason: str
    result: str
    """As in the ledger; `unknown`: a deletion was sent and nobody knows the answer."""
    why: str | None
    """Why a look kept it."""
    version_id: str | None
    restorable: bool | None
    """The object can come back; `None`: not asked, or nobody can tell."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an orphan comes from, as far as anything tells."""

    first_seen_ms: int | None
    """When a scan with quarantine first saw it as an orphan."""
    writer: str | None
    """What the writer has in its files' names."""
    commit_user: str | None
    commit_user_of: str | None
    """The root that tells the commit user: it names another file of that writer."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that `explain TABLE FILE` says."""

    table: str
    path: str
    """Relative to the table, a whole URI outside it."""
    kind: str
    what: str
    """The kind in words."""
    exists: bool | None
    """`None`: nobody looked."""
    size_bytes: int | None
    expected_bytes: int | None
    """The size that metadata of the roots which need it states; `None`: not known."""
    modified_ms: int | None
    status: Status
    rule: str | None
    """Of what is `protected`: the rule that keeps it, as a word."""
    why: str
    """A clause about it."""
    until: str | None
    """How long it stays at least: a clause."""
    until_ms: int | None
    held_by: tuple[Holder, ...] = ()
    runs: tuple[Deletion, ...] = ()
    origin: Origin | None = None
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        return {
            **asdict(self),
            "held_by": [asdict(holder) for holder in self.held_by],
            "runs": [asdict(run) for run in self.runs],
            "warnings": list(self.warnings),
        }
