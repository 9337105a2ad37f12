"""`lakesweep demo`."""

from typing import Annotated

import typer

from lakesweep.cli.options import Json

EXAMPLES = ("lakesweep demo", "lakesweep demo --commits 60 --json")


def demo(
    commits: Annotated[
        int, typer.Option("--commits", metavar="N", help="How many commits the writer makes; at least 12.")
    ] = 40,
    as_json: Json = False,
) -> int:
    """Write a table, expire its snapshots, and show that it still reads the same.

    Everything happens in this process and in a temporary folder.
    """
    from lakesweep.cli.answer import answer_demo

    return answer_demo(commits, as_json)
