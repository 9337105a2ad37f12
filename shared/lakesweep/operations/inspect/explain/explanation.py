"""The values that `explain TABLE FILE` finds."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from lakesweep.format.codec import to_json
from lakesweep.operations.lifetimes.ruling import ShownRuling

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


GONE = frozenset({"deleted", "already_gone"})
"""Results in the ledger after which an object does not exist."""


@dataclass(frozen=True, slots=True)
class Holder:
    """Roots of one kind that hold a file: snapshots or changelogs of a branch, or one tag."""

    kind: str
    branch: str
    first: str
    last: str
    count: int
    needs: bool
    """Readers of these roots open the file; otherwise the roots only name it."""
    until: str
    """How long the last of these roots is kept."""
    until_ms: int | None

    def __str__(self) -> str:
        names = self.first if self.count == 1 else f"{self.first} to {self.last}"
        what = self.kind if self.count == 1 else f"{self.count} {self.kind}s"
        return f"{what} {names}" + ("" if self.branch == "main" else f" of branch {self.branch}")


@dataclass(frozen=True, slots=True)
class Deletion:
    """What one of our runs did to the object."""

    run_id: str
    time_ms: int | None
    operation: str | None
    plan_id: str
    reason: str
    result: str
    """As in the ledger; `unknown`: a deletion was sent, and its result was not recorded."""
    why: str | None
    """Why a recheck kept it."""
    version_id: str | None
    restorable: bool | None
    """Whether the object can be restored; `None`: not asked, or not known."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an orphan comes from, as far as that is known."""

    first_seen_ms: int | None
    """When a scan with quarantine first saw it as an orphan."""
    writer: str | None
    """The id that the writer puts into the names of its files."""
    commit_user: str | None
    commit_user_of: str | None
    """The root that shows the commit user: it names another file of the same writer."""


@dataclass(frozen=True, slots=True)
class VectorInFile:
    """One deletion vector in an index file, as the index manifest describes it."""

    data_file: str
    """A name without a folder."""
    offset: int
    length: int
    width: int | None
    """32 or 64; `None`: only the bytes tell it."""
    cardinality: int | None
    """The number of deleted rows; `None`: not recorded."""
    is_dangling: bool
    """No root names the data file."""


@dataclass(frozen=True, slots=True)
class IndexContent:
    """The content of an index file, by metadata alone."""

    type: str
    """`DELETION_VECTORS`, `HASH`, or a global index."""
    partition: Mapping[str, str | None]
    bucket: int
    rows: int
    """As metadata count them: the number of vectors, or of entries of another index."""
    vectors: tuple[VectorInFile, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything that `explain TABLE FILE` says."""

    table: str
    path: str
    """Relative to the table; outside the table a whole URI."""
    kind: str
    what: str
    """The kind in words."""
    exists: bool | None
    """`None`: not checked."""
    size_bytes: int | None
    expected_bytes: int | None
    """The size that the metadata of its roots states; `None`: not known."""
    modified_ms: int | None
    status: Status
    rule: str | None
    """For `protected`: the code word of the rule that keeps it."""
    why: str
    """A clause that explains the status."""
    until: str | None
    """A clause that says how long it is kept at least."""
    until_ms: int | None
    held_by: tuple[Holder, ...] = ()
    runs: tuple[Deletion, ...] = ()
    origin: Origin | None = None
    index: IndexContent | None = None
    """The content of an index file that some root needs."""
    policy: ShownRuling | None = None
    """What the fleet policy says about the table; `None`: none is stated."""
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        document: dict[str, object] = to_json(self)
        return document
