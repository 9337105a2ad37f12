"""Tasks of a scan: one message asks a worker for one task.

A task's id is determined by its content and origin. A step that makes the same task again gives it the same id, so
every step can tell whether the task is done. A document of the scan lists the manifests that a task decodes, since they
do not fit into a message.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated

from lakesweep.format.codec import Check, Count, from_json
from lakesweep.operations.orphans.fan_out.limits import LIST_PAGES
from lakesweep.operations.orphans.fan_out.spill import SLOTS
from lakesweep.operations.orphans.listing import Shard

_LONG_ID = 150
Id = Annotated[
    str,
    Check(re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,199}").fullmatch, "letters, digits, dashes and dots, 200 at most"),
]
Document = Annotated[
    str, Check(re.compile(r"[a-z0-9-]{1,100}\.json\.gz").fullmatch, "the name of a document of the scan")
]


@dataclass(frozen=True, slots=True)
class ListTask:
    """List a range of keys."""

    id: Id
    shard: Shard
    budget: Count
    """Most pages to list."""

    kind = "list"


@dataclass(frozen=True, slots=True)
class DecodeTask:
    """Decode the manifests that a document of the scan lists under the task's id."""

    id: Id
    document: Document

    kind = "decode"


@dataclass(frozen=True, slots=True)
class MatchTask:
    """Match the names whose hashes begin with some bytes."""

    id: Id
    document: Document
    """Name of the document with the input of the match."""
    first: Count
    """The first byte of the range."""
    end: Count
    """The byte after the last one of the range."""
    rows: Count
    """How many names and objects the task has to find. A name that it missed could be that of a live file."""
    by_owner: bool = False

    kind = "match"

    def __post_init__(self) -> None:
        """Check the range."""
        if not self.first < self.end <= SLOTS:
            raise ValueError(f"an end from {self.first + 1} to {SLOTS}, not {self.end},")


Task = ListTask | DecodeTask | MatchTask


def task_of(document: object, name: str) -> Task:
    """Read a task from a message.

    Raises:
        FormatError: The message is not a valid task.
    """
    task: Task = from_json(Task, document, name, "the task")
    return task


def children_of(task_id: str, shards: Sequence[Shard]) -> Iterator[ListTask]:
    """Yield the tasks for the ranges that a listing task left unlisted."""
    for number, shard in enumerate(shards):
        child = f"{task_id}.{number}"
        if len(child) > _LONG_ID:  # after many generations of splits, where keys cannot be guessed
            child = f"list-{blake2b(child.encode(), digest_size=16).hexdigest()}"
        yield ListTask(child, shard, LIST_PAGES)
