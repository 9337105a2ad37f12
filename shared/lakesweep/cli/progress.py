"""A progress bar on a terminal. Without a terminal there is none."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Report = Callable[[int, int], None]
"""Called with the number of objects so far and the total."""
_shown: list[Any] = []
"""The bar of this process, if there is one."""


@contextmanager
def progress_bar(title: str) -> Iterator[Report]:
    """Show a bar on standard error while the block runs, if standard error is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield no_progress
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=None)
        _shown.append(bar)
        try:
            yield lambda done, total: bar.update(task, completed=done, total=total)
        finally:
            _shown.remove(bar)


@contextmanager
def without_bar() -> Iterator[None]:
    """Take the bar away while the block prints to standard output: until then it catches what is printed."""
    for bar in _shown:
        bar.stop()
    try:
        yield
    finally:
        for bar in _shown:
            bar.start()


def no_progress(done: int, total: int) -> None:
    """Show nothing."""
