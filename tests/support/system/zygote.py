"""Processes of functions that are forked, and not started: a start of Python is most of what a short test takes.

A zygote has imported what AWS gives a function and what the base layer has, and nothing of Lakesweep. Each child is a
process of its own, as one that was started is. That a function finds by itself all that it needs, and how long a cold
start takes, tests/deploy/test_cold_start.py shows with processes that were started.
"""

import atexit
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

_IMPORTED = (
    "aws_lambda_powertools.logging",
    "aws_lambda_powertools.metrics",
    "aws_lambda_powertools.utilities.batch",
    "backports.zstd",
    "botocore.client",
    "botocore.httpsession",
    "botocore.session",
    "obstore.store",
)
"""What takes long to import. The runtime client is not among it: it looks for its server when it is imported."""
_AT_IMPORT = {
    "AWS_LAMBDA_LOG_FORMAT": "JSON",
    "AWS_LAMBDA_LOG_LEVEL": "INFO",
    "AWS_REGION": "us-east-1",
    "LANG": "en_US.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TZ": ":UTC",
}
"""What these look for in their environment when they are imported, as `LambdaFunction` states it too."""


class Forked:
    """A child of a zygote; has what `subprocess.Popen` has."""

    def __init__(self, pid: int) -> None:
        """Know it by its id."""
        self.pid = pid
        self._file: int | None = None
        with suppress(ProcessLookupError):  # it has ended already
            self._file = os.pidfd_open(pid)

    def kill(self) -> None:
        """Kill it, unless it has ended."""
        if self._file is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._file, signal.SIGKILL)

    def wait(self) -> int | None:
        """Wait for its end. Nobody knows its exit code."""
        if self._file is not None:
            poll = select.poll()
            poll.register(self._file, select.POLLIN)
            poll.poll()
        return None

    def __del__(self) -> None:
        """Close what it is known by."""
        if self._file is not None:
            os.close(self._file)


class Zygote:
    """The parent of children that run functions with one Python and one base layer."""

    def __init__(self, python: Path, base_layer: Path) -> None:
        """Start it."""
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [python, "-P", __file__, *_IMPORTED],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**_AT_IMPORT, "PYTHONPATH": f"{base_layer}/python"},
        )
        atexit.register(self._close)

    def spawn(self, command: Sequence[str], cwd: Path, environment: Mapping[str, str], log: Path) -> Forked:
        """Fork a child for a command `python -c CODE ARGUMENTS`, as `LambdaFunction` asks for it."""
        _, option, code, *arguments = command
        assert option == "-c", command
        asked = {"code": code, "arguments": arguments, "cwd": str(cwd), "env": dict(environment), "log": str(log)}
        assert self._process.stdin is not None and self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            return Forked(int(self._process.stdout.readline()))

    def _close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


@cache
def zygote(python: Path, base_layer: Path) -> Zygote:
    """Return the one of this process, which ends with it."""
    return Zygote(python, base_layer)


# What follows runs in a zygote and in its children, where nothing of the tests can be imported.


def _serve(names: Sequence[str]) -> None:
    for name in names:
        __import__(name)
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for children here
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            _run(json.loads(line))
        print(pid, flush=True)


def _run(asked: Mapping[str, object]) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(str(asked["cwd"]))
    for descriptor, path in ((0, os.devnull), (1, str(asked["log"]))):
        opened = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.dup2(1, 2)
    before = os.environ["PYTHONPATH"]
    os.environ.clear()
    os.environ.update(asked["env"])  # type: ignore[call-overload]
    own = [path for path in sys.path if path != before]
    sys.path[:] = ["", *os.environ["PYTHONPATH"].split(":"), *own]
    sys.argv = ["-c", *asked["arguments"]]  # type: ignore[misc]
    status = 1
    try:
        exec(compile(str(asked["code"]), "<string>", "exec"), {"__name__": "__main__"})
        status = 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    _serve(sys.argv[1:])
