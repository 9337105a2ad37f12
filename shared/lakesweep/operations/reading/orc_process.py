"""The program of the process that decodes ORC data files: pyarrow, with limits of memory and time.

It says ("ready", None), then answers one request after another until its input ends. A request is (path, columns, size
of the file, pieces), and after it the file in so many pieces. The answer is ("schema", (bytes, zones of the writer)),
any number of ("batch", bytes), both in Arrow's IPC format, and one of

- ("whole", rows): all rows were sent.
- ("failed", (code, message)): the process ends, since damaged bytes may have changed its memory.

`marshal` writes and reads all of it. This is safe between two processes of one user, which can trust each other.
"""

import marshal
import os
import resource
import signal
import sys
from collections.abc import Callable
from typing import Any

from lakesweep.errors import FormatError, MaintenanceError
from lakesweep.format.orc.decoder import load_pyarrow
from lakesweep.format.orc.frame import check_frame
from lakesweep.format.orc.time_stamps import time_stamp_bounds, writer_zones
from lakesweep.format.values.json_document import shorten
from lakesweep.operations.reading.types import has_time_stamps, out_of_range

BATCH_ROWS = 16_384
MAX_SECONDS = 300
"""The longest time for a stripe, and for the check of a file."""
MAX_MEMORY_BYTES = 4 << 30
MOST_RATIO = 1000
"""A file may unpack to this many times its size."""

FARTHEST_MS = 9_223_372_036_854 - 2 * 86_400_000
"""Nanoseconds of 64 bits reach two days farther, and so may zones."""

Answer = Callable[[str, Any], None]


def main() -> None:
    """Answer the requests on standard input on standard output."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # The signal ends the process.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    limit = MAX_MEMORY_BYTES if most == resource.RLIM_INFINITY else min(MAX_MEMORY_BYTES, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # The output of a library is no answer.

    def answer(outcome: str, found: Any) -> None:
        signal.alarm(0)  # The caller may take its time.
        marshal.dump((outcome, found), answers)
        answers.flush()

    answer("ready", None)
    while True:
        try:
            path, columns, size, pieces = marshal.load(requests)
            body = bytearray()
            for _ in range(pieces):
                body += marshal.load(requests)
        except EOFError:
            break
        try:
            if len(body) != size:
                raise FormatError(f"{path}: expected {size} bytes, found {len(body)}")
            answer("whole", _decode(bytes(body), path, columns, answer))
        except MaintenanceError as error:
            answer("failed", (error.code, str(error)))
            break
        except Exception as error:  # noqa: BLE001 - pyarrow reports damage by many classes
            found = shorten(" ".join(str(error).split())) or type(error).__name__
            answer("failed", (FormatError.code, f"{path}: expected a whole ORC file, found {found}"))
            break


def _decode(body: bytes, path: str, columns: list[str], answer: Answer) -> int:
    orc, arrow = load_pyarrow(path)
    signal.alarm(MAX_SECONDS)
    check_frame(body, path, MOST_RATIO * len(body))
    file = orc.ORCFile(arrow.BufferReader(body))
    names = file.schema.names
    for name in columns:
        if names.count(name) != 1:
            raise FormatError(f"{path}: expected one column {name}, as its schema states, found {names.count(name)}")
    zones: frozenset[str] = frozenset()
    if any(has_time_stamps(file.schema.field(name).type) for name in columns):
        _check_time_stamps(body, path, columns)
        zones = writer_zones(body, path)
    chosen = columns or names[:1]
    # pyarrow takes a name with a dot for the field of a struct.
    read = None if any("." in name for name in chosen) else chosen
    rows = 0
    for stripe in range(file.nstripes):
        signal.alarm(MAX_SECONDS)
        batch = file.read_stripe(stripe, columns=read).select(chosen)
        if not rows:
            answer("schema", (batch.schema.serialize().to_pybytes(), sorted(zones)))
        for start in range(0, batch.num_rows, BATCH_ROWS):
            part = batch.slice(start, BATCH_ROWS)
            answer("batch", part.serialize().to_pybytes())
            rows += part.num_rows
    if rows != file.nrows:
        raise FormatError(f"{path}: expected {file.nrows} rows in an ORC file, found {rows}")
    return rows


def _check_time_stamps(body: bytes, path: str, columns: list[str]) -> None:
    bounds = time_stamp_bounds(body, path)
    for name in columns:
        if name not in bounds:
            continue
        found = bounds[name]
        if found is None or found[0] < -FARTHEST_MS or found[1] > FARTHEST_MS:
            stated = "none" if found is None else f"{found[0]} to {found[1]}"
            raise out_of_range(path, name, f"statistics of {stated} in milliseconds")
