"""ORC metadata files: what tables with `manifest.format=orc` have in place of Avro.

Reading them takes pyarrow, which the workers do not carry. Such a file is whole and beyond a worker: it is refused with
a sentence that says what to install, never taken for damaged or empty. pyarrow runs in a process of its own
(`orc_process.py`), because damaged bytes can end the process that it runs in.
"""

import marshal
from collections.abc import Iterator

from lakesweep.format.orc_frame import MAGIC
from lakesweep.format.orc_process import OrcProcess
from lakesweep.format.projection import Row, Want

__all__ = ["MAGIC", "read_rows"]

_process = OrcProcess()


def read_rows(body: bytes, path: str, wants: tuple[Want, ...]) -> Iterator[Row]:
    """Decode the wanted fields of every row.

    The whole file is decoded before this returns.

    Raises:
        FormatError: The file is damaged, or a wanted field is missing or of another type.
        UnsupportedFormatError: pyarrow is not installed, or lacks a time zone database; or the decoding was ended from
            outside, or by its limit of time, so that nothing is known about the file.
    """
    return _rows(_process.decode(body, path, wants))


def _rows(blocks: list[bytes]) -> Iterator[Row]:
    blocks.reverse()
    while blocks:  # taken off one by one, so that what was read is not kept twice
        yield from marshal.loads(blocks.pop())
