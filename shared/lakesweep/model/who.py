"""Who runs Lakesweep: what reports, ledgers and the lease say of it."""

from dataclasses import asdict, dataclass

from lakesweep import __version__


@dataclass(frozen=True, slots=True)
class Who:
    """Who runs, where, and which version."""

    actor: str = "unknown"
    """An ARN where there is one, else the user and the machine."""
    host: str = "unknown"
    version: str = __version__

    def to_json(self) -> dict[str, object]:
        """Return its form in documents."""
        return asdict(self)

    def __str__(self) -> str:
        place = "" if self.actor.endswith(f"@{self.host}") else f" on {self.host}"
        return f"{self.actor}{place} (version {self.version})"


def nobody() -> Who:
    """Return that nobody said who runs."""
    return Who()


def who_of(value: object) -> Who | None:
    """Return what a document says, `None` where it says nothing that makes sense."""
    if not isinstance(value, dict):
        return None
    texts = {key: text for key, text in value.items() if key in ("actor", "host", "version") and isinstance(text, str)}
    return Who(**texts) if len(texts) == 3 else None
