"""Maintenance of Apache Paimon tables.

A *table* is a directory of immutable files. Its *roots* are the documents that make files readable: snapshots, tags
and long-lived changelogs, of every branch. An *operation* loads facts about a table and plans what may be deleted. On
request it executes the plan. A file that some root needs is never in a plan.

`Table` is the API for programs: `from lakesweep import Table`. It is loaded when it is first asked for, since functions
on AWS import this package at each cold start.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # as in `typing`, whose import would take longer than this one
if TYPE_CHECKING:
    from lakesweep.api.lake import overview, tables
    from lakesweep.api.results import Document, Report, RunError, RunRefusedError, RunStaleError
    from lakesweep.api.table import Table
    from lakesweep.errors import (
        AccessDeniedError,
        FormatError,
        LeaseHeldError,
        MaintenanceError,
        RefusedError,
        StalePlanError,
        StorageError,
        UsageError,
    )

__all__ = [
    "AccessDeniedError",
    "Document",
    "FormatError",
    "LeaseHeldError",
    "MaintenanceError",
    "RefusedError",
    "Report",
    "RunError",
    "RunRefusedError",
    "RunStaleError",
    "StalePlanError",
    "StorageError",
    "Table",
    "UsageError",
    "overview",
    "tables",
]
_MODULES = {
    **dict.fromkeys(("Document", "Report", "RunError", "RunRefusedError", "RunStaleError"), "api.results"),
    **dict.fromkeys(("overview", "tables"), "api.lake"),
    "Table": "api.table",
}
"""Name -> its module; the others are in `errors`."""


if not TYPE_CHECKING:  # else every name would seem to exist

    def __getattr__(name: str) -> object:
        """Load a public name."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return getattr(import_module(f"lakesweep.{_MODULES.get(name, 'errors')}"), name)
