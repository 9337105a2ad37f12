"""The folders that Lakesweep checked before it decided about files. It deletes only in these folders.

After the check, somebody may swap a folder for a link or another folder. The path alone does not show this.
"""

Identity = tuple[int, int]
"""Device and inode of a folder."""


class Trail:
    """The folder that was first found at each path without links. Threads may share a trail."""

    def __init__(self) -> None:
        self._met: dict[str, Identity] = {}

    def meets(self, path: str, found: Identity) -> bool:
        """Tell whether the folder at a path is the first one that a check found there."""
        return self._met.setdefault(path, found) == found

    def knows(self, path: str, found: Identity) -> bool:
        """Tell whether a check has found this folder at this path."""
        return self._met.get(path) == found
