"""Patterns: regular expressions that match a whole record in one step.

The records of a file look alike: texts of the same length, the same branches of unions, arrays of the same size. A
pattern lists every length, branch and array size that was seen at each place of a record. So it matches the usual
records five times faster than generated code reads them.

A record that does not match is read by the careful decoder, and what it shows is added to the pattern. A pattern only
matches bytes that are exactly one valid record: each alternative begins with its own length or branch number, and the
bytes of a number tell where it ends. If anything is unusual, the careful decoder reads the whole block again.
"""

import re
from collections.abc import Callable
from threading import Lock

from lakesweep.format.avro.decoder_source import MAX_ITEMS
from lakesweep.format.avro.pattern_source import Read, Row, compile_pattern
from lakesweep.format.avro.places import Place, UnusualError
from lakesweep.format.avro.schema import AvroType
from lakesweep.format.avro.wants import Want

__all__ = ["PatternDecoder", "UnusualError"]

Decode = Callable[[bytes, int], list[Row]]

WARM_UP = 200
"""So many records are read before a pattern is made: making one takes as long as reading some hundred records."""
_CREDIT, _MAX_CREDIT, _HITS_A_MISS = 64, 512, 12
"""A record that does not match takes as long as reading several. So a pattern that matches too few is given up."""


class PatternDecoder:
    """Decodes blocks like a careful decoder, in less time. It may be used by several threads."""

    def __init__(self, root: AvroType, want: Want, careful: Decode) -> None:
        """Begin without a pattern.

        Args:
            root: The type of a record.
            want: The wanted fields.
            careful: The decoder that the result of this one equals.

        Raises:
            UnusualError: There are no patterns for such a schema or such fields.
        """
        self.careful = careful
        self._record = Place(root, want)
        self._lock = Lock()
        self._read: Read | None = None
        self._decoded = self._patterns = self._misses = 0
        self._credit = _CREDIT

    def __call__(self, buf: bytes, count: int) -> list[Row]:
        """Return the rows of a block."""
        if self._credit < 0 or self._decoded < WARM_UP:
            self._decoded += count
            return self.careful(buf, count)
        try:
            return self._rows(buf, count)
        except (UnusualError, IndexError, ValueError, OverflowError, RecursionError, re.error):
            self._credit -= count
            return self.careful(buf, count)

    def _rows(self, buf: bytes, count: int) -> list[Row]:
        rows: list[Row] = []
        room = [MAX_ITEMS]
        position = misses = 0
        while len(rows) < count:
            if self._read is not None:
                position = self._read(buf, position, count - len(rows), rows, room)
                if len(rows) == count:
                    break
            misses += 1
            with self._lock:
                end = self._record.learn(buf, position)
                self._improve()
            rows += self.careful(buf[position:end], 1)
            room[0] -= end - position  # An item takes a byte or more.
            position = end
            if misses > _CREDIT or room[0] < 0:
                raise UnusualError
        if position != len(buf):
            raise UnusualError
        self._credit = min(self._credit + (count - misses) // _HITS_A_MISS - misses, _MAX_CREDIT)
        return rows

    def _improve(self) -> None:
        """Make a new pattern, after the more misses the more often that has happened."""
        self._misses += 1
        if self._misses >= self._patterns:
            self._read = compile_pattern(self._record)
            self._patterns += 1
            self._misses = 0
