"""The part of a report about deletion vectors of files that are gone, and the commit that leaves them out.

The commit deletes no index file. Older snapshots, tags and branches may name the former ones, which expiry deletes.
"""

from dataclasses import dataclass

from lakesweep.model.commits.report import CommitsReport

SHOWN = 10_000
"""A document lists index files, and data files of each, up to this number; counts are of all of them."""


@dataclass(frozen=True, slots=True)
class DanglingIndexFile:
    """An index file with vectors of files that are gone."""

    path: str
    partition: str
    """As its folder, such as `dt=20240101/hr=08`."""
    bucket: int
    bytes: int
    vectors: int
    """All of its vectors."""
    data_files: tuple[str, ...]
    """The files that are gone: the name of each such vector's data file."""

    @property
    def is_rewritten(self) -> bool:
        """It also has vectors of live files, so a new index file gets these."""
        return self.vectors > len(self.data_files)

    def to_json(self) -> dict[str, object]:
        """Return the file as it appears under `commits`."""
        return {
            "path": self.path,
            "partition": self.partition,
            "bucket": self.bucket,
            "bytes": self.bytes,
            "vectors": self.vectors,
            "dangling": len(self.data_files),
            "data_files": list(self.data_files[:SHOWN]),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorsReport(CommitsReport):
    """The vectors that a run leaves out, or would."""

    index_files: tuple[DanglingIndexFile, ...] = ()
    """The index files that the new snapshot does not name any more."""
    all_index_files: int = 0
    """The number of index files with vectors before."""
    written_files: int = 0
    """New index files, with the vectors of live files of the former ones."""
    written_bytes: int = 0
    reused_attempt: bool = False
    """Index files of an earlier attempt were used again, though another writer had committed meanwhile."""

    def to_json(self) -> dict[str, object]:
        """Return the document that a report has under `commits`."""
        return {
            "dangling_vectors": sum(len(file.data_files) for file in self.index_files),
            "kept_vectors": sum(file.vectors - len(file.data_files) for file in self.index_files),
            "index_file_count": len(self.index_files),
            "all_index_files": self.all_index_files,
            "bytes": sum(file.bytes for file in self.index_files),
            "index_files": [file.to_json() for file in self.index_files[:SHOWN]],
            "written": {"index_files": self.written_files, "bytes": self.written_bytes},
            "reused_attempt": self.reused_attempt,
            **CommitsReport.to_json(self),
        }
