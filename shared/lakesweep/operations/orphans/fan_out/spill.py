"""What one task hands to others: facts, and rows in slots.

A *spill* is one object. Its rows lie in 256 *slots*, by the first byte of the name's hash. So rows of one name are in
the same slot, whichever task wrote them. A task that matches some slots reads one range of each spill. The head holds
the facts of the task that wrote the spill, and the length of each slot. A scan step reads the head but no rows.

A spill holds, in this order: magic and version, length and digest of the head, the head, and the blocks in the order of
slots. The head is compressed JSON, then zeros up to `HEAD_BYTES`, the number of bytes that are read first. A block
begins with a digest of its bytes, its slot and the head. So no block passes for another block or for a block of another
spill.
"""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import accumulate
from struct import Struct

from lakesweep.errors import FormatError, StorageError
from lakesweep.storage.store import Store

SLOTS = 256
HEAD_BYTES = 16 << 10
"""Bytes that are read first. They are the whole head of most spills."""
MAX_HEAD_BYTES = 32 << 20
MAX_UNPACKED_HEAD_BYTES = 128 << 20
MAX_SLOT_BYTES = 1 << 30
"""A spill is damaged if one of its slots claims to be longer."""
_FRAME = Struct(">4sHI16s")
_MAGIC = b"LSSP"
_VERSION = 1
_DIGEST = 8
_PLACE = Struct(">H")
_NUMBERS = Struct(f">{SLOTS}I")


class SpillWriter:
    """Collects rows for one spill."""

    def __init__(self, packed: bool) -> None:
        """Begin without rows.

        Args:
            packed: Whether to compress blocks. It does not help with rows that are mostly hashes.
        """
        self._packed = packed
        self._blocks = [bytearray() for _ in range(SLOTS)]
        self._rows = [0] * SLOTS

    def add(self, name_hash: bytes, row: bytes) -> None:
        """Add one row.

        Args:
            name_hash: Hash of the name that the row is about; its first byte decides the slot.
            row: Its bytes. Rows of a slot follow each other without separators.
        """
        slot = name_hash[0]
        self._blocks[slot] += row
        self._rows[slot] += 1

    @property
    def rows(self) -> int:
        """Return the number of rows so far."""
        return sum(self._rows)

    def to_bytes(self, info: Mapping[str, object]) -> bytes:
        """Return the spill as bytes and release the rows.

        Each compressed block replaces its rows at once, to save memory.

        Args:
            info: The facts for the head, as JSON.
        """
        blocks, self._blocks = self._blocks, []
        unpacked = [len(block) for block in blocks]
        if self._packed:
            for slot, block in enumerate(blocks):
                blocks[slot] = bytearray(zlib.compress(block, 1)) if block else block
        lengths = [len(block) + _DIGEST if block else 0 for block in blocks]
        table = {"rows": self._rows, "lengths": lengths, "unpacked": unpacked if self._packed else None}
        head = zlib.compress(json.dumps({"info": info, "slots": table}).encode())
        head += bytes(max(0, HEAD_BYTES - _FRAME.size - len(head)))
        if len(head) > MAX_HEAD_BYTES:
            raise FormatError(f"head of a spill: expected at most {MAX_HEAD_BYTES} bytes, found {len(head)}")
        digest = _head_digest(head)
        parts: list[bytes | bytearray] = [_FRAME.pack(_MAGIC, _VERSION, len(head), digest), head]
        for slot, block in enumerate(blocks):
            if block:
                parts += (_block_digest(digest, slot, block), block)
        return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Spill:
    """A spill as its head describes it."""

    digest: bytes
    """Digest of the head. The digests of blocks depend on it."""
    begin: int
    """Offset of the first block."""
    slot_rows: tuple[int, ...]
    slot_lengths: tuple[int, ...]
    """Bytes of each stored block."""
    slot_unpacked: tuple[int, ...] | None
    """Bytes of the rows of each slot before compression; `None` if blocks are not compressed."""
    info: Mapping[str, object] = field(default_factory=dict, compare=False)
    """Facts of the task. A spill from `from_json` has none, so a caller that needs facts stores them itself."""

    @property
    def rows(self) -> int:
        """Return the number of rows in all slots."""
        return sum(self.slot_rows)

    def to_json(self) -> dict[str, object]:
        """Return the spill for `from_json`: all but `info`, in about a kilobyte."""
        return {
            "begin": self.begin,
            "digest": b64encode(self.digest).decode(),
            "rows": _to_text(self.slot_rows),
            "lengths": _to_text(self.slot_lengths),
            "unpacked": None if self.slot_unpacked is None else _to_text(self.slot_unpacked),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, object], path: str) -> "Spill":
        """Return the spill that `to_json` wrote, without its `info`.

        Raises:
            FormatError: The document is not one.
        """
        try:
            unpacked = document["unpacked"]
            return _checked(
                b64decode(str(document["digest"]), validate=True),
                document["begin"],
                _from_text(document["rows"]),
                _from_text(document["lengths"]),
                None if unpacked is None else _from_text(unpacked),
                {},
            )
        except (KeyError, TypeError, ValueError, zlib.error) as error:
            raise FormatError(f"{path}: expected the table of a spill, found something else: {error!r}") from error


