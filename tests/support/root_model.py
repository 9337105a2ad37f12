"""What a built root must consist of: the expectation that a store is compared with."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from tests.support.metadata_files import DataFile, IndexFile, Manifest, live_files

RootKind = Literal["snapshot", "tag", "changelog"]


@dataclass(frozen=True, slots=True)
class RootModel:
    """One snapshot, tag or changelog document, with everything it names."""

    document: Mapping[str, Any]
    base: tuple[Manifest, ...]
    delta: tuple[Manifest, ...]
    changelog: tuple[Manifest, ...] = ()
    index: tuple[IndexFile, ...] = ()

    @property
    def id(self) -> int:
        """Return the snapshot id."""
        return int(self.document["id"])

    @property
    def live(self) -> tuple[DataFile, ...]:
        """Return the data files of the table at this root."""
        return live_files((*self.base, *self.delta))

    def needs(self, kind: RootKind, *, has_producer: bool = False) -> frozenset[str]:
        """Return the paths that a reader of this root needs, its own document not included.

        A reader of a snapshot reads the table and its changelog, one of a tag the table (expiry takes a tagged
        snapshot's changelog away), one of a changelog document what changed: where the table's writers produce
        changelog files (`has_producer`), a commit without any changed nothing.
        """
        if kind == "tag":
            return self._table()
        if kind == "snapshot":
            return self._table() | self._changelog()
        if has_producer or self.document.get("changelogManifestList"):
            return self._changelog()
        return self._added()

    def _table(self) -> frozenset[str]:
        found = _listed(self.document["baseManifestList"], self.base)
        found |= _listed(self.document["deltaManifestList"], self.delta)
        for file in self.live:
            found |= {file.path, *file.extra_paths}
        if self.document.get("indexManifest"):
            found |= {f"manifest/{self.document['indexManifest']}", *(file.path for file in self.index)}
        if self.document.get("statistics"):
            found.add(f"statistics/{self.document['statistics']}")
        return frozenset(found)

    def _changelog(self) -> frozenset[str]:
        name = self.document.get("changelogManifestList")
        if not name:
            return frozenset()
        files = {entry.file.path for manifest in self.changelog for entry in manifest.entries}
        return frozenset(files | _listed(name, self.changelog))

    def _added(self) -> frozenset[str]:
        """Return what makes the changelog of a table whose writers make none: new files, not those of compactions."""
        found = _listed(self.document["deltaManifestList"], self.delta)
        for entry in (entry for manifest in self.delta for entry in manifest.entries):
            if entry.sign == "+" and entry.file.file_source != 1:
                found |= {entry.file.path, *entry.file.extra_paths}
        return frozenset(found)

    def without_retention(self) -> "RootModel":
        """Return the plain snapshot that a tag with a time to live was made from."""
        fields = ("tagCreateTime", "tagTimeRetained")
        return replace(self, document={key: value for key, value in self.document.items() if key not in fields})


@dataclass(slots=True)
class BranchModel:
    """What lies in one branch's folders."""

    schemas: list[dict[str, Any]] = field(default_factory=list)
    roots: dict[RootKind, dict[int | str, RootModel]] = field(
        default_factory=lambda: {"snapshot": {}, "tag": {}, "changelog": {}}
    )

    @property
    def head(self) -> RootModel | None:
        """Return the newest snapshot."""
        snapshots = self.roots["snapshot"]
        return max(snapshots.values(), key=lambda model: model.id) if snapshots else None

    def ids(self, kind: RootKind) -> list[int]:
        """Return the ids of the snapshots or changelogs, ascending."""
        return sorted(model.id for model in self.roots[kind].values())

    def find(self, root: int | str) -> RootModel:
        """Return a tag by name, or a snapshot by id: from its document, a tag of it, or its changelog document."""
        if isinstance(root, str):
            return self.roots["tag"][root]
        tagged = (tag for tag in self.roots["tag"].values() if tag.id == root)
        for model in (self.roots["snapshot"].get(root), *tagged, self.roots["changelog"].get(root)):
            if model is not None:
                return model.without_retention()
        raise KeyError(f"no snapshot or tag with id {root}")


def _listed(name: str, manifests: Iterable[Manifest]) -> set[str]:
    return {f"manifest/{name}", *(f"manifest/{manifest.name}" for manifest in manifests)}
