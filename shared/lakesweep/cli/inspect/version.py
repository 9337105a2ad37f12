"""The options that name one version of a table, for commands that read a version."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from lakesweep.runs.parameters.time_travel import Version


@dataclass(frozen=True, slots=True)
class VersionOptions:
    """The options of `show` and `files` that name a version. As typed, not yet checked."""

    snapshot: Annotated[int | None, typer.Option("--snapshot", metavar="N", help="The version of this snapshot.")] = (
        None
    )
    tag: Annotated[str | None, typer.Option("--tag", metavar="NAME", help="The version of this tag.")] = None
    timestamp: Annotated[
        str | None,
        typer.Option(
            "--timestamp",
            metavar="TIME",
            help="The last snapshot committed at or before this time: ISO-8601 with a zone, or epoch milliseconds.",
        ),
    ] = None
    watermark: Annotated[
        int | None,
        typer.Option("--watermark", metavar="W", help="The first snapshot with this or a higher watermark."),
    ] = None
    version: Annotated[
        str | None,
        typer.Option(
            "--version", metavar="TEXT", help="As in VERSION AS OF: a tag, else watermark-<n>, else a snapshot's id."
        ),
    ] = None
    fall_back_to_tags: Annotated[
        bool,
        typer.Option(
            "--fall-back-to-tags",
            help="If the snapshot has expired, use a tag that still holds it, or for a time the last tag before it. "
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