def head_of(store: Store, key: str) -> Spill:
    """Read the head of a spill, usually in one request.

    Raises:
        ObjectNotFoundError: There is no such object.
        FormatError: The object does not begin with a whole head of a spill of this version.
        StorageError: A request failed.
    """
    path = f"{store.location}/{key}"
    first = _read(store, key, 0, HEAD_BYTES)
    magic, version, length, digest = _FRAME.unpack_from(first)
    if magic != _MAGIC or version != _VERSION:
        raise FormatError(
            f"{path}: expected a spill of version {_VERSION}, found version {version} after {magic.hex()}"
        )
    begin = _FRAME.size + length
    if not HEAD_BYTES <= begin <= MAX_HEAD_BYTES + _FRAME.size:
        raise FormatError(f"{path}: expected a head of {HEAD_BYTES} to {MAX_HEAD_BYTES} bytes, found {begin}")
    if begin > HEAD_BYTES:
        first += _read(store, key, HEAD_BYTES, begin - HEAD_BYTES)
    head = memoryview(first)[_FRAME.size :]
    if _head_digest(head) != digest:
        raise FormatError(f"{path}: expected a head with digest {digest.hex()}, found {_head_digest(head).hex()}")
    try:
        document = json.loads(_unpacked(head, MAX_UNPACKED_HEAD_BYTES))
        table, info = document["slots"], document["info"]
        if not isinstance(info, dict):
            raise TypeError(f"facts as {type(info).__name__}")
        return _checked(digest, begin, table["rows"], table["lengths"], table["unpacked"], info)
    except (KeyError, TypeError, ValueError, RecursionError, zlib.error) as error:
        raise FormatError(f"{path}: expected the head of a spill, found something else: {error!r}") from error


def read_slots(store: Store, key: str, spill: Spill, first: int = 0, end: int = SLOTS) -> Iterator[bytes]:
    """Yield a block of rows for each of some slots, in order; `b""` for a slot without rows. At most one request.

    Args:
        store: The store that holds the spill.
        key: Key of the spill.
        spill: Its head.
        first: The first slot.
        end: The slot after the last.

    Raises:
        ObjectNotFoundError: The spill is gone.
        FormatError: The stored bytes are damaged. The blocks yielded before the error are right.
        StorageError: The request failed.
    """
    path = f"{store.location}/{key}"
    if not 0 <= first <= end <= SLOTS:
        raise ValueError(f"slots {first} to {end}")
    lengths = spill.slot_lengths[first:end]
    if not any(lengths):
        yield from (b"" for _ in lengths)
        return
    data = memoryview(_read(store, key, spill.begin + sum(spill.slot_lengths[:first]), sum(lengths)))
    for slot, stop in enumerate(accumulate(lengths), first):
        length = spill.slot_lengths[slot]
        if not length:
            yield b""
            continue
        block = data[stop - length + _DIGEST : stop]
        expected, found = bytes(data[stop - length : stop - length + _DIGEST]), _block_digest(spill.digest, slot, block)
        if expected != found:
            raise FormatError(
                f"{path}: expected slot {slot} with digest {expected.hex()}, found {found.hex()} of {len(block)} bytes"
            )
        if spill.slot_unpacked is None:
            yield bytes(block)
            continue
        size = spill.slot_unpacked[slot]
        try:
            rows = _unpacked(block, size)
        except (zlib.error, ValueError) as error:
            raise FormatError(f"{path}: expected slot {slot} with {size} bytes of rows, found {error}") from error
        if len(rows) != size:
            raise FormatError(f"{path}: expected slot {slot} with {size} bytes of rows, found {len(rows)}")
        yield rows


