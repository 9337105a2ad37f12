"""`lakesweep create-tag` and `lakesweep replace-tag`."""

from typing import Annotated

import typer

from lakesweep.cli.options import Execute, Place, at_place

CREATE_EXAMPLES = (
    "lakesweep create-tag s3://lake/sales.db/orders before-load --execute",
    "lakesweep create-tag /data/orders month-end --snapshot 28 --time-retained '30 d' --time-zone Europe/Berlin",
    "lakesweep create-tag /data/orders noon --timestamp 2026-01-31T12:00:00Z --json",
)
REPLACE_EXAMPLES = (
    "lakesweep replace-tag /data/orders current --execute",
    "lakesweep replace-tag s3://lake/sales.db/orders current --snapshot 28 --execute",
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Of the tag.")]
Snapshot = Annotated[
    str | None,
    typer.Option(
        "--snapshot", metavar="N", help="Of this snapshot, or of one that a tag still holds; else the newest."
    ),
]
FromTag = Annotated[str | None, typer.Option("--from-tag", metavar="TAG", help="Of the snapshot of this tag.")]
Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="TIME",
        help="Of the first snapshot committed then or later: ISO-8601 with a zone, or epoch milliseconds.",
    ),
]
Watermark = Annotated[
    str | None,
    typer.Option("--watermark", metavar="W", help="Of the first snapshot with this watermark or a higher one."),
]
VersionText = Annotated[
    str | None,
    typer.Option(
        "--version", metavar="TEXT", help="As in VERSION AS OF: of a tag, else of watermark-<n>, else of a snapshot id."
    ),
]
TimeZone = Annotated[
    str | None,
    typer.Option(
        "--time-zone",
        metavar="ZONE",
        help="Of the times at which tags are made, such as Europe/Berlin. Else that of the fleet policy, else UTC.",
    ),
]


@at_place("branch", "policy", "control", "external_root")
def create_tag(
    place: Place,
    name: Name,
    snapshot: Snapshot = None,
    from_tag: FromTag = None,
    timestamp: Timestamp = None,
    watermark: Watermark = None,
    version: VersionText = None,
    time_retained: Annotated[
        str | None,
        typer.Option(
            "--time-retained",
            metavar="DURATION",
            help="How long the tag is to live, such as '30 d'; a bare number is in milliseconds. Else the table's "
            "tag.default-time-retained, else for good.",
        ),
    ] = None,
    time_zone: TimeZone = None,
    ignore_if_exists: Annotated[
        bool, typer.Option("--ignore-if-exists", help="A tag of that name is left as it is, and that is no error.")
    ] = False,
    execute: Execute = False,
) -> int:
    """Give a snapshot a name, so that it stays readable after it expires.

    The command does not wait for other maintenance under way. The only rules of a fleet policy that count here are
    `pause` and `time_zone`. Prints the plan, and changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    return run_named(
        place,
        "create_tag",
        {
            "tag": name,
            "snapshot": snapshot,
            "from_tag": from_tag,
            "timestamp": timestamp,
            "watermark": watermark,
            "version": version,
            "time_retained": time_retained,
            "time_zone": time_zone,
            "ignore_if_exists": ignore_if_exists or None,
        },
        None,
        execute=execute,
    )


@at_place("branch", "policy", "control", "external_root")
def replace_tag(
    place: Place,
    name: Name,
    snapshot: Snapshot = None,
    from_tag: FromTag = None,
    timestamp: Timestamp = None,
    watermark: Watermark = None,
    version: VersionText = None,
    time_retained: Annotated[
        str | None,
        typer.Option(
            "--time-retained",
            metavar="DURATION",
            help="How long the tag is to live, such as '30 d'; a bare number is in milliseconds. Without this, for "
            "good.",
        ),
    ] = None,
    time_zone: TimeZone = None,
    execute: Execute = False,
) -> int:
    """Let a tag name another snapshot.

    Files that only the former tag held become orphans. The only rules of a fleet policy that count here are `pause` and
    `time_zone`. Prints the plan, and changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    return run_named(
        place,
        "replace_tag",
        {
            "tag": name,
            "snapshot": snapshot,
            "from_tag": from_tag,
            "timestamp": timestamp,
            "watermark": watermark,
            "version": version,
            "time_retained": time_retained,
            "time_zone": time_zone,
        },
        None,
        execute=execute,
    )
