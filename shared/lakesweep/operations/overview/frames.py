"""Values between processes of one program: each pickled, behind its length."""

import pickle
import struct
from typing import IO, Any

_LENGTH = struct.Struct(">Q")


def send(stream: IO[bytes], value: object) -> None:
    """Write a value.

    Raises:
        OSError: Nobody reads any more.
    """
    data = pickle.dumps(value)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Return the next value.

    Raises:
        EOFError: The other process has ended, maybe in the midst of a value.
        OSError: This process has closed the stream.
    """
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size))
    return pickle.loads(_exactly(stream, length))


def _exactly(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data
