"""The process that decodes ORC: it may die, hang and take memory; whoever asks it does not."""

import base64
import io
import json
import marshal
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Thread, Timer
from typing import Any

import pytest

from lakesweep.errors import FormatError, UnsupportedFormatError
from lakesweep.format.avro.projection import Want
from lakesweep.format.orc import process as orc_process
from lakesweep.format.orc.process import OrcProcess, read_rows

pytest.importorskip("pyarrow")

WANTS = (Want("_VERSION", "int"), Want("_FILE", "record", fields=(Want("_FILE_NAME", "string"),)))

# Found by fuzzing: every section is there and decompresses, and pyarrow 19 reads beyond what it has.
DEADLY = base64.b64decode(
    """
    T1JDEQAACgYSBAgoUAAtAAAKFAoDAP//Eg0IKBIHCAQQBBigAVAAEQAACgYSBAgoUAAjAAAKDwoDAAAAEggIKFAAYgIYADMAAAoXCgUAAAAAABIO
    CCgiCAoBYRIBYRhQUABJAAAKIgoFAAAAAAASGQgoIhMKBmRhdGEtMBIGZGF0YS05GJwEUAAJAADAJwQACQAAwCcBAAkAAMAnAQAiAAAotS/9IChF
    AAAQYWEBAB+ABQ0AAAcGwB0ABwQBACi1L/1gDgDFAwCEA2RhdGEtMGRhdGEtMTIzNDU2Nzg5MTExMTExMTExMjIwMDAwMDAwMDIwODc0NTMyMjVk
    YXRhLTM5JSCAk9IDQ8YdbIhxgx0yzmBDjBvMkHGDHTLOwZKHII87Hsx4SPE44sGGhwiPCx4BzGusyJ3GRNw15kTkiknGAAAotS/9IIrVAgCyxA8W
    wCUd/9+cwN9oNkAisasmkqQtt9xSyoSBgBxG1jtk6p0qvLhqcnixneuIrZjm5Spm4AXwK07MeBmLSZyMxQwKAEAKkEvKjamaA0JcyQXaAGJm5rW2
    LAGlAAAKUAoECChQAAoNCCgSBwgEEAQYoAFQAAoECChQAAoICChQAGICGAAKDggoIggKAWESAWEYUFAAChkIKCITCgZkYXRhLTASBmRhdGEtORic
    BFAAfAEAKLUv/SDjrQUAUsomKmBNmgMwMHAobAkcUhBa6ZMR075YQR1WwaD2CqRtBEivyTqipKRmvWRLGRESIQhLhRmeC4WdCsMltHhQK+qEYw3A
    PoHcOV3lVnkd9gXkOlTZ2f9OznCqUWdaP0Du7CvZkfm5rQM4RB66HiUygZBwKHtLQo3dQP1w4/Y+nAbJAl3e8yChTJwI+ocYNfYC2E3x4A3HFk06
    e0mjSQ8IAFgZJc5MtCCHFXlVUV65AalWrW7ZAwjBARAFGICABCICAAwoVTAGgvQDA09SQxg=
    """
)


def orc_file(version: int = 2, rows: int = 1) -> bytes:
    import pyarrow
    from pyarrow import orc

    body = io.BytesIO()
    table = pyarrow.Table.from_pylist([{"_VERSION": version, "_FILE": {"_FILE_NAME": f"data-{version}"}}] * rows)
    orc.write_table(table, body, compression="zstd")
    return body.getvalue()


def rows_of(version: int) -> list[tuple[Any, ...]]:
    return [(version, (f"data-{version}",))]


@pytest.fixture
def process() -> Iterator[OrcProcess]:
    found = OrcProcess()
    yield found
    found.end()


def decode(process: OrcProcess, body: bytes) -> list[Any]:
    return [row for block in process.decode(body, "m", WANTS) for row in marshal.loads(block)]


def pid_of(process: OrcProcess) -> int:
    assert process._running is not None
    return process._running.process.pid


