"""Whether this process is a job on Spark.

The command line of a job is in Spark's event log, and no process of it knows what its machines cost.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_IN_JOB: ContextVar[bool] = ContextVar("in a job on Spark", default=False)


def is_job() -> bool:
    """Tell whether this process is a job."""
    return _IN_JOB.get()


@contextmanager
def in_job() -> Iterator[None]:
    """Let commands know that they are a job."""
    token = _IN_JOB.set(True)
    try:
        yield
    finally:
        _IN_JOB.reset(token)
