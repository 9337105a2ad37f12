"""`lakesweep demo`: run the story, prove the result, print both.

The exit code is 0 only if an independent reader finds every row that must be readable, and needs every object that is
left.
"""

import json
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from lakesweep.errors import MaintenanceError, UsageError

if TYPE_CHECKING:
    from lakesweep.demo.local_aws import LocalAws
    from lakesweep.demo.orders import Orders

MIN_COMMITS = 12
"""With fewer commits, all replaced partitions would still be in the retained snapshots."""

PACKAGES = ("rich", "flask", "flask_cors", "moto", "pypaimon")
"""Packages of the extra `demo`."""

BeforeReading = Callable[["LocalAws", "Orders"], None]


def _nothing(aws: "LocalAws", orders: "Orders") -> None:
    """Leave the table unchanged."""


def run(
    commits: int = 40,
    json_output: bool = False,
    *,
    before_reading: BeforeReading = _nothing,
    page: Callable[["LocalAws"], str] | None = None,
) -> int:
    """Run the demo and return its exit code.

    Args:
        commits: How many commits the writer makes.
        json_output: Print one JSON document instead of lines.
        before_reading: Called between the last maintenance and the proof, so that a test can damage the table and check
            that the proof fails.
        page: Writes a page about the table while the server runs, and returns what is to be said of it.

    Raises:
        UsageError: There are too few commits to show anything.
        MaintenanceError: A package of the extra is missing, or a step failed.
    """
    if commits < MIN_COMMITS:
        raise UsageError(f"the demo makes {commits} commits; expected at least {MIN_COMMITS}, so that files are freed")
    if missing := [package for package in PACKAGES if find_spec(package) is None]:
        raise MaintenanceError(
            f"the demo needs {' and '.join(missing)}; expected: pip install 'lakesweep[demo]'", code="extra_missing"
        )
    from rich.console import Console

    from lakesweep.demo.local_aws import local_aws
    from lakesweep.demo.orders import OPTIONS, Orders
    from lakesweep.demo.proof import prove
    from lakesweep.demo.story import tell
    from lakesweep.demo.summary import document, lines

    started = time.monotonic()
    console = Console(stderr=json_output)

    def say(line: str) -> None:
        if not json_output:
            console.print(line, markup=False, highlight=False, soft_wrap=True)

    with local_aws() as aws, console.status("Starting") as status:

        def progress(commit: int) -> None:
            status.update(f"Commit {commit} of {commits}, and its maintenance")
            if not console.is_terminal and commit % 10 == 0:
                say(f"commit {commit} of {commits}")

        orders = Orders(aws)
        say(f"Table {orders.location}, on {aws.endpoint} of this process")
        say(f"Options {', '.join(f'{key}={value}' for key, value in OPTIONS.items())}")
        story = tell(aws, orders, commits, progress)
        before_reading(aws, orders)
        status.update("Reading everything again")
        left = aws.sizes(orders.folder)
        proof = prove(orders, story, left)
        written = None if page is None else page(aws)
    seconds = time.monotonic() - started
    if json_output:
        sys.stdout.write(json.dumps(document(orders.location, story, proof, left, seconds), indent=1) + "\n")
    else:
        for line in lines(orders.location, story, proof, left, seconds):
            say(line)
        if written is not None:
            say(f"Open this page in a browser: {written}")
    return 1 if proof.problems else 0
