"""What a call notices about its control location: it is new to the table, or the last maintainer used another one.

Maintainers with two control locations do not see each other's lease. In S3, the hint `snapshot/EARLIEST` names the
control location of the maintainer that wrote it (`storage/s3/store.py`). Others can write this, so it is only a reason
to warn.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress

from lakesweep.control.area import ControlArea
from lakesweep.errors import MaintenanceError, masked
from lakesweep.storage.location import alias_warning
from lakesweep.storage.store import Body, Store
from lakesweep.storage.wrappers.wrapping import WrappingStore, innermost

_HINT = "snapshot/EARLIEST"
_MAX_HINT_BYTES = 1000
_SHOWN = 200
"""Characters of a foreign control location that a warning shows."""


class NoticingStore(WrappingStore):
    """A control location. Before it gets the first document of a call, it is asked whether it knows the table.

    Usually the call has read some document of the table by then, which answers this. In S3, the table's hint is read at
    the same time. A call that writes nothing sends no further request.
    """

    def __init__(self, control: Store, folder: str, table: Store) -> None:
        """Wrap a control location.

        Args:
            control: The control location.
            folder: Its folder with the documents of the table.
            table: The table's store.
        """
        super().__init__(control)
        self._folder, self._table = folder, table
        self._has_read = self._has_asked = False
        self.is_new = False
        """There was no document of the table before."""

    def read(self, key: str, max_bytes: int | None = None) -> Body:
        """Return one document; see `Store.read`."""
        body = super().read(key, max_bytes)
        self._has_read |= key.startswith(self._folder)
        return body

    def notice(self) -> None:
        """Ask whether the control location knows the table, unless this call has asked before."""
        if self._has_asked:
            return
        self._has_asked = True
        with suppress(MaintenanceError):  # then nothing is noticed, which stops no run
            self.is_new = not self._has_read and next(iter(self.list(self._folder)), None) is None
        if self._table.location.startswith("s3://"):
            with suppress(MaintenanceError):
                self._table.read(_HINT, _MAX_HINT_BYTES)

    def put(self, key: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one document; see `Store.put`."""
        if key.startswith(self._folder):
            self.notice()
        return super().put(key, data, if_absent=if_absent, if_match=if_match)


def alias_warnings(area: ControlArea | None, table: Store) -> Iterator[str]:
    """Yield a warning for each bucket that looks like an alias of another one."""
    places = (table.location, *([area.store.location] if area else ()))
    yield from (warning for each in dict.fromkeys(places) if (warning := alias_warning(each)))


def control_warnings(area: ControlArea | None, table: Store) -> Iterator[str]:
    """Yield what a call has noticed about its control location.

    Args:
        area: The documents about the table.
        table: The table's store.
    """
    if area is None:
        return
    own = area.store.location
    if isinstance(area.store, NoticingStore) and area.store.is_new:
        yield (
            f"control location {own} has not seen this table before; all maintainers of a table must name the same one"
        )
    other = getattr(innermost(table), "other_control", None)
    if other is not None:
        yield (
            f"control location {masked(other)[:_SHOWN]!r} was used by the last maintainer of this table, as "
            f"{_HINT} says, and this call uses {own}; neither sees the lease of the other, so name the same one"
        )


def with_warnings(document: Mapping[str, object], area: ControlArea | None, table: Store) -> Mapping[str, object]:
    """Return the document of a reading command with what the call has noticed."""
    noticed, known = [*control_warnings(area, table)], document.get("warnings")
    if not noticed:
        return document
    return {**document, "warnings": noticed + (known if isinstance(known, list) else [])}
