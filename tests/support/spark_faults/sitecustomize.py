"""What breaks in Spark's Python workers, where a test puts this folder on their path, and on theirs alone.

Python runs this module as it starts. `LAKESWEEP_TEST_FAULTS` names a folder with a file for each fault that is still to
come, called `<what> <kind>`: what happens right after a worker has written its first part of a kind. Whoever takes the
file away first has the fault. `again <kind>` tells that a later attempt of a task wrote one.

Of `delete_rows`, `match` is what a task has found in its first data file, and `index` an index file. `rewrite` is a bin
of data files that was rewritten.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SLOW_S = 60


def _is_mine(fault: Path) -> bool:
    try:
        fault.rename(fault.with_name(f"done {fault.name}"))
    except FileNotFoundError:
        return False
    return True


def _strike(what: str, faults: Path) -> None:
    if what == "worker":
        os.kill(os.getpid(), signal.SIGKILL)
    elif what == "executor":
        from tests.support.spark import executor_pid

        os.kill(executor_pid(), signal.SIGKILL)
        time.sleep(SLOW_S)  # the answer of this task never leaves
    elif what == "shuffle":  # what tasks that begin later would fetch, from any executor
        for path in (faults.parent / "spark").rglob("shuffle_*"):
            path.unlink(missing_ok=True)
    elif what == "slow":
        time.sleep(SLOW_S)


def _made(kind: str, faults: Path) -> None:
    from pyspark import TaskContext

    task = TaskContext.get()
    if task is not None and task.attemptNumber():
        (faults / f"again {kind}").touch()
    for what in ("worker", "executor", "shuffle", "slow"):
        if _is_mine(faults / f"{what} {kind}"):
            _strike(what, faults)


def _install(faults: Path) -> None:
    from lakesweep.control.area import ControlArea

    put = ControlArea.put

    def broken(area: ControlArea, name: str, *args: Any, **more: Any) -> str:
        etag = put(area, name, *args, **more)
        _made(name.rpartition("/")[2].partition("-")[0], faults)
        return etag

    ControlArea.put = broken  # type: ignore[method-assign]


def _install_of_rows(faults: Path) -> None:
    from lakesweep.spark.rows import tasks

    match_split, write_group = tasks.match_split, tasks.write_group

    def broken_match(*args: Any) -> Iterator[Any]:
        for found in match_split(*args):
            yield found
            _made("match", faults)

    def broken_write(*args: Any) -> Any:
        written = write_group(*args)
        _made("index", faults)
        return written

    tasks.match_split, tasks.write_group = broken_match, broken_write


def _install_of_rewriting(faults: Path) -> None:
    from lakesweep.spark.rows import rewriting

    rewrite_bin = rewriting.rewrite_bin

    def broken(*args: Any) -> Any:
        made = rewrite_bin(*args)
        _made("rewrite", faults)
        return made

    rewriting.rewrite_bin = broken


if "LAKESWEEP_TEST_FAULTS" in os.environ:
    _faults = Path(os.environ["LAKESWEEP_TEST_FAULTS"])
    if any(each.name.endswith((" match", " index")) for each in _faults.iterdir()):
        _install_of_rows(_faults)
    elif any(each.name.endswith(" rewrite") for each in _faults.iterdir()):
        _install_of_rewriting(_faults)
    else:
        _install(_faults)
