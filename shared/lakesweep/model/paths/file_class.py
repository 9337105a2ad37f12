"""File classes: the kind of an object below a table, by its key alone, and whether Lakesweep may delete it.

Lakesweep may only delete exact names in exactly the folders where Paimon writes them. Examples are a manifest in
`manifest/`, a data file in a bucket directory at the partition depth, and a temp file beside its later document. A name
does not say whether a file is needed. Anything unknown is kept and reported, since people put files into tables.

Source: Paimon `OrphanFilesClean`, `FileStorePathFactory`, `DataFilePathFactory`. Where Paimon accepts any name in a
folder, Lakesweep does not.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache, partial

from lakesweep.format import file_names as names
from lakesweep.format.names import branch_name_of
from lakesweep.model.paths import known_files as known
from lakesweep.model.paths.known_files import FileClass
from lakesweep.model.paths.layout import Layout

__all__ = ["FileClass", "FileClasses"]

_Rule = Callable[[str], FileClass]
"""Name -> class, for the objects directly in one folder."""

_HALF = re.compile("[\ud800-\udfff]")
"""In Python, a local name that is not UTF-8 contains these. No store deletes such a key."""

_FOLDERS_KEPT = 4096
"""Number of cached folder rules; a listing visits folders in order."""


class FileClasses:
    """The classes of a table's objects. Safe to share between threads."""

    def __init__(self, layout: Layout, nested: Iterable[str] = ()) -> None:
        """Take the layout of all schemas, and the folders of other tables below this one, relative to the table.

        Raises:
            ValueError: A nested table would be the table itself.
        """
        self._nested = tuple(f"{folder.strip('/')}/" for folder in nested)
        if "/" in self._nested:
            raise ValueError("expected the folder of a nested table, found the table itself")
        self._buckets = layout.bucket_pattern()
        self._partitions = layout.partition_pattern()
        self._index_beside_data = layout.index_beside_data
        prefixes = layout.data_prefixes, layout.changelog_prefixes
        self._data_names = names.data_name_pattern(*prefixes, postponed=False)
        self._postponed_names = names.data_name_pattern(*prefixes, postponed=True)
        self._rule = lru_cache(maxsize=_FOLDERS_KEPT)(self._judge)

    def classify(self, key: str) -> FileClass:
        """Return the class of the object at `key`, relative to the table. Every text has a class."""
        folder, _, name = key.rpartition("/")
        rule = self._rule(folder)
        if not name and rule is not _nested:
            return known.MARKER
        return rule(name) if "\0" not in key and (key.isascii() or not _HALF.search(key)) else known.ODD_KEY

    def _judge(self, folder: str) -> _Rule:
        if self._nested and f"{folder}/".startswith(self._nested):
            return _nested
        parts = folder.split("/")
        if parts[0] == "branch":
            below = "/".join(parts[2:])
            if below not in known.BRANCH_FOLDERS or branch_name_of(parts[1]) is None:
                return partial(_by_name, (), known.NOT_IN_A_BRANCH)
            return partial(_by_name, known.BRANCH_FOLDERS[below], known.NO_SUCH_NAME)
        if folder in known.FOLDERS:
            return partial(_by_name, known.FOLDERS[folder], known.NO_SUCH_NAME)
        bucket = self._buckets.fullmatch(folder)
        if bucket is not None:
            pattern = self._postponed_names if bucket[1] == "postpone" else self._data_names
            return partial(_in_bucket, pattern, bucket[1], self._index_beside_data)
        if self._partitions.fullmatch(folder):
            return partial(_by_name, known.PARTITION, known.NO_SUCH_NAME)
        if parts[0] == "temp" and len(parts) == 2:
            return partial(_by_name, known.HIVE, known.NO_SUCH_NAME)
        return partial(_by_name, (), known.NO_SUCH_FOLDER)


def _by_name(names_here: known.Names, otherwise: FileClass, name: str) -> FileClass:
    for pattern, file_class in names_here:
        if pattern.fullmatch(name):
            return file_class
    return _unknown(name, otherwise)


def _in_bucket(pattern: re.Pattern[str], bucket: str, index_beside_data: bool, name: str) -> FileClass:
    if "index-" in name and names.is_index_like(name):  # Every index-like name has this; there are many names.
        return known.INDEX if index_beside_data and names.INDEX.fullmatch(name) else _unknown(name, known.NO_SUCH_NAME)
    match = pattern.fullmatch(name)
    if match is not None:
        if match.lastindex is None:  # No group: neither a changelog nor an extra file.
            return known.DATA
        if match["sidecar"] is not None:
            return FileClass("extra", "delete", owner=name[: match.start("sidecar")])
        return known.DATA if match["changelog"] is None else known.CHANGELOG
    match = names.COMPACTED_CHANGELOG.fullmatch(name)
    if match is not None and match["bucket"] == bucket:
        return known.CHANGELOG
    return known.TEMP if names.COMPACTED_CHANGELOG_TEMP.fullmatch(name) else _unknown(name, known.NO_SUCH_NAME)


def _unknown(name: str, otherwise: FileClass) -> FileClass:
    # In a wrong place, neither of them becomes deletable.
    if name.endswith(names.PACK_SUFFIX):
        return known.PACK
    return known.CACHE if names.BLOB_CACHE.fullmatch(name) else otherwise


def _nested(name: str) -> FileClass:
    return known.NESTED
