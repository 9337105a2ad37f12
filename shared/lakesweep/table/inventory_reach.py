"""Whether an inventory reaches as far as a table does, in time and in keys.

An inventory of one prefix of a bucket does not say which. One that leaves out a part of a table would do no harm to the
table itself, whose roots are not taken from it; but it may show the files of another table below this one without the
schema that tells of it. What is left out is left out for one reason: it does not begin with the prefix, and all that is
listed does. So only what does not begin as all listed keys do has to be looked at, mostly nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import chain

from lakesweep.errors import RefusedError
from lakesweep.format.json_document import describe
from lakesweep.model.roots import Root
from lakesweep.storage.split import shared_letters
from lakesweep.storage.store import Page, Store
from lakesweep.table.inventory import Inventory

SETTLED_MS = 24 * 3_600_000
"""An inventory may miss what was written shortly before it was begun. What is older than that by a day is in it."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Reach:
    """The least and the greatest key that an inventory lists below a root. Adds up over pages, files and executors."""

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
        """Return what all listed keys begin with."""
        if self.first is None or self.last is None:
            return ""
        return self.first[: shared_letters(self.first, self.last)]


def reach_of(page: Page) -> Reach:
    """Return the reach of a page, in which keys ascend."""
    return Reach(page[0].key, page[-1].key) if page else Reach()


def refuse_partial(table: str, store: Store, inventory: Inventory, reach: Reach) -> None:
    """Refuse an inventory that leaves out a part of a root, by a prefix that it was configured with.

    Costs no request where the listed keys begin in different ways, as those of a table do.

    Args:
        table: For the message.
        store: Rooted at what was listed: a table, or a root outside that is the table's own.
        inventory: In place of a listing of it.
        reach: Of all that it lists there.

    Raises:
        RefusedError: An object that is older than the inventory is not listed.
        StorageError: A request failed.
    """
    beginning = reach.beginning
    if reach.first is not None and not beginning:
        return
    settled_ms = inventory.created_ms - SETTLED_MS
    for page in _beside(store, beginning):
        for each in page:
            if not each.key.startswith(beginning or "\0") and each.modified_ms < settled_ms:
                listed = f"only keys that begin with {describe(beginning)}" if beginning else "nothing"
                raise RefusedError(
                    f"table {table}: expected that {inventory.location} of {_time(inventory.created_ms)} lists all of "
                    f"{store.location}, found {listed}, and {describe(each.key)} of {_time(each.modified_ms)} is "
                    "there; it must not be configured with a prefix that is longer than the table's",
                    code="inventory_is_partial",
                )


def settled_cutoff(inventory: Inventory, cutoff_ms: int) -> int:
    """Return the time before which something must have been written to go, by what an inventory lists.

    What is younger may be listed while that is not which tells whose it is: the schema of another table below this one
    was written before the files of that table. What is older by `SETTLED_MS` than the inventory is all there.
    """
    return min(cutoff_ms, inventory.created_ms - SETTLED_MS)


def refuse_too_old(table: str, inventory: Inventory, roots: Iterable[Root]) -> None:
    """Refuse an inventory that was begun before the oldest root was committed: it lists nothing that the roots wrote.

    Args:
        table: For the message.
        inventory: In place of a listing of that table.
        roots: All that the table retains.

    Raises:
        RefusedError: It is older than all of them.
    """
    oldest = min(roots, key=lambda root: root.snapshot.time_ms, default=None)
    if oldest is not None and inventory.created_ms < oldest.snapshot.time_ms:
        raise RefusedError(
            f"table {table}: expected an inventory that is younger than the oldest root, which is {oldest.ref} of "
            f"{_time(oldest.snapshot.time_ms)}, found {inventory.location} of {_time(inventory.created_ms)}",
            code="inventory_too_old",
        )


def _beside(store: Store, beginning: str) -> Iterable[Page]:
    """List what comes before all keys with a beginning, and what comes after most of them."""
    if not beginning:
        return store.list_range("")
    return chain(store.list_range("", until=beginning), store.list_range("", after=f"{beginning}\U0010ffff"))


def _time(epoch_ms: int) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=epoch_ms)).isoformat(timespec="milliseconds")
    except OverflowError:  # a root's time may be any number
        return f"{epoch_ms} ms after the epoch"
