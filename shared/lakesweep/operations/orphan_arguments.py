"""What a caller says of a scan for orphan files."""

from dataclasses import dataclass

PARALLELISM = 8
MAX_PARALLELISM = 64


@dataclass(frozen=True, slots=True)
class OrphanArguments:
    """What a caller says."""

    older_than_ms: int | None = None
    """Only what was written before; else a day ago."""
    no_writers: str | None = None
    """Why what is younger than a day may go: a reason in words, which the plan keeps."""
    quarantine_ms: int | None = None
    """An orphan goes only if a scan so long ago saw it already."""
    parallelism: int = PARALLELISM
    """Listings at once."""
    owned_external: tuple[str, ...] = ()
    """External roots that hold files of this table alone; elsewhere nothing goes."""
    inventory: str | None = None
    """Where an S3 Inventory lies that is read instead of a listing."""
    no_history: str | None = None
    """Why a branch may have a schema and no snapshot: a reason in words, which the plan keeps."""

    @property
    def may_lack_history(self) -> bool:
        """Tell whether the caller says why a branch has no snapshot."""
        return bool((self.no_history or "").strip())

    def to_json(self) -> dict[str, object]:
        """Return what the plan keeps of it."""
        return {
            "older_than_ms": self.older_than_ms,
            "no_writers": self.no_writers,
            "quarantine_ms": self.quarantine_ms,
            "owned_external": list(self.owned_external),
            **({"inventory": self.inventory} if self.inventory else {}),
            **({"no_history": self.no_history} if self.no_history else {}),
        }