def _read(store: Store, key: str, start: int, length: int) -> bytes:
    try:
        return store.read_range(key, start, length).data
    except StorageError as error:
        if error.code == "too_short":  # an object is written as a whole, so a shorter one is damaged
            raise FormatError(f"{store.location}/{key}: expected a whole spill, found it cut off: {error}") from error
        raise


def _checked(
    digest: bytes,
    begin: object,
    rows: Sequence[object],
    lengths: Sequence[object],
    unpacked: Sequence[object] | None,
    info: Mapping[str, object],
) -> Spill:
    """Return a spill after checking that its numbers are possible.

    Raises:
        ValueError: A number is out of bounds.
        TypeError: A value is not a number.
    """
    if type(begin) is not int or not HEAD_BYTES <= begin <= MAX_HEAD_BYTES + _FRAME.size or len(digest) != 16:
        raise ValueError(f"a head of {begin!r} bytes")
    columns = [_numbers(column) for column in (rows, lengths, lengths if unpacked is None else unpacked)]
    for count, length, size in zip(*columns, strict=True):
        is_empty = count == length == size == 0
        if not is_empty and (count < 1 or length <= _DIGEST or size < 1):
            raise ValueError(f"a slot of {count} rows in {length} bytes, {size} unpacked")
    return Spill(digest, begin, columns[0], columns[1], None if unpacked is None else columns[2], info)


def _numbers(column: Sequence[object]) -> tuple[int, ...]:
    found = tuple(number for number in column if type(number) is int)
    if not (len(found) == len(column) == SLOTS and min(found) >= 0 and max(found) <= MAX_SLOT_BYTES):
        raise ValueError(f"{len(column)} numbers; expected {SLOTS} from 0 to {MAX_SLOT_BYTES}")
    return found


def _to_text(numbers: Sequence[int]) -> str:
    """Return numbers as text, about a byte and a half for each number that is like its neighbours."""
    return b64encode(zlib.compress(_NUMBERS.pack(*numbers), 9)).decode()


def _from_text(text: object) -> tuple[int, ...]:
    data = _unpacked(b64decode(str(text), validate=True), _NUMBERS.size)
    if len(data) != _NUMBERS.size:
        raise ValueError(f"{len(data)} bytes of numbers; expected {_NUMBERS.size}")
    return _NUMBERS.unpack(data)


def _unpacked(data: bytes | memoryview, most: int) -> bytes:
    """Return the decompressed data, and refuse more than `most` bytes."""
    unzip = zlib.decompressobj()
    found = unzip.decompress(data, most + 1)  # the decoder sees the end of a stream only if it may return more bytes
    if not unzip.eof or len(found) > most:
        raise ValueError(f"more than {most} bytes, or a stream that is cut off")
    return found


def _head_digest(head: bytes | memoryview) -> bytes:
    return blake2b(head, digest_size=16, person=_MAGIC).digest()


def _block_digest(head_digest: bytes, slot: int, block: bytes | bytearray | memoryview) -> bytes:
    return blake2b(block, digest_size=_DIGEST, key=head_digest, person=_PLACE.pack(slot)).digest()
