"""Large bodies that are dropped leave no memory behind in the threads that read them."""

import subprocess
import sys

import pytest

from lakesweep.storage.allocator import return_large_blocks

_CODE = """
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from lakesweep.storage.allocator import return_large_blocks

if sys.argv[1] == "yes":
    return_large_blocks()
    return_large_blocks()
held, together = [], Barrier(16)

def read(number):
    for size in (1, 3, 6):
        together.wait()
        body = bytearray(size << 20)
        held.append(bytes(5000))  # a small result stays behind each large body
        del body

with ThreadPoolExecutor(16) as pool:
    list(pool.map(read, range(16)))
    status = open("/proc/self/status").read()
print(next(int(line.split()[1]) // 1024 for line in status.splitlines() if line.startswith("VmRSS")))
"""


def left_mib(asked: str) -> int:
    done = subprocess.run([sys.executable, "-c", _CODE, asked], capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(sys.platform != "linux", reason="the allocator of glibc")
def test_dropped_bodies_return_their_memory() -> None:
    """Sixteen threads read bodies of some MiB and drop them."""
    assert left_mib("yes") < 40


def test_other_allocators_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only glibc has the function."""
    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    return_large_blocks.__wrapped__()
