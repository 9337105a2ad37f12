"""The built functions with some lines of Lakesweep changed: smaller limits, or a later version of something."""

import shutil
from collections.abc import Mapping, Sequence
from compileall import compile_file
from dataclasses import replace
from pathlib import Path
from py_compile import PycInvalidationMode

from tests.support.system.build import Build

SMALL = {
    "execute/batches.py": ("BATCH_KEYS = 1000", "BATCH_KEYS = 4"),
    "aws/execution.py": ("MAX_ACTIONS_IN_PLACE = 10_000", "MAX_ACTIONS_IN_PLACE = 14"),
    "model/safety.py": ("SEEN_AGAIN_S = 5.0", "SEEN_AGAIN_S = 0.3"),
}
"""So that a small table has several batches, its larger plans go to the larger executor, and a commit is soon over."""

Change = tuple[str, str]
"""A text that a file has once, and what stands there instead."""


def altered(build: Build, folder: Path, changes: Mapping[str, Change | Sequence[Change]]) -> Build:
    """Copy what was built, with changes.

    Args:
        build: Stays as it is; what does not change is shared with it.
        folder: Takes the copy.
        changes: File of the package -> one change, or several.
    """
    folder.mkdir(parents=True)
    for made in build.folder.iterdir():
        if made.name != "PackageLayer":
            (folder / made.name).symlink_to(made)
    shutil.copytree(build.folder / "PackageLayer", folder / "PackageLayer")
    for name, one_or_more in changes.items():
        path = folder / "PackageLayer" / "python" / "lakesweep" / name
        text = path.read_text(encoding="utf-8")
        for before, after in _pairs(one_or_more):
            assert text.count(before) == 1, f"{name}: expected {before!r} once"
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")
        # As the layer was; else each process of a function would compile it again.
        compile_file(path, quiet=2, force=True, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH)
    return replace(build, folder=folder)


def _pairs(one_or_more: Change | Sequence[Change]) -> Sequence[tuple[str, str]]:
    if isinstance(one_or_more[0], str):
        return [one_or_more]  # type: ignore[list-item]
    return one_or_more  # type: ignore[return-value]
