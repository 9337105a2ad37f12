"""What a measure knows of a table before it reads any metadata: one listing of its documents, and the control location.

Few requests show it: a listing of each folder with documents, the fleet policy, and three documents of the control
location. They are sent together. Their fingerprint tells whether an earlier measure still holds.
"""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace

from lakesweep import __version__
from lakesweep.control.lease import LeaseDocument, read_lease
from lakesweep.control.receipts import receipts_of
from lakesweep.control.scan_history import PastScan, read_history
from lakesweep.control.state import BranchState, read_states
from lakesweep.errors import FormatError
from lakesweep.format.codec import to_json
from lakesweep.model.overview import Pass, Receipt
from lakesweep.model.roots import MAIN, BranchListing, TableListing
from lakesweep.operations.lifetimes.ruling import shown_ruling
from lakesweep.runs.fleet import Ruling, ruling_of
from lakesweep.runs.session import Table
from lakesweep.storage.together import begun, waits
from lakesweep.table.discover import discover

VERSION = 2
"""Grows when the same table would be measured with another result."""


@dataclass(frozen=True, slots=True)
class Control:
    """The documents of the control location about one table."""

    state: BranchState | None = None
    """What the last pass over main left; `None`: there was none, or it is damaged."""
    scan: PastScan | None = None
    """The last scan for orphan files."""
    lease: LeaseDocument | None = None
    """`None`: there is no control location, or the lease is damaged."""
    problem: str | None = None
    """Why the lease cannot be read."""

    @property
    def last_pass(self) -> Pass | None:
        """Return the last pass over main."""
        return None if self.state is None else Pass(self.state.checked_ms)

    @property
    def last_scan(self) -> Pass | None:
        """Return the last scan for orphan files."""
        return None if self.scan is None else Pass(self.scan.ended_ms, self.scan.status)

    def receipts(self, table: Table) -> tuple[Receipt, ...] | None:
        """Return what the runs over the table cost and freed; `None`: unknown."""
        if table.area is None:
            return ()
        return None if self.lease is None else receipts_of(table.area, self.lease)


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that few requests show."""

    listing: TableListing
    now_ms: int
    """Right after the listing, by the store's clock."""
    ruling: Ruling | None
    control: Control

    def fingerprint(self, *, versions: bool) -> str:
        """Return a text that differs when a measure may have another result.

        Args:
            versions: The measure counts versions that are not current.
        """
        lease, scan, state = self.control.lease, self.control.scan, self.control.state
        known = [
            f"{VERSION} {__version__} {versions}",
            json.dumps(to_json(shown_ruling(self.ruling)), sort_keys=True),
            "" if lease is None else f"{lease.etag}",
            "" if scan is None else f"{scan.engine} {scan.began_ms} {scan.ended_ms}",
            f"{self.control.problem}",
            "" if state is None else f"{[each.key for each in state.newest]} {state.judged}",
            *_etags(self.listing),
        ]
        digest = hashlib.sha256()
        for each in known:
            digest.update(f"{len(each)}:{each}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


def _etags(listing: TableListing) -> Iterator[str]:
    for name in sorted(listing.branches):
        branch = listing.branches[name]
        yield f"branch {name}"
        for ref in branch.roots():
            yield f"{ref.path} {ref.etag}"
        for document in (*branch.consumers, *branch.schemas, *branch.hints.values()):
            yield f"{document.path} {document.etag}"


def facts_of(table: Table) -> Facts:
    """Read what few requests show.

    Raises:
        RefusedError: There is a symbolic link among the roots.
        UsageError: The location of the fleet policy holds no valid policy.
        StorageError: A request failed.
    """
    with ExitStack() as stack:
        pool = None
        if waits(table.store):
            pool = stack.enter_context(ThreadPoolExecutor(max_workers=4, thread_name_prefix="facts"))
        ruling, state = begun(pool, lambda: ruling_of(table)), begun(pool, lambda: _state(table))
        scan, lease = begun(pool, lambda: _scan(table)), begun(pool, lambda: _lease(table))
        listing = discover(table.store)
        now_ms = table.store.now_ms()
        return Facts(listing, now_ms, ruling(), replace(lease(), state=state(), scan=scan()))


def _state(table: Table) -> BranchState | None:
    if table.area is None:
        return None
    try:
        state = read_states(table.area).get(MAIN)
    except FormatError:
        return None
    return None if state is None or state.checked_ms == 0 else state


def _scan(table: Table) -> PastScan | None:
    past = () if table.area is None else read_history(table.area)
    return past[-1] if past else None


def _lease(table: Table) -> Control:
    if table.area is None:
        return Control()
    try:
        return Control(lease=read_lease(table.area))
    except FormatError as error:
        return Control(problem=str(error))


def main_of(listing: TableListing) -> BranchListing:
    """Return the branch main; an empty one if there is none."""
    return listing.branches.get(MAIN) or BranchListing(MAIN)
