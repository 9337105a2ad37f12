"""Zstandard, which Python has since 3.14 and a package brings before."""

import sys
from typing import Any

WINDOW_LOG = 27
"""A decompressor may use a window of 128 MiB, the limit that zstd itself recommends."""


def zstd_module() -> Any:
    """Import the module, so that tables with other codecs do not need it."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def unzstd(data: bytes, size: int) -> bytes:
    """Return the first bytes of a frame, at most `size`.

    Raises:
        ValueError: The frame ends before `size`, and is not whole or has bytes after it.
        zstd.ZstdError: No valid frame.
    """
    zstd = zstd_module()
    frame = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: WINDOW_LOG})
    plain: bytes = frame.decompress(data, size)
    if len(plain) < size and not (frame.eof and not frame.unused_data):
        raise ValueError("no single whole zstd frame")
    return plain


def make_zstd(data: bytes, level: int) -> bytes:
    """Return the data as one frame.

    Raises:
        ValueError: There is no such level.
    """
    packed: bytes = zstd_module().compress(data, level)
    return packed