def test_deadly_bytes_are_damage() -> None:
    """They end the process that reads them, and nothing else."""
    for number in range(2):
        with pytest.raises(FormatError, match=r"^m: expected a whole ORC file, found one that ends its reader"):
            read_rows(DEADLY, "m", WANTS)
        assert list(read_rows(orc_file(number), "m", WANTS)) == rows_of(number)


def test_one_process_for_all_files(process: OrcProcess) -> None:
    """Also for files whose damage pyarrow never saw, but not after those whose damage it did see."""
    assert decode(process, orc_file(0)) == rows_of(0)
    first = pid_of(process)
    with pytest.raises(FormatError):
        process.decode(orc_file()[:-1], "m", WANTS)
    assert decode(process, orc_file(1)) == rows_of(1)
    assert pid_of(process) == first
    with pytest.raises(FormatError, match="expected int in _FILE, found"):
        process.decode(orc_file(), "m", (Want("_VERSION", "int"), Want("_FILE", "int")))
    assert decode(process, orc_file(2)) == rows_of(2)
    assert pid_of(process) != first


def test_ended_between_two_files(process: OrcProcess) -> None:
    assert decode(process, orc_file(0)) == rows_of(0)
    os.kill(pid_of(process), signal.SIGKILL)
    assert decode(process, orc_file(1)) == rows_of(1)


def test_ended_while_it_decodes(process: OrcProcess) -> None:
    """What ended a process that had decoded before says nothing about the file."""
    assert decode(process, orc_file(0)) == rows_of(0)
    os.kill(pid_of(process), signal.SIGSTOP)
    found: list[Any] = []
    thread = Thread(target=lambda: found.extend(decode(process, orc_file(1))))
    thread.start()
    time.sleep(0.1)
    os.kill(pid_of(process), signal.SIGKILL)
    thread.join()
    assert found == rows_of(1)


def test_threads(process: OrcProcess) -> None:
    with ThreadPoolExecutor(max_workers=8) as pool:
        found = list(pool.map(lambda number: decode(process, orc_file(number)), range(100)))
    assert found == [rows_of(number) for number in range(100)]


PRELUDE = "import marshal, os, signal, sys, time; from lakesweep.format.orc import decoder as orc_decoder; "


