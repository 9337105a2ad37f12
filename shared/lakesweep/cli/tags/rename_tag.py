"""`lakesweep rename-tag`."""

from typing import Annotated

import typer

from lakesweep.cli.options import Execute, Place, at_place

EXAMPLES = ("lakesweep rename-tag s3://lake/sales.db/orders before-load 2026-01-31-before-load --execute",)


@at_place("branch", "policy", "control", "external_root")
def rename_tag(
    place: Place,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the tag.")],
    target: Annotated[str, typer.Argument(metavar="NEW", help="Its new name, which no tag has yet.")],
    execute: Execute = False,
) -> int:
    """Give a tag another name.

    The new tag is written before the old one is deleted. The only rule of a fleet policy that counts here is `pause`.
    Prints the plan, and changes nothing without --execute.
    """
    from lakesweep.cli.operation import run_named

    return run_named(place, "rename_tag", {"tag": name, "target_tag": target}, None, execute=execute)
