"""Metadata on which a commit is built: nothing is passed over.

A list or manifest that is missing, damaged or not as recorded refuses the commit, since the commit would carry it on.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from lakesweep.errors import FormatError, ObjectNotFoundError, RefusedError, StorageError
from lakesweep.format.manifest_list_writer import RawList, read_raw_list
from lakesweep.format.snapshot import Snapshot
from lakesweep.storage.reads import read_many
from lakesweep.storage.store import Store
from lakesweep.storage.wrappers.remembering import read_anew
from lakesweep.table.metadata import MAX_METADATA_BYTES

CORRUPT = "corrupt_manifests"

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StrictMetadata:
    """Reads files below `manifest/` of one table."""

    store: Store
    table: str
    """For messages."""

    def lists(self, snapshot: Snapshot) -> tuple[RawList, RawList]:
        """Read the base and the delta list of a snapshot.

        Raises:
            RefusedError: With code `corrupt_manifests`: one is missing, damaged, or not as recorded, or they name a
                manifest twice.
            UnsupportedFormatError: They are intact, and no commit can be built on them.
            StorageError: A request failed.
        """
        sizes = sizes_of(snapshot)
        read = {
            name: self.decoded(body, name, partial(read_raw_list, expected_size=sizes[name]))
            for name, body in self.bodies(sizes, sizes)
        }
        lists = (read[snapshot.base_manifest_list], read[snapshot.delta_manifest_list])
        self.check_names(snapshot, lists)
        return lists

    def check_names(self, snapshot: Snapshot, lists: Iterable[RawList]) -> None:
        """Make sure that no manifest of a snapshot is there twice.

        Raises:
            RefusedError: With code `corrupt_manifests`: one is.
        """
        names = Counter(meta.file_name for each in lists for meta in each.metas)
        if twice := [name for name, count in names.items() if count > 1]:
            raise self.corrupt(f"the lists of snapshot {snapshot.id} name {twice[0]} twice")

    def bodies(self, sizes: Mapping[str, int | None], names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield files with their names, in the order of the names; many are read at a time, and few wait in memory.

        Args:
            sizes: Name -> size as recorded, `None` if no metadata records it.
            names: The files.

        Raises:
            RefusedError: A file is missing, or longer than its size.
            StorageError: A request failed.
        """
        keys = (f"manifest/{name}" for name in names)
        known = {f"manifest/{name}": size for name, size in sizes.items() if size is not None}
        with closing(read_many(self.store, keys, max_bytes=MAX_METADATA_BYTES, sizes=known)) as bodies:
            for key, body in bodies:
                if isinstance(body, ObjectNotFoundError):
                    raise self.corrupt(f"{key} does not exist") from body
                if isinstance(body, StorageError):
                    if body.code == "too_large":
                        raise self.corrupt(f"{key} is longer than its size as recorded") from body
                    raise body
                yield key.removeprefix("manifest/"), body.data

    def decoded(self, body: bytes, name: str, decode: Callable[[bytes, str], T]) -> T:
        """Decode a file. One that may come from a cache is read anew if it is damaged.

        Raises:
            RefusedError: It is damaged.
            UnsupportedFormatError: It is intact, and no commit can be built on it.
            StorageError: A request failed.
        """
        path = f"manifest/{name}"
        with self.refusing():
            try:
                return decode(body, path)
            except FormatError:
                anew = read_anew(self.store, path, MAX_METADATA_BYTES)
                if anew is None:
                    raise
                return decode(anew.data, path)

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Turn the error of damaged bytes into the refusal of the commit."""
        try:
            yield
        except FormatError as error:
            raise self.corrupt(str(error)) from error

    def corrupt(self, problem: str) -> RefusedError:
        """Return the error of a table on which nothing can be built."""
        return RefusedError(
            f"table {self.table}: {problem}; expected metadata without such a fault, since a commit would carry it on. "
            "lakesweep check TABLE names missing and damaged files",
            code=CORRUPT,
        )


def unmatched(name: str, count: int) -> str:
    """Say that no manifest adds some deleted files.

    Args:
        name: One of them.
        count: How many there are.
    """
    return f"{name} is deleted, and no manifest adds it" + (f", nor {count - 1} more" if count > 1 else "")


def sizes_of(snapshot: Snapshot) -> dict[str, int | None]:
    """Return the base and the delta list of a snapshot, with their sizes as it records them."""
    return {
        snapshot.base_manifest_list: snapshot.base_manifest_list_size,
        snapshot.delta_manifest_list: snapshot.delta_manifest_list_size,
    }
