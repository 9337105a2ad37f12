"""The wheel of this package, as `pip install` would get it, built without a network."""

import subprocess
import sys
import zipfile
from pathlib import Path

from tests.conftest import REPOSITORY

WHEELS = REPOSITORY / "build" / "wheels"
"""What `make wheels` fetched: everything that the extra `cli` needs."""


def built_wheel(folder: Path) -> Path:
    """Build the wheel by the build backend of this environment, and return its path."""
    words = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(words, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = folder.glob("lakesweep-*.whl")
    return wheel


def unpacked(wheel: Path, folder: Path) -> Path:
    """Unpack a wheel, which is all that installing one without scripts is, and return the folder."""
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    return folder


def clean_environment(folder: Path) -> Path:
    """Make an environment with nothing but pip, and return its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True)
    return folder / "bin" / "python"


def install_cli(python: Path, wheel: Path) -> None:
    """Install a wheel with its extra `cli` from the wheels that lie here."""
    words = [str(python), "-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]
    words += ["--no-index", "--find-links", str(WHEELS), f"{wheel}[cli]"]
    subprocess.run(words, check=True, capture_output=True)
