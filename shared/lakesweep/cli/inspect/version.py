"""The options that name one version of a table, for commands that read a version."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from lakesweep.cli.options import option

if TYPE_CHECKING:
    from lakesweep.runs.parameters.time_travel import Version


@dataclass(frozen=True, slots=True)
class VersionOptions:
    """The options of `show` and `files` that name a version. As typed, not yet checked."""

    snapshot: Annotated[int | None, option("--snapshot", "The version of this snapshot.", "N")] = None
    tag: Annotated[str | None, option("--tag", "The version of this tag.", "NAME")] = None
    timestamp: Annotated[
        str | None,
        option(
            "--timestamp",
            "The last snapshot committed at or before this time: ISO-8601 with a zone, or epoch milliseconds.",
            "TIME",
        ),
    ] = None
    watermark: Annotated[
        int | None, option("--watermark", "The first snapshot with this or a higher watermark.", "W")
    ] = None
    version: Annotated[
        str | None, option("--version", "As in VERSION AS OF: a tag, else watermark-<n>, else a snapshot's id.", "TEXT")
    ] = None
    fall_back_to_tags: Annotated[
        bool,
        option(
            "--fall-back-to-tags",
            "If the snapshot has expired, use a tag that still holds it, or for a time the last tag before it. "
            "Paimon does not do this.",
        ),
    ] = False

    def parse(self) -> "Version":
        """Return the version that the options name.

        Raises:
            UsageError: A time is not valid.
        """
        from lakesweep.runs.parameters.time_travel import Version
        from lakesweep.runs.parameters.times import parse_time_ms

        timestamp_ms = None if self.timestamp is None else parse_time_ms(self.timestamp, "--timestamp")
        return Version(self.snapshot, self.tag, timestamp_ms, self.watermark, self.version)
