"""The chain of the ledger: each part holds the hash of the part before.

Each writer of a run has its own chain. Writers are the run itself (`main`), and each attempt at a slice of a plan that
many processes carry out. The first row of a part is its *head*: the writer, the number of the part, and the hash of the
part before.

The hash before the first part covers the beginning of the run: its id, the id and hash of its plan, the fleet policy,
and who runs. The report of the run has the hash of the last part of `main`. `main` records the last hashes of the other
writers.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from lakesweep.control.ndjson import compact, pack
from lakesweep.model.who import Who

MAIN_WRITER = "main"
HEAD = "head"
"""The one key of the first row of a part."""


@dataclass(frozen=True, slots=True)
class Beginning:
    """What is known of a run when it begins."""

    table: str
    run_id: str
    plan_id: str
    plan_hash: str | None = None
    """Of the plan's actions."""
    policy_etag: str | None = None
    """Of the fleet policy, as the run read it."""
    by: Who = field(default_factory=Who)

    def to_json(self) -> dict[str, object]:
        """Return its form in heads."""
        return asdict(self)


class Chain:
    """The parts of one writer, as it writes them."""

    def __init__(self, beginning: Beginning, writer: str = MAIN_WRITER) -> None:
        self._begins = {**beginning.to_json(), "writer": writer}
        self.writer = writer
        self.number = 0
        """Number of parts written so far."""
        self.last = hash_of_beginning(self._begins)
        """Hash of the last part."""

    def pack(self, rows: Sequence[Mapping[str, object]]) -> bytes:
        """Return the next part."""
        head = {**self._begins, "number": self.number + 1, "previous": self.last}
        return pack([{HEAD: head}, *rows])

    def written(self, data: bytes) -> None:
        """Note that the next part is written."""
        self.number, self.last = self.number + 1, hash_of_part(data)

    def to_json(self) -> dict[str, object]:
        """Return where the chain ends, for the report."""
        return {"parts": self.number, "head": self.last}


def is_object_row(row: Mapping[str, object]) -> bool:
    """Tell whether a row of a part is about an object; the other rows continue the chains."""
    return row.keys() not in ({HEAD}, {"writer", "ends"})


def hash_of_beginning(begins: Mapping[str, object]) -> str:
    """Return the hash before the first part.

    Args:
        begins: A head; its number and previous hash are ignored.
    """
    stated = {key: value for key, value in begins.items() if key not in ("number", "previous")}
    return hashlib.sha256(compact(stated).encode()).hexdigest()


def hash_of_part(data: bytes) -> str:
    """Return the hash of a part as it is stored."""
    return hashlib.sha256(data).hexdigest()
