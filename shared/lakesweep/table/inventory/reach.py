"""Whether an inventory covers a table, in time and in keys.

An inventory of one prefix of a bucket does not name the prefix. If it leaves out a part of a table, the table itself is
safe, since its roots are not read from the inventory. But the inventory may show files of another table below this one
without the schema that reveals the other table.

An object is left out for one reason only: its key does not begin with the prefix. All listed keys begin with it. So
Lakesweep checks only keys without the common beginning of all listed keys. Usually there are none.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain

from lakesweep.errors import RefusedError
from lakesweep.format.values.json_document import describe
from lakesweep.model.roots import Root
from lakesweep.model.safety import INVENTORY_SETTLED_MS
from lakesweep.storage.split import shared_letters
from lakesweep.storage.store import Page, Store
from lakesweep.table.inventory.manifest import Inventory

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reach:
    """The least and the greatest key that an inventory lists below a root. Reaches of pages and files can be added."""

    first: str | None = None
    last: str | None = None

    def __add__(self, other: "Reach") -> "Reach":
        if self.first is None or self.last is None:
            return other
        if other.first is None or other.last is None:
            return self
        return Reach(min(self.first, other.first), max(self.last, other.last))

    @property
    def beginning(self) -> str:
        """Return the common beginning of all listed keys."""
        if self.first is None or self.last is None:
            return ""
        return self.first[: shared_letters(self.first, self.last)]


def reach_of(page: Page) -> Reach:
    """Return the reach of a page, in which keys ascend."""
    return Reach(page[0].key, page[-1].key) if page else Reach()


def refuse_partial(table: str, store: Store, inventory: Inventory, reach: Reach) -> None:
    """Refuse an inventory that leaves out a part of a root because it is configured with a prefix.

    The check takes no request if the listed keys have no common beginning, as is usual for a table.

    Args:
        table: The table, for the message.
        store: Rooted at the listed root: a table, or an external root that the table owns.
        inventory: The inventory in place of a listing of this root.
        reach: The reach of everything that it lists there.

    Raises:
        RefusedError: It does not list an object that is older than itself.
        StorageError: A request failed.
    """
    beginning = reach.beginning
    if reach.first is not None and not beginning:
        return
    settled_ms = inventory.created_ms - INVENTORY_SETTLED_MS
    for page in _beside(store, beginning):
        for each in page:
            if not each.key.startswith(beginning or "\0") and each.modified_ms < settled_ms:
                listed = f"only keys that begin with {describe(beginning)}" if beginning else "nothing"
                raise RefusedError(
                    f"table {table}: expected {inventory.location} of {_time(inventory.created_ms)} to list all of "
                    f"{store.location}, found {listed}, although {describe(each.key)} of {_time(each.modified_ms)} "
                    "exists; configure the inventory without a prefix longer than the table's",
                    code="inventory_is_partial",
                )


def settled_cutoff(inventory: Inventory, cutoff_ms: int) -> int:
    """Return the cutoff for objects that an inventory lists: at most `INVENTORY_SETTLED_MS` before the inventory.

    A newer file may be listed without the schema that shows which table owns it. The schema of a table below this one
    was written before the files of that table. And the inventory lists everything that is older by
    `INVENTORY_SETTLED_MS`.
    """
    return min(cutoff_ms, inventory.created_ms - INVENTORY_SETTLED_MS)


def refuse_too_old(table: str, inventory: Inventory, roots: Iterable[Root]) -> None:
    """Refuse an inventory that was begun before the oldest root was committed: it lists nothing that the roots wrote.

    Args:
        table: The table, for the message.
        inventory: The inventory in place of a listing of this table.
        roots: All roots of the table.

    Raises:
        RefusedError: The inventory is older than all of them.
    """
    oldest = min(roots, key=lambda root: root.snapshot.time_ms, default=None)
    if oldest is not None and inventory.created_ms < oldest.snapshot.time_ms:
        raise RefusedError(
            f"table {table}: expected an inventory that is younger than the oldest root, which is {oldest.ref} of "
            f"{_time(oldest.snapshot.time_ms)}, found {inventory.location} of {_time(inventory.created_ms)}",
            code="inventory_too_old",
        )


def _beside(store: Store, beginning: str) -> Iterable[Page]:
    """List the keys before all keys with a beginning, and the keys after most of them."""
    if not beginning:
        return store.list_range("")
    return chain(store.list_range("", until=beginning), store.list_range("", after=f"{beginning}\U0010ffff"))


def _time(epoch_ms: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=epoch_ms)).isoformat(timespec="milliseconds")
    except OverflowError:  # The time of a root may be any number.
        return f"{epoch_ms} ms after the epoch"
