"""The part of a report about the manifests that a run rewrites.

A commit deletes no manifest. Its snapshot names fewer of them; older snapshots, tags and branches name the former ones,
which are deleted when the last of these expires.
"""

from dataclasses import dataclass

from lakesweep.model.commits.report import CommitsReport


@dataclass(frozen=True, slots=True)
class ManifestFigures:
    """What the lists of one snapshot name."""

    manifests: int
    bytes: int
    """Of the manifests."""
    entries: int
    deleted_entries: int
    """DELETE entries among them. Each hides another entry, which is there for nothing, too."""

    def to_json(self) -> dict[str, object]:
        """Return the figures as they appear under `commits`."""
        return {
            "manifests": self.manifests,
            "bytes": self.bytes,
            "entries": self.entries,
            "deleted_entries": self.deleted_entries,
        }


@dataclass(frozen=True, slots=True)
class SavedRequests:
    """How many manifests less others open from now on."""

    reader: int
    """Somebody who reads the whole table."""
    commit: int
    """A commit that looks for conflicts in one partition; the mean over the partitions."""

    def to_json(self) -> dict[str, object]:
        """Return the figures as they appear under `commits`."""
        return {"reader": self.reader, "commit": self.commit}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestsReport(CommitsReport):
    """What a run rewrites, or would."""

    before: ManifestFigures
    after: ManifestFigures | None = None
    """`None`: not known, since nobody read the manifests."""
    saved_requests: SavedRequests | None = None
    """`None`: not known."""
    exceeds: str | None = None
    """The table option that says why a pass compacts, or would; `None`: the list is not too long, or nobody asked."""
    commits_left: int | None = None
    """How many commits it takes at least until the list is too long; `None`: it is, or nobody asked."""
    reused_attempt: bool = False
    """The manifests of an earlier attempt were used again, though another writer had committed meanwhile."""

    def to_json(self) -> dict[str, object]:
        """Return the document that a report has under `commits`."""
        return {
            "before": self.before.to_json(),
            "after": None if self.after is None else self.after.to_json(),
            "saved_requests": None if self.saved_requests is None else self.saved_requests.to_json(),
            "exceeds": self.exceeds,
            "reused_attempt": self.reused_attempt,
            **CommitsReport.to_json(self),
        }
