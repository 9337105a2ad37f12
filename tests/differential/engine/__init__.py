"""The Java engine as a peer: one JVM, fed with JSON lines.

The engine is Apache Paimon's own core; `EngineDriver.java` calls it as its procedures do. Its jars are not part of
this repository: `make jars` fetches them. The driver is compiled into `build/engine/`, once per source. A command is
answered with its result or with the Java stack trace.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

PROJECT = Path(__file__).resolve().parents[3]
SOURCES = Path(__file__).parent

RETAIN_EVERYTHING: Mapping[str, str] = {
    "snapshot.num-retained.min": "100000",
    "snapshot.num-retained.max": "100000",
    "snapshot.time-retained": "10000 d",
}
"""Options under which a writer of the engine expires nothing by itself after its commits."""


class EngineError(Exception):
    """The engine answered a command with an exception; the message ends with the Java stack trace."""

    def __init__(self, command: str, error: str, trace: str) -> None:
        super().__init__(f"{command}: {error}\n{trace}")
        self.error = error


class EngineCrashError(Exception):
    """The JVM ended or spoke nonsense; nothing more can be learned from it."""


def compiled(classpath: str, folder: Path = SOURCES) -> Path:
    """Compile the sources of a folder once per their text and class path; return the folder of their classes."""
    sources = sorted(folder.glob("*.java"))
    key = hashlib.sha256(b"".join(path.read_bytes() for path in sources) + classpath.encode()).hexdigest()[:16]
    classes = PROJECT / "build" / "engine" / key
    if classes.exists():
        return classes
    classes.parent.mkdir(parents=True, exist_ok=True)
    # another process may compile at the same time: whoever renames first wins, and both results are the same
    with tempfile.TemporaryDirectory(dir=classes.parent) as scratch:
        output = Path(scratch) / "classes"
        command = ["javac", "-nowarn", "-encoding", "UTF-8", "-cp", classpath, "-d", str(output), *map(str, sources)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode != 0:
            raise EngineCrashError(f"javac failed:\n{done.stderr}")
        try:
            output.rename(classes)
        except OSError:
            if not classes.exists():
                raise
    return classes


class Engine:
    """A JVM that runs the engine; `engine("scan", table="db.t")` sends one command and returns its result.

    Everything the JVM says beside its answers goes to `engine.log` in the work folder.
    """

    def __init__(self, work: Path, classpath: str, *, heap: str = "2g") -> None:
        classes = compiled(classpath)
        work.mkdir(parents=True, exist_ok=True)
        self.warehouse = work / "warehouse"
        self.log_path = work / "engine.log"
        self.milliseconds = 0.0
        spill = work / "spill"
        spill.mkdir(exist_ok=True)
        self._log = self.log_path.open("a")
        self._jvm = subprocess.Popen(
            ["java", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
            + [f"-Djava.io.tmpdir={spill}", "-Duser.timezone=UTC", "-Dfile.encoding=UTF-8", "-Dsun.jnu.encoding=UTF-8"]
            + ["-cp", f"{classes}{os.pathsep}{classpath}", "EngineDriver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            encoding="utf-8",
            env={**os.environ, "LC_ALL": "C.UTF-8"},  # else the JVM cannot spell every partition's directory
        )
        self("open", warehouse=str(self.warehouse), tmp=str(spill))

    def __call__(self, command: str, **arguments: Any) -> Any:
        """Send one command.

        Raises:
            EngineError: The engine threw; the JVM goes on.
            EngineCrashError: The JVM is gone.
        """
        assert self._jvm.stdin is not None and self._jvm.stdout is not None
        try:
            self._jvm.stdin.write(json.dumps({"cmd": command, **arguments}) + "\n")
            self._jvm.stdin.flush()
            line = self._jvm.stdout.readline()
        except OSError as error:
            raise self._crash(command) from error
        if not line:
            raise self._crash(command)
        answer = json.loads(line)
        self.milliseconds = answer["ms"]
        if not answer["ok"]:
            raise EngineError(f"{command} {json.dumps(arguments)}", answer["error"], answer["trace"])
        return answer["result"]

    def location(self, table: str) -> Path:
        """Say where a table of the warehouse lies."""
        database, name = table.split(".", 1)
        return self.warehouse / f"{database}.db" / name

    def close(self) -> None:
        """End the JVM: it leaves when its input ends, and is killed when it does not."""
        assert self._jvm.stdin is not None and self._jvm.stdout is not None
        try:
            self._jvm.stdin.close()
            self._jvm.wait(timeout=30)
        except (OSError, subprocess.TimeoutExpired):
            self._jvm.kill()
            self._jvm.wait()
        finally:
            self._jvm.stdout.close()
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _crash(self, command: str) -> EngineCrashError:
        try:
            code: int | None = self._jvm.wait(timeout=10)
        except subprocess.TimeoutExpired:
            code = None
        self._log.flush()
        tail = "\n".join(self.log_path.read_text(errors="replace").splitlines()[-30:])
        return EngineCrashError(f"the engine's JVM ended (exit code {code}) at `{command}`; its log ends with:\n{tail}")
