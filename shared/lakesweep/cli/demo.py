"""`lakesweep demo`."""

import errno
import sys
from typing import Annotated

from lakesweep.cli.options import Json, option

EXAMPLES = ("lakesweep demo", "lakesweep demo --commits 60 --json")


def demo(
    commits: Annotated[int, option("--commits", "How many commits the writer makes; at least 12.", "N")] = 40,
    as_json: Json = False,
) -> int:
    """Write a table, expire its snapshots, and show that it still reads the same.

    Everything happens in this process and in a temporary folder.
    """
    from lakesweep.cli.answer import failed_document
    from lakesweep.cli.terminal.output import unwritten

    try:
        from lakesweep.demo.main import run

        return run(commits=commits, json_output=as_json)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            return failed_document(error, as_json)
        raise unwritten(sys.stdout, error) from error
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the edge: every error becomes an answer
        return failed_document(error, as_json)
