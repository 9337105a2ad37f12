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

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the tag.")]
Snapshot = Annotated[
    str | None,
    typer.Option(
        "--snapshot", metavar="N", help="Tag this snapshot, which a tag may still hold; by default the newest."
    ),
]
FromTag = Annotated[str | None, typer.Option("--from-tag", metavar="TAG", help="Tag the snapshot of this tag.")]
Timestamp = Annotated[
    str | None,
    typer.Option(
        "--timestamp",
        metavar="TIME",
        help="Tag the first snapshot committed at or after this time: ISO-8601 with a zone, or epoch milliseconds.",
    ),
]
Watermark = Annotated[
    str | None,
    typer.Option("--watermark", metavar="W", help="Tag the first snapshot with this or a higher watermark."),
]
VersionText = Annotated[
    str | None,
    typer.Option(
        "--version", metavar="TEXT", help="As in VERSION AS OF: a tag, else watermark-<n>, else a snapshot id."
    ),
]
TimeZone = Annotated[
    str | None,
    typer.Option(
        "--time-zone",
        metavar="ZONE",
        help="Time zone of the tags' times, such as Europe/Berlin; by default that of the fleet policy, else UTC.",
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
            help="How long to keep the tag, such as '30 d'; a bare number is in milliseconds. By default the table's "
            "tag.default-time-retained, else forever.",
        ),
    ] = None,
    time_zone: TimeZone = None,
    ignore_if_exists: Annotated[
        bool, typer.Option("--ignore-if-exists", help="If a tag of this name exists, keep it; this is no error.")
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
            help="How long to keep the tag, such as '30 d'; a bare number is in milliseconds. By default forever.",
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
