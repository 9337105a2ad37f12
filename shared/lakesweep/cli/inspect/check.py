"""`lakesweep check`."""

from typing import Annotated

from lakesweep.cli.command import reads
from lakesweep.cli.options import Place, option


@reads(
    "lakesweep check /data/orders",
    "lakesweep check s3://lake/sales.db/orders --all-roots --control s3://ops/lakesweep",
    "lakesweep check s3://lake/sales.db --json",
    place=("policy", "control"),
)
def check(
    place: Place,
    all_roots: Annotated[
        bool,
        option(
            "--all-roots",
            "Check the data files of every snapshot, tag and changelog, not only of the newest snapshot of each "
            "branch.",
        ),
    ] = False,
) -> int:
    """Report what is wrong with a table, and which command repairs it. TABLE may also be a database.

    Reads every root with its manifest lists and manifests. Checks for lost histories, missing files that readers need,
    wrong hints and gaps in snapshot ids. Also checks for unfinished plans, the lease, consumers that hold old
    snapshots, contradictory options, and snapshots that have been due for more than a day. Changes nothing. Exit code
    0: healthy. 6: there are findings.
    """
    from lakesweep.cli.inspect.health import answer_check

    return answer_check(place, all_roots=all_roots)
