"""Many buckets, false lengths and large objects: a read holds few connections and little memory, or fails plainly."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from lakesweep.storage.open import StoreSettings, open_store
from tests.support.raw_s3 import End, http, raw_s3
from tests.support.s3_readers import READERS, outcome_of, reading_by

OBJECT = http(200, b"body", 'ETag: "e"')
LARGE_BYTES = 48 << 20
PEAK = """
import sys
from pathlib import Path
from lakesweep.storage.open import StoreSettings, open_store

def peak_kib():
    return int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0])

store = open_store("s3://b/p", settings=StoreSettings(sys.argv[1], "us-east-1"))
assert store.read("small").data == b"body"
before = peak_kib()
body = store.read("large").data
assert (len(body), body[-1:]) == (int(sys.argv[2]), b"x")
print((peak_kib() - before) * 1024)
"""
NO_THREAD = """
import resource, sys, threading
from pathlib import Path
from lakesweep.storage.open import StoreSettings, open_store

store = open_store("s3://b/p", settings=StoreSettings(sys.argv[1], "us-east-1"))
assert store.read("first").data == b"body"
held_kib = int(Path("/proc/self/status").read_text().partition("VmSize:")[2].split()[0])
resource.setrlimit(resource.RLIMIT_AS, ((held_kib + 64 * 1024) * 1024,) * 2)
threading.stack_size(256 << 20)
assert store.read("second").data == b"body"
"""


def test_a_read_needs_no_other_thread() -> None:
    """Limits of containers count threads, and the stack of another one may not fit into memory."""
    if not Path("/proc/self/status").is_file():
        pytest.skip("needs /proc")
    with reading_by("obstore"), raw_s3((OBJECT,)) as server:
        command = [sys.executable, "-c", NO_THREAD, server.url]
        ended = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def test_connections_to_many_buckets_are_closed() -> None:
    """A process may have 1 024 files open, and reads of 32 threads leave 32 connections in each bucket."""
    opened = Path("/proc/self/fd")
    if not opened.is_dir():
        pytest.skip("needs /proc")
    with reading_by("obstore"), raw_s3((OBJECT,)) as server:
        before = len([*opened.iterdir()])
        for number in range(60):
            assert open_store(f"s3://b{number}", settings=StoreSettings(server.url, "us-east-1")).read("k").data
        until_s = time.monotonic() + 10
        while (left := len([*opened.iterdir()]) - before) > 60 and time.monotonic() < until_s:
            time.sleep(0.05)
    assert left <= 60, "each connection has two ends here"


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("power", [50, 63])
def test_a_false_length_is_no_memory_error(power: int, reader: str) -> None:
    with reading_by(reader), raw_s3((http(200, b"bo", 'ETag: "e"', length=1 << power), End.CLOSE)) as server:
        outcome = outcome_of(server.url, lambda store: store.read("k"))
    assert outcome.found == "too_large"
    assert str(outcome.error) == f"read s3://b/p/k: expected an object that fits into memory, found {1 << power} bytes"


@pytest.mark.parametrize("reader", READERS)
def test_a_large_object_is_in_memory_once(reader: str) -> None:
    if not Path("/proc/self/status").is_file():
        pytest.skip("needs /proc")
    with reading_by(reader), raw_s3((OBJECT,), (http(200, b"x" * LARGE_BYTES, 'ETag: "e"'),)) as server:
        command = [sys.executable, "-c", PEAK, server.url, str(LARGE_BYTES)]
        ended = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) < 1.6 * LARGE_BYTES
