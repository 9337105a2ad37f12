"""versitygw: a second S3 server, written by others in another language, as a process of the test's own.

`make versitygw` builds it. It keeps objects as files of a folder, so what was stored outlives the process: a test may
kill it in the middle of anything and start it again.
"""

import atexit
import functools
import os
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

import pytest

from tests.support.s3_server import S3Server

REPOSITORY = Path(__file__).resolve().parent.parent.parent
ACCESS_KEY = SECRET_KEY = "testing"
_HEALTH = "/-/health"
_START_WITHIN_S = 20


def versitygw_binary() -> str | None:
    """Return the server's path, `None` where nobody built it."""
    built = os.environ.get("LAKESWEEP_VERSITYGW") or str(REPOSITORY / "build" / "versitygw")
    return built if Path(built).is_file() else None


def require_versitygw() -> str:
    """Return the server's path; skip the test where nobody built it."""
    binary = versitygw_binary()
    if binary is None:
        pytest.skip("no versitygw: run `make versitygw` (it needs Go), or set LAKESWEEP_VERSITYGW to the program")
    return binary


class Versitygw:
    """One server process and the folder that it serves."""

    def __init__(self, binary: str, folder: Path) -> None:
        """Make the folders; starts nothing yet.

        Args:
            binary: The program.
            folder: An empty folder, on a file system with extended attributes: there the server keeps ETags.
        """
        self._binary = binary
        self._objects, self._versions = folder.resolve() / "objects", folder.resolve() / "versions"
        for each in (self._objects, self._versions):
            each.mkdir(parents=True)
        self._log = folder / "log"
        self._port = _free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._was_up = False

    @property
    def server(self) -> S3Server:
        """Return how clients reach it; the same after a restart."""
        return S3Server(
            "versitygw", f"http://127.0.0.1:{self._port}", checks_etags_of_many=False, deletes_at_once=False
        )

    def start(self) -> "Versitygw":
        """Start the process and wait until it answers."""
        for _ in range(3):
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    [self._binary, "--port", f"127.0.0.1:{self._port}", "--quiet", "--keep-alive", "--health", _HEALTH]
                    + ["posix", "--versioning-dir", str(self._versions), str(self._objects)],
                    env={"PATH": "/usr/bin:/bin", "ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY},
                    cwd=self._log.parent,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            if self._answers():
                self._was_up = True
                return self
            self.kill()
            if not self._was_up:
                self._port = _free_port()  # somebody else may have taken it meanwhile
        raise RuntimeError(f"versitygw did not start: {self._log.read_text(errors='replace')[-2000:]}")

    def _answers(self) -> bool:
        assert self._process is not None
        end = time.monotonic() + _START_WITHIN_S
        while time.monotonic() < end and self._process.poll() is None:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{_HEALTH}", timeout=1) as answer:
                    return bool(answer.status == 200)
            except OSError:
                time.sleep(0.02)
        return False

    def kill(self) -> None:
        """End the process at once, as a crash would: no request is finished."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@functools.cache
def shared_versitygw() -> S3Server:
    """Return a server that all tests of this process share; skip the test where there is no program."""
    binary = require_versitygw()
    folder = tempfile.mkdtemp(prefix="lakesweep-versitygw-")
    gateway = Versitygw(binary, Path(folder))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    atexit.register(gateway.kill)
    return gateway.start().server


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
