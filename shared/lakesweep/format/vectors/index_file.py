"""Index files of deletion vectors: a version byte, then vectors back to back.

Where a vector lies is said by the ranges in the index manifest. Paimon up to 1.4 reads all vectors of a file one after
another, in the order of the ranges, and does not look at their offsets. So vectors lie in that order and without gaps,
or such a reader takes one vector for another.

Source: Paimon `DeletionVectorsIndexFile`, `DeletionVectorIndexFileWriter`, `DeletionFileWriter`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from lakesweep.errors import FormatError
from lakesweep.format.manifest import IndexEntry, VectorRange
from lakesweep.format.values.json_document import describe
from lakesweep.format.vectors.vector import FRAME, DeletionVector, Width, read_vector

VERSION = b"\1"


@dataclass(frozen=True, slots=True)
class IndexFileBytes:
    """A new index file, and the ranges of its vectors for the index manifest."""

    body: bytes
    ranges: tuple[VectorRange, ...]


def write_index_files(
    vectors: Iterable[tuple[str, DeletionVector]], target_size: int | None
) -> Iterator[IndexFileBytes]:
    """Yield index files with some vectors, in their order.

    Args:
        vectors: Name of the data file -> vector. A name may occur once.
        target_size: A file that is larger than this takes no further vector
            (`deletion-vector.index-file.target-size`). `None`: one file, as for a bucket, also without vectors.

    Raises:
        ValueError: A name occurs twice.
    """
    names: set[str] = set()
    parts: list[bytes | memoryview] = [VERSION]
    ranges: list[VectorRange] = []
    at = len(VERSION)

    def complete() -> IndexFileBytes:
        return IndexFileBytes(b"".join(parts), tuple(ranges))

    for name, vector in vectors:
        names_before = len(names)
        names.add(name)
        if len(names) == names_before:
            raise ValueError(f"expected one deletion vector for each data file, found two for {name}")
        parts.append(vector.blob)
        ranges.append((name, at, vector.length, vector.cardinality))
        at += len(vector.blob)
        if target_size is not None and at > target_size:
            yield complete()
            parts, ranges, at = [VERSION], [], len(VERSION)
    if ranges or target_size is None:
        yield complete()


def widths_of(entry: IndexEntry) -> Mapping[int, Width]:
    """Return offset -> width of the vectors in an index file, as far as their ranges tell.

    A length leaves out length word and CRC if the width is 32. So the next vector, or the end of the file, shows the
    width if there is no gap.
    """
    offsets = sorted(offset for _, offset, _, _ in entry.vectors)
    following = dict(pairwise([*offsets, entry.file_size]))
    by_gap: Mapping[int, Width] = {FRAME: 32, 0: 64}
    gaps = ((offset, following[offset] - offset - length) for _, offset, length, _ in entry.vectors)
    return {offset: by_gap[gap] for offset, gap in gaps if gap in by_gap}


def end_of(place: VectorRange, file_size: int, path: str) -> int:
    """Return where a vector in an index file ends at the latest: where it would end with 32 bits.

    Args:
        place: The range of the vector.
        file_size: Size of the index file, as the index manifest states it.
        path: The index file, for messages.

    Raises:
        FormatError: The vector does not lie in the file, behind the version byte.
    """
    name, offset, length, _ = place
    if offset < len(VERSION) or offset + length > file_size:
        raise FormatError(
            f"{path}: expected the deletion vector of {describe(name)} within {file_size} bytes, found {length} bytes "
            f"from byte {offset} on"
        )
    return min(offset + length + FRAME, file_size)


def check_apart(entry: IndexEntry, path: str) -> None:
    """Make sure that no two vectors of an index file have bytes in common.

    Each vector is decoded on its own. So many vectors in the same bytes would take any amount of memory.

    Raises:
        FormatError: They have.
    """
    places = sorted((offset, length, name) for name, offset, length, _ in entry.vectors)
    for (offset, length, name), (following, _, other) in pairwise(places):
        if offset + max(length, 1) > following:
            raise FormatError(
                f"{path}: expected deletion vectors apart from each other, found that of {describe(name)} to byte "
                f"{offset + length} and that of {describe(other)} from byte {following} on"
            )


def read_at(data: bytes | memoryview, place: VectorRange, path: str) -> DeletionVector:
    """Read one vector of an index file.

    Args:
        data: The bytes from the vector's length word on, to `end_of` at least.
        place: The range of the vector.
        path: The index file, for messages.

    Raises:
        FormatError: It is damaged, or metadata state another length or number of rows.
    """
    name, _, length, cardinality = place
    where = f"{path}, deletion vector of {describe(name)}"
    vector = read_vector(data, length, where)
    if cardinality is not None and cardinality != vector.cardinality:
        raise FormatError(f"{where}: expected {cardinality} deleted rows, found {vector.cardinality}")
    return vector


def read_index_file(body: bytes, entry: IndexEntry, path: str) -> Sequence[DeletionVector]:
    """Read every vector of an index file, in the order of its ranges.

    Raises:
        FormatError: The file is damaged, or is not as the index manifest states.
    """
    if len(body) != entry.file_size or body[:1] != VERSION:
        raise FormatError(
            f"{path}: expected an index file of version 1 with {entry.file_size} bytes, found {len(body)} bytes that "
            f"begin with {body[:1].hex() or 'nothing'}"
        )
    check_apart(entry, path)
    view = memoryview(body)
    return [read_at(view[place[1] : end_of(place, len(body), path)], place, path) for place in entry.vectors]
