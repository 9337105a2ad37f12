"""Where the values of erased rows can still be.

A data file is *tainted* if it has such rows, whether deletion vectors hide them or not. It *may be* tainted if it could
not be searched. Files are known by their names, which contain UUIDs: a path may contain a partition's value.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from lakesweep.errors import FormatError
from lakesweep.format.snapshot import Snapshot

Reason = Literal["missing", "denied", "damaged", "other_columns", "changelog", "format", "unneeded"]
REASONS: Mapping[Reason, str] = {
    "missing": "the file did not exist",
    "denied": "the right to read the file was missing",
    "damaged": "the file, or what a manifest says of it, is damaged",
    "other_columns": "its columns cannot be compared with those of the condition",
    "changelog": "it is a changelog file, which is not searched",
    "format": "it is no Parquet, ORC or Avro file that can be searched",
    "unneeded": "no root needed the file, and only manifests told of it",
}
"""Why a data file could not be searched."""

OLD_CACHES = "old versions of the metadata cache"
"""The words of a place."""

State = Literal["gone", "there", "unknown"]

Kind = Literal[
    "snapshot",
    "changelog",
    "tag",
    "data_file",
    "noncurrent",
    "manifest",
    "manifest_list",
    "statistics",
    "iceberg",
    "file_index",
    "global_index",
    "partition_name",
    "orphan",
    "other_object",
    "control",
    "event_log",
]


@dataclass(frozen=True, slots=True)
class ErasedFiles:
    """The tainted data files of all roots of a table, at one moment. They hold no values of rows."""

    searched_ms: int
    """When the search began, by the store's clock."""
    holds: frozenset[str] = frozenset()
    """Names of the files that have such rows."""
    may_hold: Mapping[str, Reason] = field(default_factory=dict)
    """Name of each file that could not be searched -> why."""
    rows: int = 0
    """The rows in `holds`, with those that deletion vectors hide. A row that two files have counts twice."""
    searched_files: int = 0
    """Data files that were opened. Statistics rule out such rows in the others."""
    unread: tuple[str, ...] = ()
    """Paths of roots, lists and manifests that could not be read: files that only they name are not known."""
    heads: Mapping[str, str] = field(default_factory=dict)
    """Branch -> its newest snapshot, as `head_of` says it, "" for none."""
    marks: Mapping[str, str] = field(default_factory=dict)
    """Name of a file that was searched -> a hash of the positions of such rows: another condition has other ones."""
    open: frozenset[str] = frozenset()
    """Branches whose newest snapshot needed a tainted file, so that later commits may copy its rows."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all files that have such rows, or may have some."""
        return self.holds | self.may_hold.keys()

    def __or__(self, other: "ErasedFiles") -> "ErasedFiles":
        """Return what this search and a later one found. What the later one says of branches counts."""
        holds = self.holds | other.holds
        may_hold = {name: why for name, why in {**self.may_hold, **other.may_hold}.items() if name not in holds}
        return ErasedFiles(
            min(self.searched_ms, other.searched_ms),
            holds,
            may_hold,
            max(self.rows, other.rows),
            self.searched_files + other.searched_files,
            other.unread,
            other.heads,
            {**other.marks, **self.marks},
            other.open,
        )

    def to_json(self) -> dict[str, object]:
        """Return the document that a record keeps."""
        by_reason: dict[str, list[str]] = {}
        for name, why in sorted(self.may_hold.items()):
            by_reason.setdefault(why, []).append(name)
        return {
            "searched_ms": self.searched_ms,
            "holds": sorted(self.holds),
            "may_hold": by_reason,
            "rows": self.rows,
            "searched_files": self.searched_files,
            "unread": list(self.unread),
            "heads": dict(sorted(self.heads.items())),
            "marks": dict(sorted(self.marks.items())),
            "open": sorted(self.open),
        }


def head_of(snapshot: Snapshot) -> str:
    """Return what tells a snapshot from another one of the same id."""
    return f"{snapshot.id} {snapshot.uuid or snapshot.time_ms}"


def erased_files_of(document: object, path: str) -> ErasedFiles:
    """Read the document that `ErasedFiles.to_json` wrote.

    Args:
        document: The document.
        path: For messages.

    Raises:
        FormatError: It is no such document.
    """
    found = document if isinstance(document, dict) else {}
    numbers = {key: found.get(key) for key in ("searched_ms", "rows", "searched_files")}
    heads, marks = found.get("heads"), found.get("marks")
    if not (
        all(type(each) is int and each >= 0 for each in numbers.values())
        and isinstance(found.get("may_hold"), dict)
        and isinstance(heads, dict)
        and isinstance(marks, dict)
        and all(isinstance(each, str) for pair in (*heads.items(), *marks.items()) for each in pair)
    ):
        raise FormatError(f"{path}: expected the files of an erasure, found other fields")
    may_hold: dict[str, Reason] = {}
    for why, names in found["may_hold"].items():
        if why not in REASONS:
            raise FormatError(f"{path}: expected a known reason to keep a file in doubt, found {why!r}")
        may_hold |= dict.fromkeys(_texts(names, path), why)
    return ErasedFiles(
        searched_ms=found["searched_ms"],
        holds=frozenset(_texts(found.get("holds"), path)),
        may_hold=may_hold,
        rows=found["rows"],
        searched_files=found["searched_files"],
        unread=tuple(_texts(found.get("unread"), path)),
        heads=heads,
        marks=marks,
        open=frozenset(_texts(found.get("open"), path)),
    )


def _texts(value: object, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        raise FormatError(f"{path}: expected a list of names, found {type(value).__name__}")
    for each in value:
        if not isinstance(each, str):
            raise FormatError(f"{path}: expected a name, found {type(each).__name__}")
        yield each


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One place where values of erased rows can be, or can be no more."""

    kind: Kind
    words: str
    """What the place is, such as `snapshots 1 to 3` or `manifests`."""
    state: State
    count: int = 0
    """Roots or objects in this state; of `gone` none."""
    paths: tuple[str, ...] = ()
    """A few of them. If the condition names partition keys, these are names without folders."""
    until: str | None = None
    """How long the last of them is kept: a clause that begins with `until` or `for`. `None`: not known."""
    until_ms: int | None = None
    """The time in the clause, epoch milliseconds: after it, age alone lets the place go."""
    ends: str | None = None
    """The command that ends it; `None`: none of Lakesweep does."""
    why: str | None = None
    """Why it is unknown: a clause without a full stop."""

    def to_json(self) -> dict[str, object]:
        """Return the place as it appears in reports."""
        return {
            "kind": self.kind,
            "words": self.words,
            "state": self.state,
            "count": self.count,
            "paths": list(self.paths),
            "until": self.until,
            "until_ms": self.until_ms,
            "ends": self.ends,
            "why": self.why,
        }
