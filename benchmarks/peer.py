"""A program of Java in a JVM with its own defaults, which works for each line that it gets."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import IO

from benchmarks.engine import HEAP
from benchmarks.tables import FOLDER


class JavaPeer:
    """`Name.java` beside this module. Its answers are lines of whole numbers."""

    def __init__(self, classpath: str, name: str, *arguments: str, heap: str = HEAP) -> None:
        work = FOLDER / name
        work.mkdir(parents=True, exist_ok=True)
        source = Path(__file__).with_name(f"{name}.java")
        subprocess.run(["javac", "-nowarn", "-cp", classpath, "-d", str(work), str(source)], check=True)
        command = ["java", f"-Xmx{heap}", "-cp", f"{work}{os.pathsep}{classpath}", name, *arguments]
        self._log = (work / "log").open("a")
        self._jvm = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, bufsize=1
        )

    def __call__(self, line: str = "") -> list[int]:
        """Send a line, and return the numbers of the answer."""
        requests, answers = self._pipes
        requests.write(f"{line}\n")
        numbers = [int(word) for word in answers.readline().split()]
        if not numbers:
            raise SystemExit(f"benchmarks: the Java peer gave no answer; its log is {self._log.name}")
        return numbers

    @property
    def _pipes(self) -> tuple[IO[str], IO[str]]:
        assert self._jvm.stdin is not None and self._jvm.stdout is not None
        return self._jvm.stdin, self._jvm.stdout

    def close(self) -> None:
        """End the JVM."""
        self._pipes[0].close()
        self._jvm.wait(timeout=30)
        self._log.close()
