"""Numbers for data files, by which rows find the mark of their file. A join by numbers is quicker than one by names.

The number is what Spark's `xxhash64` makes of a file's name: XXH64 with the seed 42. No two files of a scan have the
same one (`routes.py`). If Spark made another number, a row would find no mark, which ends the job.

Source: the specification of XXH64.
"""

import struct

_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 11400714785074694791, 14029467366897019727, 1609587929392839161
_P4, _P5 = 9650029242287828579, 2870177450012600261
_SEED = 42
_STRIPE = 32


def file_key(name: str) -> int:
    """Return the number of a data file, with a sign."""
    found = _xxh64(name.encode())
    return found - (1 << 64) if found >> 63 else found


def _xxh64(data: bytes) -> int:
    at = 0
    if len(data) >= _STRIPE:
        lanes = [(_SEED + _P1 + _P2) & _MASK, (_SEED + _P2) & _MASK, _SEED, (_SEED - _P1) & _MASK]
        while len(data) - at >= _STRIPE:
            lanes = [_round(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at), strict=True)]
            at += _STRIPE
        value = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane in lanes:
            value = ((value ^ _round(0, lane)) * _P1 + _P4) & _MASK
    else:
        value = _SEED + _P5
    value = (value + len(data)) & _MASK
    while len(data) - at >= 8:
        (word,) = struct.unpack_from("<Q", data, at)
        value = (_rotated(value ^ _round(0, word), 27) * _P1 + _P4) & _MASK
        at += 8
    if len(data) - at >= 4:
        (word,) = struct.unpack_from("<I", data, at)
        value = (_rotated(value ^ (word * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        at += 4
    for byte in data[at:]:
        value = _rotated(value ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    value = (value ^ value >> 33) * _P2 & _MASK
    value = (value ^ value >> 29) * _P3 & _MASK
    return value ^ value >> 32


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 64 - bits) & _MASK
