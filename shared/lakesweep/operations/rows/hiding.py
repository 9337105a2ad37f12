"""Errors whose text may quote a value of a condition, or of a row: such a text is shown to nobody."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from lakesweep.errors import MaintenanceError


@contextmanager
def values_kept(where: str) -> Iterator[None]:
    """Let no text out that could quote a value.

    Args:
        where: What the error is about, for the message.

    Raises:
        MaintenanceError: An error of Lakesweep as it is; any other without its text (`internal_error`).
    """
    try:
        yield
    except MaintenanceError:
        raise
    except Exception as error:  # noqa: BLE001 - any other may quote a value
        at = traceback.extract_tb(error.__traceback__)[-1]
        kind = type(error).__name__
        raise MaintenanceError(
            f"{where}: {kind} at {at.name} in line {at.lineno} of {at.filename}; its text is left out, since it may "
            "quote values",
            code="internal_error",
        ) from None
