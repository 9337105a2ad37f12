"""Orphans of every kind in a table that the engine wrote, and what else people leave lying about in one.

Every file is put where an engine would put it, or right beside: into the folder above, below, or one of a similar name.
Most are as old as the table becomes when it is back-dated; some stay young.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from tests.differential.writing import external_root

DAY_S = 86_400
AGE_DAYS = 3

POISON = (
    "snapshot/snapshot-abc",
    "snapshot/snapshot-99{uuid}.tmp",
    "schema/schema-abc",
    "schema/schema-99{uuid}.tmp",
    "changelog/changelog-abc",
    "tag/tag-zz.tmp",
    "branch/branch-void/snapshot/LATEST",
)
"""One foreign name of these stops the engine."""

_IN_BUCKETS = (
    "data-{uuid}-0.parquet",
    "data-{uuid}-1.orc",
    "data-{uuid}-2.zstd.avro",
    "data-{uuid}-3.json.gz",
    "data-{uuid}-0.blob",
    "data-{uuid}-0.vector.lance",
    "data-{uuid}-0.parquet.index",
    "data-{uuid}-0.parquet-2.index",
    "data-{uuid}-0.orc.128.remote-file.v1.lookup",
    "data-{uuid}-0.parquet.row",
    "data-{uuid}-0.parquet.blobref",
    "data-{uuid}-0.managed.blob",
    "changelog-{uuid}-0.orc",
    "compacted-changelog-{uuid}$BUCKET-10.cc-orc",
    "tmp-compacted-changelog-{uuid}",
    "index-{uuid}-0",
    "_bloburl_" + "0123456789abcdef" * 4,
    "_SUCCESS",
    ".hidden",
    "anything.txt",
    "000001_0.orc",
    "data-by-hand.parquet",
    "data-{uuid}-0.parquet.crc",
    ".data-{uuid}-0.parquet.{uuid}.tmp",
    "x/data-{uuid}-0.parquet",
)
_BESIDE_BUCKETS = (
    "bucket-postpone/data--u-some.user-s-7-w-{uuid}-0.avro",
    "bucket-x/data-{uuid}-0.parquet",
    "bucket-9/data-{uuid}-0.parquet",
    "data-{uuid}-0.parquet",
    "_SUCCESS",
    "notes.txt",
    "other/data-{uuid}-0.parquet",
)
_ELSEWHERE = (
    "manifest/manifest-{uuid}-0",
    "manifest/manifest-{uuid}",
    "manifest/manifest-{uuid}-changelog",
    "manifest/manifest-list-{uuid}-0",
    "manifest/manifest-list-{uuid}-changelog",
    "manifest/index-manifest-{uuid}-0",
    "manifest/index-manifest-{uuid}",
    "manifest/.manifest-{uuid}-0.{uuid}.tmp",
    "manifest/notes.txt",
    "index/index-{uuid}-0",
    "index/btree-global-index-{uuid}.index",
    "index/notes.txt",
    "statistics/stat-{uuid}-0",
    "statistics/notes.txt",
    "snapshot/.snapshot-99.{uuid}.tmp",
    "snapshot/.LATEST.{uuid}.tmp",
    "snapshot/notes.txt",
    "changelog/.changelog-99.{uuid}.tmp",
    "changelog/notes.txt",
    "schema/.schema-99.{uuid}.tmp",
    "schema/notes.txt",
    "tag/.tag-t.{uuid}.tmp",
    "tag/tag-success-file/t_SUCCESS",
    "consumer/.consumer-c.{uuid}.tmp",
    "service/service-primary-key-lookup",
    "temp/job_1/task_0.preCommit",
    "copy-into/history/load-0123456789abcdef-1700000000000",
    "metadata/v1.metadata.json",
    "metadata/notes.txt",
    "unknown/data-{uuid}-0.parquet",
    "bucket-0/data-{uuid}-0.parquet",
    "data-{uuid}-0.parquet",
    "commit-message.bin",
)
_IN_BRANCHES = (
    "snapshot/.snapshot-99.{uuid}.tmp",
    "snapshot/notes.txt",
    "schema/.schema-99.{uuid}.tmp",
    "tag/.tag-t.{uuid}.tmp",
    "manifest/manifest-{uuid}-0",
    "bucket-0/data-{uuid}-0.parquet",
)


_IN_EMPTY_PARTITIONS = ("_SUCCESS", "data-{uuid}-0.parquet", "notes.txt")
"""A partition without a bucket."""


def plant(location: Path, partition_keys: Sequence[str], random: Random) -> dict[str, str]:
    """Put orphans into a table and its external root; return path -> the pattern that it was made of."""
    planted: dict[str, str] = {}

    def put(path: Path, pattern: str) -> None:
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"planted " + random.randbytes(random.randrange(20)))
            inside = path.is_relative_to(location)
            planted[path.relative_to(location).as_posix() if inside else path.as_posix()] = pattern

    def named(pattern: str, bucket: str = "0") -> str:
        while "{uuid}" in pattern:
            pattern = pattern.replace("{uuid}", str(uuid.UUID(int=random.getrandbits(128))), 1)
        return pattern.replace("BUCKET", bucket)

    buckets = sorted(_buckets(location))
    for bucket in random.sample(buckets, min(len(buckets), 3)):
        for pattern in random.sample(_IN_BUCKETS, 9):
            put(bucket / named(pattern, bucket.name.removeprefix("bucket-")), f"<bucket>/{pattern}")
        live = sorted(path for path in bucket.glob("data-*-*-*-*-*") if path.suffix in (".orc", ".parquet", ".avro"))
        if live and random.random() < 0.5:
            put(bucket / f"{random.choice(live).name}-7.index", "<bucket>/<live>-7.index")
        for pattern in random.sample(_BESIDE_BUCKETS, 3):
            put(bucket.parent / named(pattern), f"<partition>/{pattern}")
    if len(buckets) > 1 and random.random() < 0.7:
        twin = named("data-{uuid}-0.parquet")
        for bucket in random.sample(buckets, 2):
            put(bucket / twin, "twin")
    if buckets and random.random() < 0.2:
        live = sorted(path for path in buckets[0].iterdir() if path.is_file() and path.name.startswith("data-"))
        if live and len(buckets) > 1:
            put(buckets[-1] / live[0].name, "twin of a live file")
    if partition_keys and random.random() < 0.3:
        empty = location.joinpath(*(f"{key}=9" for key in partition_keys))
        for pattern in () if empty.exists() else _IN_EMPTY_PARTITIONS:
            put(empty / named(pattern), f"<empty>/{pattern}")
    for pattern in random.sample(_ELSEWHERE, 20):
        put(location / named(pattern), pattern)
    for branch in sorted((location / "branch").glob("branch-*")):
        for pattern in random.sample(_IN_BRANCHES, 3):
            put(branch / named(pattern), f"<branch>/{pattern}")
    return planted


def poison(location: Path, pattern: str) -> str:
    """Put one foreign name where it stops the engine; return its path."""
    path = location / pattern.replace("{uuid}", str(uuid.UUID(int=1)))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("foreign")
    return path.relative_to(location).as_posix()


def _buckets(location: Path) -> Iterator[Path]:
    for root in (location, external_root(location)):
        for folder, names, _ in os.walk(root):
            if Path(folder).relative_to(root).parts[:1] != ("branch",):
                yield from (Path(folder, name) for name in names if name.startswith("bucket-"))


def back_date(location: Path, young: frozenset[str] = frozenset()) -> None:
    """Make everything some days old, folders too, but for the `young`."""
    then = time.time() - AGE_DAYS * DAY_S
    for root in (location, external_root(location)):
        for folder, _, names in os.walk(root, topdown=False):
            for path in (*(Path(folder, name) for name in names), Path(folder)):
                inside = path.relative_to(location).as_posix() if path.is_relative_to(location) else path.as_posix()
                if inside not in young:
                    os.utime(path, (then, then))
