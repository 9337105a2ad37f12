"""Measure the tables that a command line names."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakesweep.api.place import given
from lakesweep.api.warehouse import PlaceOpening, with_options
from lakesweep.cli.options import Place
from lakesweep.cli.terminal.progress import shown_progress
from lakesweep.errors import UsageError
from lakesweep.model.overview import Overview
from lakesweep.operations.overview.rules.order import ORDERS
from lakesweep.operations.overview.warehouse import Choices, overview
from lakesweep.storage.requests import RequestCounter

SEVERITIES = ("act", "look")
_MAX_LIST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Asked:
    """A call as typed."""

    place: Place
    """The options about places, of no table yet."""
    places: tuple[str, ...]
    tables: str | None = None
    """A file with places."""
    order: str = "urgency"
    is_fresh: bool = False
    versions: bool = True
    processes: int | None = None
    limit: int = 20
    fail_on: str | None = None

    def check(self) -> None:
        """Check what the parser cannot.

        Raises:
            UsageError: An option has a value that it cannot have.
        """
        for name, value, values in (("--sort", self.order, tuple(ORDERS)), ("--fail-on", self.fail_on, SEVERITIES)):
            if value is not None and value not in values:
                raise UsageError(f"{name}: expected {', '.join(values)}, found {value!r}", code="bad_argument")
        for name, number in (("--limit", self.limit), ("--processes", self.processes)):
            if number is not None and number < 1:
                raise UsageError(f"{name}: expected a number from 1, found {number}", code="bad_argument")


def document_of(asked: Asked) -> Mapping[str, Any]:
    """Measure what a command line asks for, and return the document."""
    return overview_of(asked).to_json()


def overview_of(asked: Asked) -> Overview:
    """Measure what a command line asks for.

    Raises:
        UsageError: An argument is wrong, or names no place.
        MaintenanceError: See `overview`.
    """
    asked.check()
    places = list(dict.fromkeys([*asked.places, *_listed(asked.tables)]))
    if not places:
        raise UsageError("overview: expected a PLACE or --tables FILE with a location, found none", code="bad_argument")
    counter = RequestCounter()
    choices = Choices(asked.order, asked.is_fresh, asked.versions, asked.processes)
    with shown_progress("overview", counter) as progress:
        found = overview(
            PlaceOpening(asked.place), places, choices, title=_title(asked), counter=counter, progress=progress
        )
    return with_options(found, asked.place)


def _title(asked: Asked) -> str | None:
    if asked.tables is None or asked.places:
        return None
    return "the list of standard input" if asked.tables == "-" else f"the list {asked.tables}"


def _listed(file: str | None) -> Iterator[str]:
    """Yield the places of a list. Empty lines and lines that begin with # are none.

    Raises:
        UsageError: It cannot be read.
    """
    if file is None:
        return
    try:
        if file == "-":
            text = sys.stdin.buffer.read(_MAX_LIST_BYTES + 1)
        else:
            with Path(given(file, "--tables")).open("rb") as found:
                text = found.read(_MAX_LIST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--tables: expected a file at {file}: {error.strerror}", code="bad_argument") from error
    if len(text) > _MAX_LIST_BYTES:
        raise UsageError(
            f"--tables: expected at most {_MAX_LIST_BYTES} bytes in {file}, found more", code="bad_argument"
        )
    for line in text.decode("utf-8", "surrogateescape").split("\n"):
        if line.strip() and not line.startswith("#"):
            yield line.rstrip("\r")
