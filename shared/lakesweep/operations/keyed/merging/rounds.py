"""Merge streams round by round.

A round has the rows of all streams up to a key below which no stream brings any more.
"""

from collections.abc import Iterator, Sequence

from lakesweep.operations.keyed.merging.stream import Rows, Stream

Round = tuple[list[tuple[int, Rows]], list[Rows]]
"""Rows that are merged, each with the number of its run, and deeper rows."""


def rounds(merged: Sequence[Stream], deeper: Sequence[Stream]) -> Iterator[Round]:
    """Yield the rows of streams, ascending by key. All rows with one key are in one round.

    Args:
        merged: The streams whose rows are merged.
        deeper: Streams of which only keys count that the others have.
    """
    streams = (*merged, *deeper)
    for stream in streams:
        stream.start()
    while True:
        for stream in merged:
            stream.fill()
        firsts = [stream.first for stream in merged if stream.first is not None]
        if not firsts:
            return
        for stream in deeper:
            stream.skip(min(firsts))
            stream.fill()
        ends = [stream.last for stream in streams if not stream.is_ended]
        frontier = min((end for end in ends if end is not None), default=None)
        above = [(stream.place, rows) for stream in merged for rows in stream.take(frontier)]
        below = [rows for stream in deeper for rows in stream.take(frontier)]
        if above:
            yield above, below
