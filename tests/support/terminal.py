"""A terminal of some width, as a pseudo terminal, and what it was sent."""

import fcntl
import io
import os
import pty
import struct
import termios
from collections.abc import Iterator
from contextlib import contextmanager


class Terminal:
    """The near end is `stream`, as a program has it."""

    def __init__(self, columns: int, encoding: str) -> None:
        self._far, near = pty.openpty()
        fcntl.ioctl(near, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.stream = io.TextIOWrapper(io.FileIO(near, "w"), encoding=encoding, line_buffering=True)

    def received(self) -> str:
        """Return everything that was written since the last call."""
        os.set_blocking(self._far, False)
        parts = []
        while True:
            try:
                parts.append(os.read(self._far, 65536))
            except OSError:
                return b"".join(parts).decode().replace("\r\n", "\n")

    def close(self) -> None:
        self.stream.close()
        os.close(self._far)


@contextmanager
def terminal(columns: int = 80, encoding: str = "utf-8") -> Iterator[Terminal]:
    """Open a terminal for the block."""
    opened = Terminal(columns, encoding)
    try:
        yield opened
    finally:
        opened.close()
