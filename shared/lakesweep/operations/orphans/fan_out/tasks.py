"""Tasks of a scan: one message asks a worker for one task.

A task's id is determined by its content and origin. A step that makes the same task again gives it the same id, so
every step can tell whether the task is done. A document of the scan lists the manifests that a task decodes, since they
do not fit into a message.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b

from lakesweep.errors import FormatError
from lakesweep.format.values.json_document import require_int, require_str, wrong_type
from lakesweep.operations.orphans.fan_out.limits import LIST_PAGES
from lakesweep.operations.orphans.fan_out.spill import SLOTS
from lakesweep.operations.orphans.listing import Shard

_LONG_ID = 150
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,199}")
_DOCUMENT = re.compile(r"[a-z0-9-]{1,100}\.json\.gz")


@dataclass(frozen=True, slots=True)
class ListTask:
    """List a range of keys."""

    id: str
    shard: Shard
    budget: int
    """Most pages to list."""

    kind = "list"

    def to_json(self) -> dict[str, object]:
        """Return the task as it is written into a message."""
        return {"kind": self.kind, "id": self.id, "budget": self.budget, **asdict(self.shard)}


@dataclass(frozen=True, slots=True)
class DecodeTask:
    """Decode the manifests that a document of the scan lists under the task's id."""

    id: str
    document: str

    kind = "decode"

    def to_json(self) -> dict[str, object]:
        """Return the task as it is written into a message."""
        return {"kind": self.kind, "id": self.id, "document": self.document}


@dataclass(frozen=True, slots=True)
class MatchTask:
    """Match the names whose hashes begin with some bytes."""

    id: str
    document: str
    """Name of the document with the input of the match."""
    first: int
    """The first byte of the range."""
    end: int
    """The byte after the last one of the range."""
    rows: int
    """How many names and objects the task has to find. A name that it missed could be that of a live file."""
    by_owner: bool = False

    kind = "match"

    def to_json(self) -> dict[str, object]:
        """Return the task as it is written into a message."""
        return {"kind": self.kind, **asdict(self)}


Task = ListTask | DecodeTask | MatchTask


def task_of(document: Mapping[str, object], name: str) -> Task:
    """Read a task from a message.

    Raises:
        FormatError: The message is not a valid task.
    """
    if not isinstance(document, Mapping):
        raise wrong_type(name, "task", "an object", document)
    document = dict(document)
    kind, task_id = require_str(document, "kind", name), require_str(document, "id", name)
    if not _ID.fullmatch(task_id):
        raise wrong_type(name, "id", "letters, digits, dashes and dots, 200 at most", task_id)
    if kind == "list":
        return ListTask(task_id, shard_of(document, name), _number(document, "budget", name))
    if kind == "decode":
        return DecodeTask(task_id, _document(document, name))
    if kind == "match":
        first, end = _number(document, "first", name), _number(document, "end", name)
        if not first < end <= SLOTS:
            raise wrong_type(name, "end", f"a number above {first}, {SLOTS} at most", end)
        rows, by_owner = _number(document, "rows", name), document.get("by_owner") is True
        return MatchTask(task_id, _document(document, name), first, end, rows, by_owner)
    raise wrong_type(name, "kind", "list, decode or match", kind)


def children_of(task_id: str, shards: Sequence[Shard]) -> Iterator[ListTask]:
    """Yield the tasks for the ranges that a listing task left unlisted."""
    for number, shard in enumerate(shards):
        child = f"{task_id}.{number}"
        if len(child) > _LONG_ID:  # after many generations of splits, where keys cannot be guessed
            child = f"list-{blake2b(child.encode(), digest_size=16).hexdigest()}"
        yield ListTask(child, shard, LIST_PAGES)


def shard_of(row: object, name: str) -> Shard:
    """Read a range of keys from a document.

    Raises:
        FormatError: The row is not a valid range.
    """
    if not isinstance(row, dict):
        raise FormatError(f"{name}: expected a range of keys, found {type(row).__name__}")
    place, climb = _number(row, "place", name), _number(row, "climb", name)
    after, until = row.get("after"), row.get("until")
    # Keys of local files may not be valid UTF-8. Lakesweep's JSON holds them all the same.
    if not isinstance(after, str) or not isinstance(until, str | None):
        raise wrong_type(name, "after", "a key, and until a key or nothing", [after, until])
    return Shard(place, after, until, climb)


def _document(document: dict[str, object], name: str) -> str:
    found = require_str(document, "document", name)
    if not _DOCUMENT.fullmatch(found):
        raise wrong_type(name, "document", "the name of a document of the scan", found)
    return found


def _number(document: dict[str, object], word: str, name: str) -> int:
    value = require_int(document, word, name)
    if value < 0:
        raise wrong_type(name, word, "a whole number from 0", value)
    return value
