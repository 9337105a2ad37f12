"""The place where Lakesweep keeps its own documents about one table: never inside the table.

Orphan cleaners of other engines delete files that they do not know. So no document of Lakesweep may lie below a table's
root.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from lakesweep.control.month_sums import Meter
from lakesweep.control.seal import Sealer
from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.values.json_document import SEPARATORS
from lakesweep.model.who import Who, nobody
from lakesweep.storage.location import parse_location
from lakesweep.storage.store import Body, Store
from lakesweep.storage.wrappers.wrapping import endpoint_of

MAX_CONTROL_BYTES = 256 << 20
MAX_JSON_BYTES = 64 << 20
"""The largest uncompressed document. Documents of large tables have a few MB: the rows of plans lie in parts."""
MAX_JSON_SEPARATORS = 2_000_000
"""Four times what 20 000 actions take, one row each. A JSON value takes some 60 bytes of memory."""
_encoded = json.JSONEncoder(sort_keys=True).encode


def table_key(location: str, endpoint: str = "") -> str:
    """Return a readable name for a table that no other table shares.

    The name is the last two parts of the table's path, and a hash of the whole normalised location. A local table has
    one name, whatever links its path contains, so that two maintainers meet at one lease.

    Args:
        location: The table's normalised location.
        endpoint: The endpoint of its S3; empty for AWS. See `ControlArea`.
    """
    location = os.path.realpath(location) if location.startswith("/") else location
    parts = [re.sub(r"[^A-Za-z0-9_.-]", "_", part)[:60] for part in location.split("/")[-2:] if part]
    whole = f"{endpoint}\n{location}" if endpoint else location
    return "-".join([*parts, hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()[:12]])


def check_apart(control: str, table: str) -> None:
    """Refuse a control location inside the table that it controls.

    Raises:
        RefusedError: `control` is the table's root or lies below it.
    """
    if parse_location(table).contains(parse_location(control)):
        raise RefusedError(
            f"control location {control} lies inside table {table}; expected a place outside, "
            "since orphan cleaners of other engines would remove it",
            code="control_inside_table",
        )


@dataclass(frozen=True, slots=True)
class ControlArea:
    """The documents about one table in a control location."""

    store: Store
    table: str
    """The table's normalised location."""
    root: str = "tables"
    """`tables` has documents to keep; `scans` has those that a scan on Spark needs until it ends. `overviews` has what
    overviews of the tables of a folder measured; its `table` is the folder."""
    endpoint: str = ""
    """The endpoint of the table's S3, if it is not AWS and the control location is outside S3: two such services may
    have buckets of one name. A control location in S3 lies in the same S3 as the table, so it needs no endpoint."""
    sealer: Sealer | None = field(default=None, repr=False, compare=False)
    """Seals plans, and refuses plans without a right seal; `None`: no key is configured."""
    remembers: bool = True
    """Runs use the metadata cache of earlier runs, and write it for later ones."""
    who: Callable[[], Who] = field(default=nobody, compare=False)
    """Says who runs. It is called once a run has begun, since the answer may take a request."""
    meter: Meter | None = field(default=None, repr=False, compare=False)
    """Says what runs use, for the sums in the lease; `None`: nothing is summed."""
    prefix: str = field(init=False, repr=False, compare=False)
    """The folder of this table, with a closing slash. Links to a local table are followed only once. So a run keeps its
    lease, plan and ledger in one folder even if somebody changes such a link meanwhile."""

    def __post_init__(self) -> None:
        """Determine the folder of the table."""
        object.__setattr__(self, "prefix", f"{self.root}/{table_key(self.table, self.endpoint)}/")

    @property
    def is_in_s3(self) -> bool:
        """Tell whether requests for these documents cost money."""
        return "://" in self.store.location

    def read(self, name: str) -> Body:
        """Return one document."""
        return self.store.read(self.prefix + name, max_bytes=MAX_CONTROL_BYTES)

    def put(self, name: str, data: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        """Write one document and return its ETag."""
        return self.store.put(self.prefix + name, data, if_absent=if_absent, if_match=if_match)

    def names(self, folder: str) -> list[str]:
        """Return the names below `folder`, relative to this area."""
        return [entry.key.removeprefix(self.prefix) for entry in self.store.list(self.prefix + folder)]

    def folders(self, folder: str) -> list[str]:
        """Return the names of the folders directly below `folder`."""
        return list(self.store.folders(self.prefix + folder))

    def path(self, name: str) -> str:
        """Return the full location of a document, for messages."""
        return f"{self.store.location}/{self.prefix}{name}"


def area_of(control: Store, table: Store, root: str = "tables") -> ControlArea:
    """Return the documents about a table.

    Args:
        control: The control location.
        table: The table's store.
        root: As of `ControlArea`.
    """
    is_local = not control.location.startswith("s3://")
    return ControlArea(control, table.location, root, endpoint_of(table) if is_local else "")


def to_json_bytes(document: object) -> bytes:
    """Return the stored form of control documents: one line for every value, and for every row of a list.

    Plans and reports have thousands of rows. Indenting inside the rows would take more time than all other work on
    them.
    """
    return (_indented(document, "\n") + "\n").encode()


def _indented(value: object, newline: str) -> str:
    deeper = f"{newline} "
    if value and isinstance(value, dict):
        lines = [f"{_encoded(key)}: {_indented(value[key], deeper)}" for key in sorted(value)]
        return f"{{{deeper}{f',{deeper}'.join(lines)}{newline}}}"
    if isinstance(value, list) and any(isinstance(item, dict) for item in value):
        return f"[{deeper}{f',{deeper}'.join(map(_encoded, value))}{newline}]"
    return _encoded(value)


def from_json_bytes(data: bytes, path: str, *, is_bounded: bool = True) -> dict[str, object]:
    """Return a stored control document.

    Args:
        data: The document.
        path: For messages.
        is_bounded: Refuse a document with more bytes or values than Lakesweep ever writes; `False`: the caller has
            checked.

    Raises:
        FormatError: It is not a JSON object, or it is too large.
    """
    if is_bounded:
        if len(data) > MAX_JSON_BYTES:
            raise FormatError(f"{path}: expected a JSON document of at most {MAX_JSON_BYTES} bytes, found {len(data)}")
        if (found := sum(map(data.count, SEPARATORS))) > MAX_JSON_SEPARATORS:
            raise FormatError(
                f"{path}: expected at most {MAX_JSON_SEPARATORS} JSON values in a document, found {found} separators"
            )
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: expected a JSON document, found {len(data)} bytes that do not parse") from error
    if not isinstance(document, dict):
        raise FormatError(f"{path}: expected a JSON object, found {type(document).__name__}")
    return document
