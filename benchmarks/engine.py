"""The Java engine as the peer: a JVM with its own defaults, fed with JSON lines by the driver of the tests.

The differential tests start their JVM for quick starts. A measured one gets what a user's has: all compilers, the
default collector and a heap of 2 GiB.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.results import cpu_seconds
from benchmarks.servers import KEY, PROJECT, REGION, environment
from tests.differential.engine import EngineCrashError, EngineError, compiled

HEAP = "2g"


def engine_classpath() -> str:
    """Return the class path of the engine, or say what is missing and leave."""
    if shutil.which("javac") is None:
        raise SystemExit("benchmarks: the Java engine needs a JDK (java and javac); none is on the path")
    stated = os.environ.get("LAKESWEEP_ENGINE_CLASSPATH")
    made = PROJECT / "build" / "engine-classpath.txt"
    if not stated and not made.is_file():
        raise SystemExit("benchmarks: no jars of the Java engine; run `make jars` first")
    return stated or made.read_text(encoding="utf-8").strip()


def s3_classpath() -> str:
    """Return the class path with which the engine reaches S3, or say what is missing and leave."""
    classpath = engine_classpath()
    if "paimon-s3-" not in classpath:
        raise SystemExit("benchmarks: the engine's class path has no paimon-s3 jar; run `make jars` again")
    return classpath


def engine_version(classpath: str) -> str:
    """Return the engine's version, from the name of its jar."""
    names = [Path(jar).stem for jar in classpath.split(os.pathsep)]
    return next((name.rpartition("-")[2] for name in names if name.startswith("paimon-bundle-")), "unknown")


def java_version() -> str:
    """Return the first line of `java -version`."""
    return subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr.splitlines()[0]


def s3_options(endpoint: str) -> dict[str, str]:
    """Return the catalog's options for a server here."""
    return {
        "s3.endpoint": endpoint,
        "s3.access-key": KEY,
        "s3.secret-key": KEY,
        "s3.path.style.access": "true",
        "s3.endpoint.region": REGION,
        "s3.connection.ssl.enabled": "false",
    }


class MeasuredEngine:
    """A JVM to be measured; `engine("expire", table="db.t")` sends one command."""

    def __init__(self, classpath: str, work: Path) -> None:
        work.mkdir(parents=True, exist_ok=True)
        self._spill = work / "spill"
        self._spill.mkdir(exist_ok=True)
        self._log_path = work / "engine.log"
        self._log = self._log_path.open("a")
        self._jvm = subprocess.Popen(
            ["java", f"-Xmx{HEAP}", f"-Djava.io.tmpdir={self._spill}", "-Duser.timezone=UTC", "-Dfile.encoding=UTF-8"]
            + ["-cp", f"{compiled(classpath)}{os.pathsep}{classpath}", "EngineDriver"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env=environment(),
        )

    def __call__(self, command: str, **arguments: Any) -> Any:
        assert self._jvm.stdin is not None and self._jvm.stdout is not None
        self._jvm.stdin.write(json.dumps({"cmd": command, **arguments}) + "\n")
        self._jvm.stdin.flush()
        line = self._jvm.stdout.readline()
        if not line:
            raise EngineCrashError(f"the JVM ended at {command}; its log is {self._log_path}")
        answer = json.loads(line)
        if not answer["ok"]:
            raise EngineError(command, answer["error"], answer["trace"])
        return answer["result"]

    def open(self, warehouse: str, options: Mapping[str, str]) -> None:
        """Open the catalog over a warehouse."""
        self("open", warehouse=warehouse, options=dict(options), tmp=str(self._spill))

    def peak_kib(self) -> int:
        """Return the most memory that the JVM had resident so far."""
        return int(self("memory")["VmHWM"])

    def cpu_seconds(self) -> float:
        """Return the processor time that the JVM has used so far."""
        return cpu_seconds(self._jvm.pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._jvm.stdin is not None and self._jvm.stdout is not None
        self._jvm.stdin.close()
        try:
            self._jvm.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._jvm.kill()
            self._jvm.wait()
        self._jvm.stdout.close()
        self._log.close()
