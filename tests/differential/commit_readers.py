"""Readers that share no code with the engine: pypaimon, and the Rust implementation where it is installed.

`make rust-reader` installs the latter into `build/rust-reader`: its wheel brings 276 MB.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.differential.commit_model import Contents, contents_of
from tests.differential.commit_tables import Kind
from tests.differential.engine import PROJECT

RUST = PROJECT / "build" / "rust-reader"
Reader = Callable[[Path, Kind], Contents]
"""Returns the newest rows of the table at a path."""


def readers() -> Mapping[str, Reader]:
    """Return the readers that this machine has."""
    return {"pypaimon": read_by_python} | ({"rust": read_by_rust} if _rust() is not None else {})


def read_by_python(location: Path, kind: Kind) -> Contents:
    """Read with pypaimon."""
    from pypaimon import CatalogFactory

    catalog = CatalogFactory.create({"warehouse": str(location.parents[1])})
    builder = catalog.get_table(f"{location.parent.name.removesuffix('.db')}.{location.name}").new_read_builder()
    splits = builder.new_scan().plan().splits()
    return _contents(kind, builder.new_read().to_arrow(splits).to_pylist() if splits else [])


def read_by_rust(location: Path, kind: Kind) -> Contents:
    """Read with the Rust implementation."""
    rust = _rust()
    assert rust is not None
    newest = max((location / "schema").glob("schema-*"), key=lambda path: int(path.name.removeprefix("schema-")))
    builder = rust.Table.from_resolved_schema(str(location), newest.read_text()).new_read_builder()
    batches = builder.new_read().read(builder.new_scan().plan().splits())
    return _contents(kind, (row for batch in batches for row in batch.to_pylist()))


@functools.cache
def _rust() -> Any:
    if not (RUST / "pypaimon_rust").is_dir():
        return None
    if str(RUST) not in sys.path:
        sys.path.append(str(RUST))
    return importlib.import_module("pypaimon_rust.datafusion")


def _contents(kind: Kind, rows: Iterable[Mapping[str, object]]) -> Contents:
    names = (*kind.names, "id", "v")
    return contents_of(kind, ([_text(row[name]) for name in names] for row in rows))


def _text(value: object) -> str | None:
    """Write a value as the engine's driver does."""
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case datetime():
            return f"{value.year:04}-{value:%m-%d %H:%M:%S.%f}"
        case Decimal():
            return f"{value:f}"
        case time():
            return f"{value:%H:%M:%S}.{value.microsecond // 1000:03}"
        case _:
            return str(value)
