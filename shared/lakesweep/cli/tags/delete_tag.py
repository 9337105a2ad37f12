"""`lakesweep delete-tag`."""

from typing import Annotated

import typer

from lakesweep.cli.options import Execute, Place, at_place

EXAMPLES = (
    "lakesweep delete-tag s3://lake/sales.db/orders before-load",
    "lakesweep delete-tag /data/orders 2026-01-30 2026-01-31 --execute",
)


@at_place("branch", "policy", "control", "external_root")
def delete_tag(
    place: Place,
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names of one or more tags.")],
    execute: Execute = False,
) -> int:
    """Delete tags, and the files that only they hold.

    If a tag's snapshot still exists, only the tag's document is deleted. A name without a tag is a warning. The only
    rule of a fleet policy that counts here is `pause`. Prints the plan, and changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    return run_named(place, "delete_tag", {"tag": list(names)}, None, execute=execute)
