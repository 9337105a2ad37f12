"""Known files: the possible names in each folder of a table, and whether objects with such names may be deleted.

This module does not know the folders of data files, since these depend on schemas; see `file_class`.
"""

import re
from dataclasses import dataclass
from typing import Literal

from lakesweep.format import file_names as names

Kind = Literal[
    "manifest",
    "manifest_list",
    "index_manifest",
    "statistics",
    "index",
    "data",
    "changelog",
    "extra",
    "temp",
    "snapshot",
    "changelog_document",
    "tag",
    "schema",
    "consumer",
    "hint",
    "service",
    "success",
    "iceberg",
    "copy_into",
    "pack",
    "cache",
    "hive_temp",
    "marker",
    "nested",
    "foreign",
]


@dataclass(frozen=True, slots=True)
class FileClass:
    """The class of an object."""

    kind: Kind
    policy: Literal["delete", "report", "never"]
    """`delete`: deleted if old and without a reference. `report`: kept and reported. `never`: kept."""
    owner: str | None = None
    """Name of the data file that an extra file belongs to."""
    why: str = ""
    """Why the object is kept, in one sentence without a full stop; empty for files that may be deleted."""


DATA = FileClass("data", "delete")
CHANGELOG = FileClass("changelog", "delete")
INDEX = FileClass("index", "delete")
TEMP = FileClass("temp", "delete")
HINT = FileClass("hint", "never", why="writers rewrite hints in place")
SUCCESS = FileClass("success", "never", why="schedulers wait for this marker")
PACK = FileClass("pack", "never", why="rows of any data file may lie in a managed pack, and no manifest names it")
CACHE = FileClass("cache", "report", why="a cache of links that its reader can build again")
HIVE_TEMP = FileClass("hive_temp", "report", why="a Hive job may still commit this file")
MARKER = FileClass("marker", "never", why="it marks a folder and has no content")
NESTED = FileClass("nested", "never", why="it belongs to another table, whose folder lies in this one")

NO_SUCH_NAME = FileClass("foreign", "report", why="Paimon gives no file in this folder such a name")
NO_SUCH_FOLDER = FileClass("foreign", "report", why="Paimon puts no files into this folder")
NOT_IN_A_BRANCH = FileClass("foreign", "report", why="a branch has documents of its own and no other files")
ODD_KEY = FileClass("foreign", "report", why="Paimon writes no key that is not plain text")

Names = tuple[tuple[re.Pattern[str], FileClass], ...]
"""The possible names in a folder: the first pattern that matches a whole name determines its class."""

BRANCH_FOLDERS: dict[str, Names] = {
    "snapshot": (
        (names.SNAPSHOT, FileClass("snapshot", "never", why="only expiry or rollback deletes a snapshot")),
        (names.HINT, HINT),
        (names.SNAPSHOT_TEMP, TEMP),
    ),
    "changelog": (
        (
            names.CHANGELOG_DOCUMENT,
            FileClass("changelog_document", "never", why="only expiry deletes a changelog"),
        ),
        (names.HINT, HINT),
        (names.CHANGELOG_TEMP, TEMP),
    ),
    "tag": (
        (names.TAG, FileClass("tag", "never", why="only a tag operation deletes a tag")),
        (names.TAG_TEMP, TEMP),
    ),
    "tag/tag-success-file": ((names.TAG_SUCCESS, SUCCESS), (names.TAG_SUCCESS_TEMP, TEMP)),
    "schema": (
        (names.SCHEMA, FileClass("schema", "never", why="any data file may need the schema that it was written with")),
        (names.SCHEMA_TEMP, TEMP),
    ),
    "consumer": (
        (names.CONSUMER, FileClass("consumer", "never", why="a streaming reader keeps its position here")),
        (names.CONSUMER_TEMP, TEMP),
    ),
}
FOLDERS: dict[str, Names] = BRANCH_FOLDERS | {
    "manifest": (
        (names.MANIFEST, FileClass("manifest", "delete")),
        (names.MANIFEST_LIST, FileClass("manifest_list", "delete")),
        (names.INDEX_MANIFEST, FileClass("index_manifest", "delete")),
    ),
    "index": ((names.INDEX, INDEX), (names.GLOBAL_INDEX, INDEX)),
    "statistics": ((names.STATISTICS, FileClass("statistics", "delete")),),
    "service": (
        (names.SERVICE, FileClass("service", "never", why="a running service keeps its address here")),
        (names.SERVICE_TEMP, TEMP),
    ),
    "metadata": (
        (names.ICEBERG, FileClass("iceberg", "never", why="Iceberg readers need it, and its writer removes it")),
        (names.ICEBERG_TEMP, TEMP),
    ),
    "copy-into/history": (
        (names.COPY_INTO, FileClass("copy_into", "never", why="COPY INTO records here what it has loaded")),
    ),
}
PARTITION: Names = ((names.SUCCESS, SUCCESS), (names.SUCCESS_TEMP, TEMP))
HIVE: Names = ((names.HIVE_TASK, HIVE_TEMP),)
