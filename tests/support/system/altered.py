"""The built functions with some lines of Lakesweep changed: smaller limits, or a later version of something."""

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from tests.support.system.build import Build

SMALL = {
    "execute/batches.py": ("BATCH_KEYS = 1000", "BATCH_KEYS = 4"),
    "aws/work.py": ("MAX_ACTIONS_IN_PLACE = 10_000", "MAX_ACTIONS_IN_PLACE = 14"),
}
"""So that a small table has several batches, and its larger plans go to the larger executor."""


def altered(build: Build, folder: Path, changes: Mapping[str, tuple[str, str]]) -> Build:
    """Copy what was built, with changes.

    Args:
        build: Stays as it is; what does not change is shared with it.
        folder: Takes the copy.
        changes: File of the package -> a text that it has once, and what stands there instead.
    """
    folder.mkdir(parents=True)
    for made in build.folder.iterdir():
        if made.name != "PackageLayer":
            (folder / made.name).symlink_to(made)
    shutil.copytree(build.folder / "PackageLayer", folder / "PackageLayer")
    for name, (before, after) in changes.items():
        path = folder / "PackageLayer" / "python" / "lakesweep" / name
        text = path.read_text(encoding="utf-8")
        assert text.count(before) == 1, f"{name}: expected {before!r} once"
        shutil.rmtree(path.parent / "__pycache__", ignore_errors=True)
        path.write_text(text.replace(before, after), encoding="utf-8")
    return replace(build, folder=folder)
