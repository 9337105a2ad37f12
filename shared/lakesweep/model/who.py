"""Who runs Lakesweep, for reports, ledgers and the lease."""

from dataclasses import asdict, dataclass

from lakesweep import __version__

_SHOWN = 200
"""At most this many characters of a text are shown: whoever can write the control location can write any text."""


@dataclass(frozen=True, slots=True)
class Who:
    """The actor, the machine and the version."""

    actor: str = "unknown"
    """An ARN if there is one, otherwise the user and the machine."""
    host: str = "unknown"
    version: str = __version__

    def to_json(self) -> dict[str, object]:
        """Return its form in documents."""
        return asdict(self)

    def __str__(self) -> str:
        actor, host, version = self.actor[:_SHOWN], self.host[:_SHOWN], self.version[:_SHOWN]
        place = "" if self.actor.endswith(f"@{self.host}") else f" on {host}"
        return f"{actor}{place} (version {version})"


def nobody() -> Who:
    """Return the value for an unknown actor."""
    return Who()


def who_of(value: object) -> Who | None:
    """Return the actor in a document, `None` if it has no valid one."""
    if not isinstance(value, dict):
        return None
    texts = {key: text for key, text in value.items() if key in ("actor", "host", "version") and isinstance(text, str)}
    return Who(**texts) if len(texts) == 3 else None
