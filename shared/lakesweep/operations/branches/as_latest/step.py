"""One look at a branch: which files come back and which leave, and whether Paimon's expiry would spare them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lakesweep.commit.base import Base
from lakesweep.errors import RefusedError, some_of
from lakesweep.format.schema import TableSchema
from lakesweep.format.values.binary_row import decode_row
from lakesweep.format.values.json_document import shorten
from lakesweep.model.commits.as_latest import Part
from lakesweep.model.partitions.names import partition_name
from lakesweep.model.roots import MAIN, BranchListing
from lakesweep.operations.branches.as_latest.lives import FileLives, file_lives, first_ids
from lakesweep.operations.branches.as_latest.task import Task
from lakesweep.operations.tags.rules.expiry import ROLLBACK_PREFIX
from lakesweep.table.contents.difference import ChangedFile, Difference, FileKey

UNSAFE_LIVES = "unsafe_lives"
ONLY_MAIN = "only_main"
TAGS_COUNTED = "tags_counted"
SHARED_FILES = "shared_files"
_CREATION = "tag.automatic-creation"
_COUNT = "tag.num-retained-max"
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Step:
    """What a commit on a base changes."""

    base: Base
    difference: Difference
    changes_index: bool
    """The target has other index files, such as deletion vectors."""
    takes_back: bool
    """Some file comes back that was deleted."""


def step_of(task: Task, base: Base, own: BranchListing) -> Step | None:
    """Return what a commit on a base changes, `None` if the branch holds the target already.

    Args:
        task: What to do.
        base: The newest snapshot.
        own: The branch as it was listed, not before the base was read.

    Raises:
        RefusedError: The metadata of one version cannot be built upon, or some version cannot be read.
            `unsafe_lives`, `only_main`, `shared_files`, `tags_counted`: Paimon's expiry could delete files of the new
            snapshot, or of a tag.
        StorageError: A request failed.
    """
    newest, target = base.root.snapshot, task.target.snapshot
    difference = Difference(task.metadata, newest, target)
    changes_index = newest.index_manifest != target.index_manifest
    if difference.is_empty and not changes_index and newest.statistics == target.statistics:
        return None
    files = difference.coming.keys() | difference.going.keys()
    by_delta = base.schema.options.get("changelog-producer", "none").strip().lower() == "none"
    found = file_lives(task.metadata.store, own, task.target, files, by_delta=by_delta, promised=task.promised)
    _refuse_unsafe(task, task.options(base.schema), difference, found)
    return Step(base, difference, changes_index, bool(difference.coming or found.coming))


def _refuse_unsafe(task: Task, options: Mapping[str, str], difference: Difference, found: FileLives) -> None:
    """Refuse a rollback after which Paimon could delete a file that a version needs."""
    table, target = task.table.ref, task.target.ref
    back: list[FileKey | str] = [*difference.coming, *found.coming]
    gone: list[FileKey | str] = [*difference.going, *found.going]
    refused = f"table {table}: {target} has {len(back)} files that were deleted since"
    without = "roll back without --as-latest"
    if back and table.branch != MAIN:
        raise RefusedError(
            f"{refused}, and no tag of a branch keeps them, since Paimon's expiry asks the tags of main only; expected "
            f"main, or a version whose files are all live; {without}",
            code=ONLY_MAIN,
        )
    if back and options.get(_CREATION, "").strip().lower() == "batch" and _COUNT in options:
        raise RefusedError(
            f"{refused}, and only a tag keeps them, but Paimon deletes tags of all kinds where {_CREATION} is batch "
            f"and {_COUNT} is {shorten(options[_COUNT])}; reset one of these options, or {without}",
            code=TAGS_COUNTED,
        )
    for branch in task.others if back else ():
        first = first_ids(task.metadata.store, branch, back)
        if shared := [file for file in first if found.lives.unsafe_on_branch(file, first[file])]:
            raise RefusedError(
                f"{refused}, and branch {branch.name} has some of them: {_names(shared)}. A tag of main lacks them. "
                "Paimon's expiry of the branch goes by this tag, so it may delete the files. First delete the tags of "
                f"main without these files, or the branch, or {without}",
                code=SHARED_FILES,
            )
    if unsafe := found.lives.unsafe(back, gone):
        raise RefusedError(
            f"table {table}: an earlier rollback brought deleted files back, and its tags {ROLLBACK_PREFIX}* are gone: "
            f"{_names(unsafe)}. So Paimon's expiry may delete these files. First expire the snapshots from before, and "
            f"delete the tags from before, with Lakesweep, or {without}",
            code=UNSAFE_LIVES,
        )


def _names(files: Iterable[FileKey | str]) -> str:
    return some_of(sorted({file if isinstance(file, str) else file[2] for file in files}), _NAMED)


def part_of(schema: TableSchema, files: Mapping[FileKey, ChangedFile]) -> Part:
    """Return how many files, rows and bytes these are, and of which partitions."""
    rows = {file.partition for file in files.values()}
    keys, types = schema.partition_keys, schema.partition_types
    return Part(
        len(files),
        sum(file.rows for file in files.values()),
        sum(file.size_bytes for file in files.values()),
        tuple(sorted(partition_name(keys, types, decode_row(row, types, "a partition")) for row in rows)),
    )