@pytest.mark.parametrize(
    ("main", "error", "match"),
    [
        # The limit of time, and a signal from outside: there is no telling, so the table is refused.
        ("orc_decoder.read_blocks = lambda *_: signal.alarm(1) and time.sleep(60); orc_decoder.main()",
         UnsupportedFormatError, "within 60 seconds"),
        ("orc_decoder.read_blocks = lambda *_: os.kill(os.getpid(), signal.SIGKILL); orc_decoder.main()",
         UnsupportedFormatError, "signal 9 ended"),
        ("orc_decoder.read_blocks = lambda *_: os.abort(); orc_decoder.main()", FormatError, "ends its reader"),
        ("orc_decoder.read_blocks = lambda *_: 1 / 0; orc_decoder.main()", FormatError, "ends its reader"),
        # What is no answer.
        ("marshal.dump(('ready', None), sys.stdout.buffer); print(flush=True); print('garbage' * 99)",
         FormatError, "ends its reader"),
        ("sys.exit(5)", UnsupportedFormatError, "but it failed: exit code 5"),
        ("os.abort()", UnsupportedFormatError, "but it failed"),
        ("print('garbage')", UnsupportedFormatError, "but it failed"),
    ],
)  # fmt: skip
def test_endings(
    main: str, error: type[Exception], match: str, process: OrcProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(orc_process, "_MAIN", "import sys; sys.path[:] = sys.argv[1:]; " + PRELUDE + main)
    with pytest.raises(error, match=match) as raised:
        process.decode(orc_file(), "m", WANTS)
    assert str(raised.value).startswith("m: ")
    assert str(raised.value).isprintable()
    monkeypatch.undo()
    assert decode(process, orc_file(1)) == rows_of(1)


def test_no_interpreter_to_start(process: OrcProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(UnsupportedFormatError, match=r"but it failed: .*No such file"):
        process.decode(orc_file(), "m", WANTS)


def test_an_interrupt_leaves_no_half_answer(process: OrcProcess) -> None:
    decode(process, orc_file(0))
    first = pid_of(process)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        os.kill(first, signal.SIGSTOP)
        Timer(0.1, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(KeyboardInterrupt):
            process.decode(orc_file(1), "m", WANTS)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert decode(process, orc_file(2)) == rows_of(2)
    assert pid_of(process) != first


# Scripts: no guard for `__main__`, and the package found in another way than PYTHONPATH.

_SCRIPT = """
import json, os, resource, signal, sys
sys.path[:] = json.loads({path!r})
from lakesweep.errors import FormatError
from lakesweep.format.orc import process as orc
from lakesweep.format.avro.projection import Want
WANTS = (Want("_VERSION", "int"), Want("_FILE", "record", fields=(Want("_FILE_NAME", "string"),)))
BODY = {body!r}
def pid():
    return orc._process._running.process.pid
"""


def script(lines: str, body: bytes, expected_code: int = 0) -> str:
    code = _SCRIPT.format(path=json.dumps(sys.path), body=body) + lines
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-"], input=code, capture_output=True, text=True, timeout=60, env=environment, check=False
    )
    assert (done.returncode, done.stderr) == (expected_code, "")
    return done.stdout


def is_gone(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True
    return status.rpartition(")")[2].split()[0] == "Z"


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    ("last", "code"), [("", 0), ("sys.exit(3)", 3), ("os.kill(os.getpid(), signal.SIGKILL)", -9), ("os._exit(4)", 4)]
)
def test_nothing_is_left_behind(last: str, code: int) -> None:
    said = script(f"list(orc.read_rows(BODY, 'm', WANTS)); print(pid(), flush=True)\n{last}", orc_file(), code)
    deadline = time.monotonic() + 60
    while not is_gone(int(said)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_after_a_fork() -> None:
    """A forked process starts one of its own; the pipes of its parent's are not touched."""
    said = script(
        """
print(list(orc.read_rows(BODY, 'm', WANTS)), flush=True)
first = pid()
if os.fork() == 0:
    print(list(orc.read_rows(BODY, 'm', WANTS)), pid() != first, flush=True)
    sys.exit()
print(os.wait()[1], list(orc.read_rows(BODY, 'm', WANTS)), pid() == first)
""",
        orc_file(),
    )
    rows = str(rows_of(2))
    assert said.splitlines() == [rows, f"{rows} True", f"0 {rows} True"]


def _same_rows(count: int, **columns: Any) -> bytes:
    import pyarrow
    from pyarrow import orc

    body = io.BytesIO()
    table = pyarrow.table({name: pyarrow.array([value] * 10_000) for name, value in columns.items()})
    with orc.ORCWriter(body, compression="zstd") as writer:
        for _ in range(count // 10_000):
            writer.write(table)
    return body.getvalue()


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
@pytest.mark.parametrize(
    ("count", "columns"),
    [
        (60_000_000, {"_VERSION": 2}),
        (2_000_000, {"_VERSION": 2, "_FILE": {"_FILE_NAME": "a"}}),
        (1_000_000, {"_VERSION": 2, "_FILE": {"_FILE_NAME": "a" * 100}}),
        (20_000, {"_VERSION": 2, "_FILE": {"_FILE_NAME": "a" * 10_000}}),
        (20_000, {"_VERSION": 2, "_FILE": {"_FILE_NAME": "a" * 100, "_EXTRA_FILES": [""] * 300}}),
    ],
)
def test_bombs(count: int, columns: dict[str, Any]) -> None:
    """Small files of many or long rows: both processes stay small."""
    extra = Want("_EXTRA_FILES", "strings")
    said = script(
        f"""
wants = (WANTS[0], Want("_FILE", "record", fields=(*WANTS[1].fields, {extra!r})))
try:
    print(len(list(orc.read_rows(BODY, "m", wants))))
except FormatError as error:
    print(error)
orc._process.end()
# Not its ru_maxrss, which is what the tests take: it survives exec.
own = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([own // 1024, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024]))
""",
        _same_rows(count, **columns),
    )
    words, peaks_mb = said.splitlines()
    print(words, peaks_mb)
    assert words.startswith("m: expected")
    assert max(json.loads(peaks_mb)) < 300
