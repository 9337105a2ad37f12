"""Large blocks go back to the system."""

import subprocess
import sys
from pathlib import Path

import pytest

_PROGRAM = """
from lakesweep.storage.memory import return_large_blocks
def resident_mib():
    with open("/proc/self/statm") as found:
        return int(found.read().split()[1]) * 4 // 1024
{call}
freed = b"x" * (16 << 20)
del freed
large, small = [], []
for _ in range(20):
    large.append(b"x" * (4 << 20))
    small.append(b"y" * 100_000)
before = resident_mib()
large.clear()
print(before - resident_mib())
"""


def freed_mib(call: str) -> int:
    """Return how much memory went back after 80 MiB were freed, between small blocks that stay."""
    program = [sys.executable, "-c", _PROGRAM.format(call=call)]
    return int(subprocess.run(program, check=True, capture_output=True, text=True).stdout)


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs Linux")
def test_freed_blocks_go_back_to_the_system() -> None:
    assert freed_mib("return_large_blocks()") >= 70


def test_other_systems_do_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only glibc has the function."""
    from lakesweep.storage.memory import return_large_blocks

    monkeypatch.setattr("ctypes.CDLL", lambda _: object())
    return_large_blocks.__wrapped__()
