"""ORC metadata files: tables with `manifest.format=orc` use them instead of Avro.

Reading them needs pyarrow, which workers do not have. There, Lakesweep refuses an ORC file with a message that says
what to install. It never treats the file as damaged or empty. pyarrow runs in its own process (`process.py`),
because damaged bytes can end the process.
"""

import marshal
from collections.abc import Iterator

from lakesweep.format.avro.projection import Row, Want
from lakesweep.format.orc.frame import MAGIC
from lakesweep.format.orc.process import OrcProcess

__all__ = ["MAGIC", "read_rows"]

_process = OrcProcess()


def read_rows(body: bytes, path: str, wants: tuple[Want, ...]) -> Iterator[Row]:
    """Decode the wanted fields of every row.

    The whole file is decoded before this returns.

    Raises:
        FormatError: The file is damaged, or a wanted field is missing or has another type.
        UnsupportedFormatError: pyarrow is not installed, or lacks a time zone database. Or the decoding was ended from
            outside or by its time limit, so nothing is known about the file.
    """
    return _rows(_process.decode(body, path, wants))


def _rows(blocks: list[bytes]) -> Iterator[Row]:
    blocks.reverse()
    while blocks:  # Blocks are removed one by one, so that rows do not stay in memory twice.
        yield from marshal.loads(blocks.pop())
