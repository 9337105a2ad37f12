"""Lakesweep as `pip install 'lakesweep[cli]'` brings it: beside nothing but what it requires.

The environment of development has more. botocore imports some of it when it starts (awscrt, and pyOpenSSL of urllib3),
which takes some tenths of a second that no user waits for.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

from benchmarks.servers import PROJECT, environment

_FOLDER = PROJECT / "build" / "bench" / "installed"


@cache
def installed() -> tuple[str, dict[str, str]]:
    """Return the Python of a user's installation, and its environment variables."""
    found = environment()
    paths = [str(PROJECT / "shared"), str(_link(_FOLDER))]
    return str(Path(sys.executable).resolve()), found | {"PYTHONPATH": ":".join(paths), "PYTHONNOUSERSITE": "1"}


def _link(folder: Path) -> Path:
    """Fill a folder with links to the packages of this environment that Lakesweep requires."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name in _required("lakesweep", "cli"):
        parts = distribution(name)
        tops = {file.parts[0] for file in parts.files or () if file.parts[0] not in ("..", "__pycache__")}
        for top in tops:
            link = folder / top
            if not link.is_symlink():
                link.symlink_to(Path(str(parts.locate_file(top))).resolve())
    return folder


def _required(name: str, extra: str = "") -> set[str]:
    found: set[str] = set()
    waiting = list(_requires(name, extra))
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting.extend(_requires(each))
    return found


def _requires(name: str, extra: str = "") -> Iterator[str]:
    for line in distribution(name).requires or ():
        required, _, marker = line.partition(";")
        word = re.match(r"[A-Za-z0-9._-]+", required.strip())
        if word and (re.search(rf"extra == ['\"]{extra}['\"]", marker) if "extra" in marker else _applies(marker)):
            yield word[0]


def _applies(marker: str) -> bool:
    from packaging.markers import Marker

    return not marker.strip() or Marker(marker).evaluate()
