"""Names of new metadata files. Source: Paimon `FileStorePathFactory`."""

from collections import Counter


class MetadataNames:
    """Names for the files of one attempt to commit.

    Every attempt has a UUID of its own. So a file of an attempt whose outcome is unknown is never written again.
    """

    def __init__(self, uuid: str) -> None:
        self._uuid = uuid
        self._next: Counter[str] = Counter()

    def manifest(self) -> str:
        """Return the name of the next manifest."""
        return self._name("manifest")

    def manifest_list(self) -> str:
        """Return the name of the next manifest list."""
        return self._name("manifest-list")

    def index_manifest(self) -> str:
        """Return the name of the next index manifest."""
        return self._name("index-manifest")

    def _name(self, kind: str) -> str:
        number = self._next[kind]
        self._next[kind] += 1
        return f"{kind}-{self._uuid}-{number}"
