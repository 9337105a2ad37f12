"""What can go wrong, as far as a caller acts differently on it.

Every class carries the exit code of the command line (`exit_code`) and a stable word (`code`) that appears in JSON.
A message is one sentence that names the table or path, what was expected and what was found. It never has a password:
what stands before the host of a URL is masked.
"""

import re

_USER_INFO = re.compile(r"""(https?://)[^\s"']*@|(://)[^/\s?#]*@""", re.IGNORECASE)


def masked(text: str) -> str:
    """Return a text without the name and the password that a URL in it has before its host.

    A password may hold a slash that nobody escaped. So of a web address all goes up to the last `@`.
    """
    return _USER_INFO.sub(r"\1\2***@", text) if "@" in text else text


class MaintenanceError(Exception):
    """The base of every error that Lakesweep raises on purpose."""

    exit_code = 1
    code = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(masked(message))
        if code is not None:
            self.code = code


class UsageError(MaintenanceError):
    """The caller's words are off: a malformed argument, a missing setting."""

    exit_code = 2
    code = "usage"


class RefusedError(MaintenanceError):
    """The request is understood and not carried out, because it could lose something."""

    exit_code = 3
    code = "refused"


class FormatError(MaintenanceError):
    """Bytes that do not decode as what they should be. Never means "empty"."""

    exit_code = 1
    code = "damaged"


class HeldBackError(RefusedError):
    """A fleet policy says that a table is to be left alone."""

    code = "paused"


class UnsupportedFormatError(RefusedError):
    """Bytes that are whole, and beyond this reader: a later version, or ORC without pyarrow."""

    code = "unsupported"


class StorageError(MaintenanceError):
    """A request to a store failed; what it would have said is unknown."""

    code = "storage"


class ObjectNotFoundError(StorageError):
    """The store answered that this key does not exist."""

    code = "not_found"


class AccessDeniedError(StorageError):
    """The store refused the request."""

    exit_code = 3
    code = "access_denied"


class PreconditionFailedError(StorageError):
    """A conditional put or delete found something else than the caller expected."""

    code = "precondition_failed"


class StalePlanError(RefusedError):
    """The table moved in a way that the plan does not allow for; plan again."""

    code = "stale"


class LeaseHeldError(MaintenanceError):
    """Another maintainer holds this table's lease."""

    exit_code = 5
    code = "lease_held"


class LockHeldError(StorageError):
    """Another process holds a lock file of a local folder, and does not let it go."""

    exit_code = 5
    code = "lock_held"


class OutOfTimeError(MaintenanceError):
    """The time that the caller gave is nearly over; what is begun goes on in another call."""

    exit_code = 4
    code = "out_of_time"


class TerminatedError(KeyboardInterrupt):
    """A signal asked this process to end. Handled as Ctrl-C is, which raises `KeyboardInterrupt`."""

    def __init__(self, name: str, number: int) -> None:
        super().__init__()
        self.name = name
        """Of the signal: `SIGTERM`."""
        self.number = number


def stopped_by(stop: KeyboardInterrupt) -> str:
    """Return who stopped this process, for sentences."""
    return stop.name if isinstance(stop, TerminatedError) else "Ctrl-C"


def stop_code(stop: KeyboardInterrupt) -> str:
    """Return the code word of a run that was stopped."""
    return "terminated" if isinstance(stop, TerminatedError) else "interrupted"


def stop_exit_code(stop: KeyboardInterrupt) -> int:
    """Return the exit code of the command line: 128 and the number of the signal, as shells have it."""
    return 128 + stop.number if isinstance(stop, TerminatedError) else 130


class LeaseLostError(MaintenanceError):
    """This run no longer owns its lease, so it stopped."""

    exit_code = 4
    code = "lease_lost"
