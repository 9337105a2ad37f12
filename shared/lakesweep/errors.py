"""The errors of Lakesweep. There is a class of its own only where a caller acts differently.

Every class has the exit code of the command line (`exit_code`) and a stable word (`code`) that appears in JSON. A
message is one sentence that names the table or path, what was expected and what was found. It never contains a
password: the part of a URL before the host is masked.
"""

import re
from collections.abc import Sequence

_USER_INFO = re.compile(r"""(https?://)[^\s"']*@|(://)[^/\s?#]*@""", re.IGNORECASE)


def masked(text: str) -> str:
    """Return a text in which the user name and password of each URL are masked.

    A password may contain an unescaped slash. So in a web address everything up to the last `@` is masked.
    """
    return _USER_INFO.sub(r"\1\2***@", text) if "@" in text else text


def some_of(names: Sequence[object], at_most: int = 10) -> str:
    """Return the first of some names, and how many more there are, so that a message remains readable."""
    more = f" and {len(names) - at_most} more" if len(names) > at_most else ""
    return ", ".join(map(str, names[:at_most])) + more


_HAS_COMMITTED = "the run has committed a snapshot, or may have"


class MaintenanceError(Exception):
    """The base class of all errors that Lakesweep raises deliberately."""

    exit_code = 1
    code = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(masked(message))
        if code is not None:
            self.code = code


class UsageError(MaintenanceError):
    """The call is wrong: for example a malformed argument or a missing setting."""

    exit_code = 2
    code = "usage"


class RefusedError(MaintenanceError):
    """Lakesweep understood the request, but refuses it because it could lose data."""

    exit_code = 3
    code = "refused"


class FormatError(MaintenanceError):
    """Bytes could not be decoded as expected. Such bytes never count as empty."""

    exit_code = 1
    code = "damaged"


class HeldBackError(RefusedError):
    """The fleet policy pauses the table."""

    code = "paused"


class UnsupportedFormatError(RefusedError):
    """The bytes are intact, but this reader cannot read them: a later version, or ORC without pyarrow."""

    code = "unsupported"


class StorageError(MaintenanceError):
    """A request to a store failed, so its answer is unknown."""

    code = "storage"


class ObjectNotFoundError(StorageError):
    """The store answered that this key does not exist."""

    code = "not_found"


class AccessDeniedError(StorageError):
    """The store refused the request."""

    exit_code = 3
    code = "access_denied"


class PreconditionFailedError(StorageError):
    """A conditional put or delete found another state than the caller expected."""

    code = "precondition_failed"


class StalePlanError(RefusedError):
    """The table changed in a way that the plan does not allow; plan again."""

    code = "stale"


class LeaseHeldError(MaintenanceError):
    """Another maintainer holds this table's lease."""

    exit_code = 5
    code = "lease_held"


class LockHeldError(StorageError):
    """Another process holds the lock of a local document and does not release it."""

    exit_code = 5
    code = "lock_held"


class OutOfTimeError(MaintenanceError):
    """The caller's time is nearly over. Another call continues work that has begun."""

    exit_code = 4
    code = "out_of_time"


class TerminatedError(KeyboardInterrupt):
    """A signal asked this process to end. It is handled like Ctrl-C, which raises `KeyboardInterrupt`."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__()
        self.name = name
        """Name of the signal, such as `SIGTERM`."""
        self.number = number


def note_commit(stop: KeyboardInterrupt) -> None:
    """Note that a run which somebody stops has committed a snapshot, or may have."""
    stop.add_note(_HAS_COMMITTED)


def has_committed(error: BaseException) -> bool:
    """Tell whether a stopped run has committed a snapshot, or may have."""
    return _HAS_COMMITTED in getattr(error, "__notes__", ())


def stopped_by(stop: KeyboardInterrupt) -> str:
    """Return what stopped this process, for messages."""
    return stop.name if isinstance(stop, TerminatedError) else "Ctrl-C"


def stop_code(stop: KeyboardInterrupt) -> str:
    """Return the code word of a stopped run."""
    return "terminated" if isinstance(stop, TerminatedError) else "interrupted"


def stop_exit_code(stop: KeyboardInterrupt) -> int:
    """Return the exit code of the command line: 128 plus the number of the signal, as in shells."""
    return 128 + stop.number if isinstance(stop, TerminatedError) else 130


class LeaseLostError(MaintenanceError):
    """This run no longer owns its lease, so it stopped."""

    exit_code = 4
    code = "lease_lost"
