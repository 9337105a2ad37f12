"""Data files that are rewritten together."""

from dataclasses import dataclass, field

from lakesweep.model.reading.plan import ReadFile


@dataclass(frozen=True, slots=True)
class Bin:
    """Data files of one partition that are rewritten together. It pickles."""

    files: tuple[ReadFile, ...]
    """In the order of their rows in the new file."""
    gone: tuple[bytes, ...] = field(default=(), repr=False)
    """For each file, which has no vector then, positions of rows that are left out, as the bytes of a vector; empty:
    there are none of any file."""

    @property
    def partition(self) -> bytes:
        """The partition."""
        return self.files[0].partition

    @property
    def size_bytes(self) -> int:
        """The size of the files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def rows(self) -> int:
        """Their rows, with deleted ones."""
        return sum(file.rows for file in self.files)
