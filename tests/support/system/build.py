"""The functions as `sam build` makes them for this machine, and a Python that has what Lambda's has.

Both are kept under `build/`, and made anew when something that they are made of has changed.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.stack import TEMPLATE

REPOSITORY = TEMPLATE.parent
RUNTIME = f"python{sys.version_info[0]}.{sys.version_info[1]}"
ARCHITECTURE = {"aarch64": "arm64"}.get(platform.machine(), platform.machine())
_FOLDER = REPOSITORY / "build" / "system"
OLD_S = 24 * 3600
_SOURCES = ("template.yaml", "functions", "layers", "shared/lakesweep", "requirements/lambda.txt")


class BuildError(Exception):
    """The functions could not be built, or Lambda's client not be installed."""


@dataclass(frozen=True, slots=True)
class Build:
    """What a function is started from."""

    python: Path
    """Of an environment with awslambdaric and boto3 alone."""
    folder: Path
    """Of `sam build`."""

    def code(self, function: str) -> Path:
        """Return the folder of a function by its logical id."""
        return self.folder / function

    @property
    def layers(self) -> tuple[Path, ...]:
        """Return the folders of the layers."""
        return self.folder / "BaseLayer", self.folder / "PackageLayer"


@cache
def build_here() -> Build:
    """Build what is not built yet. Processes that ask at once wait for the first.

    Raises:
        BuildError: It failed; the message has the last lines of what the tool said.
    """
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with _alone():
        python = _FOLDER / f"lambda-{RUNTIME}" / "bin" / "python"
        if _is_new(python.parents[1], _digest("requirements/lambda.txt")):
            make_lambda_python(python.parents[1])
            _note(python.parents[1], _digest("requirements/lambda.txt"))
        digest = _digest(*_SOURCES)
        made = _FOLDER / f"functions-{RUNTIME}-{digest[:16]}"  # not in place of another, which may be running
        if _is_new(made, digest):
            _remove_old()
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir(parents=True)
            sam_build(made, runtime=RUNTIME, architecture=ARCHITECTURE)
            _note(made, digest)
    return Build(python, made / "build")


def make_lambda_python(folder: Path) -> Path:
    """Make a Python as Lambda has it, with its runtime client and boto3 alone.

    Raises:
        BuildError: The packages cannot be had.
    """
    venv.create(folder, with_pip=True, clear=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input", "--retries", "1"]
    lock = REPOSITORY / "requirements" / "lambda.txt"
    _run([*pip, "--only-binary", ":all:", "--require-hashes", "--no-deps", "-r", lock])
    return python


def sam_build(folder: Path, *arguments: str, runtime: str, architecture: str) -> Path:
    """Build as `make build` does, and return where.

    Raises:
        BuildError: sam failed, or is not installed.
    """
    sam = Path(sys.executable).parent / "sam"
    if not sam.exists():
        raise BuildError("sam is not installed (extra `deploy`)")
    environment = {
        **os.environ,
        "PATH": f"{sam.parent}:{os.environ['PATH']}",
        "SAM_CLI_TELEMETRY": "0",
        "LAYER_RUNTIME": runtime,
        "LAYER_ARCHITECTURE": architecture,
        "TARGET_PYTHON": sys.executable,
    }
    command: list[str | Path] = [sam, "build", *arguments, "--template-file", TEMPLATE, "--build-dir", folder / "build"]
    overrides = ["--parameter-overrides", f"Runtime={runtime}", f"Architecture={architecture}"]
    _run([*command, *overrides], cwd=folder, env=environment)
    return folder / "build"


def _run(command: list[str | Path], cwd: Path | None = None, env: dict[str, str] | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()
        raise BuildError("\n".join([f"{Path(command[0]).name} ended with {done.returncode}", *said[-20:]]))


@contextmanager
def _alone() -> Iterator[None]:
    with (_FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _digest(*sources: str) -> str:
    digest = hashlib.sha256(RUNTIME.encode())
    for source in sources:
        root = REPOSITORY / source
        paths = sorted(root.rglob("*")) if root.is_dir() else [root]
        for path in paths:
            if path.is_file() and path.suffix != ".pyc":
                digest.update(f"{path.relative_to(REPOSITORY)}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def _remove_old() -> None:
    """Remove builds that nobody runs any more, to all appearances."""
    for folder in _FOLDER.glob("functions-*"):
        if time.time() - folder.stat().st_mtime > OLD_S:
            shutil.rmtree(folder, ignore_errors=True)


def _is_new(folder: Path, digest: str) -> bool:
    note = folder / ".made-of"
    return not note.is_file() or note.read_text(encoding="utf-8") != digest


def _note(folder: Path, digest: str) -> None:
    (folder / ".made-of").write_text(digest, encoding="utf-8")
