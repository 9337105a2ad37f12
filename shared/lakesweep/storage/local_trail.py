"""The folders that Lakesweep looked at before it decided about files: it deletes in these folders alone.

Somebody may swap a folder for a link, or for another folder, after the look. A path says nothing then.
"""

Identity = tuple[int, int]
"""Device and inode of a folder."""


class Trail:
    """Which folder lay at each path without links when it was first met. Threads may share one."""

    def __init__(self) -> None:
        self._met: dict[str, Identity] = {}

    def meets(self, path: str, found: Identity) -> bool:
        """Tell whether the folder at a path is the first one that a look met there."""
        return self._met.setdefault(path, found) == found

    def knows(self, path: str, found: Identity) -> bool:
        """Tell whether a look has met this folder at this path."""
        return self._met.get(path) == found
