"""Real Paimon tables from a symbolic history.

    table = TableBuilder(store)
    table.commit("+A", "+B")                 # snapshot 1 adds two files
    table.commit("-A@0", "+A@5")             # snapshot 2 moves one to another level
    table.tag("t", snapshot=1)
    table.present()                          # {"A", "B"}: which files exist in the store now
    table.live("main", 2)                    # what snapshot 2 consists of
    table.referenced(table.root("t"))        # every path that a reader of the tag needs

A *symbol* (`A`) stands for one file; where it lies, what it is called and how large it is follow from it, the same in
every run. Everything a snapshot names really exists, with exact sizes and counts, as the Java engine writes it. The
builder shares no code with `lakesweep.format`, and remembers what it built, so that a test can compare.
"""

import copy
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lakesweep.storage.store import DeleteRequest, Store
from tests.support.metadata_files import (
    Entry,
    Manifest,
    encode_index_manifest,
    encode_manifest,
    encode_manifest_list,
    stable_uuid,
)
from tests.support.root_model import BranchModel, RootKind, RootModel
from tests.support.table_files import Details, TableFiles, Vectors

BATCH = (1 << 63) - 1
"""The commit identifier of batch jobs."""
TICK_MS = 600_000
"""Snapshot n is committed at (n - 1) ticks, unless a test says otherwise."""


class TableBuilder:
    """Writes one branch of one table into a store, a commit at a time."""

    def __init__(
        self,
        store: Store,
        *,
        partition_keys: Sequence[str] = (),
        primary_keys: Sequence[str] = (),
        types: Mapping[str, str] | None = None,
        options: Mapping[str, str] | None = None,
        externals: Mapping[str, Store] | None = None,
        real_rows: bool = False,
        start_ms: int = 0,
    ) -> None:
        """Begin with `schema/schema-0` and nothing else.

        Args:
            types: Column types. A column `v STRING` comes by itself; keys that are left out are STRING (partition)
                or INT (primary key).
            options: Table options; `bucket` is -1 for an append table and 1 for a primary-key table unless given.
            externals: Root location -> store of files outside the table; declared in the options as such.
            real_rows: Data files are Parquet files with rows in them.
            start_ms: The commit time of snapshot 1.
        """
        self.store = store
        self.branch_name = "main"
        self.externals = dict(externals or {})
        self._start_ms = start_ms
        self._files = TableFiles(store, self.externals, real_rows)
        self._numbers = itertools.count(1)
        self._branches = {"main": BranchModel()}

        columns = {**dict.fromkeys(primary_keys, "INT"), **dict.fromkeys(partition_keys, "STRING"), **(types or {})}
        settings = {"bucket": "1" if primary_keys else "-1"}
        if self.externals:
            settings["data-file.external-paths"] = ",".join(self.externals)
        self._add_schema({"v": "STRING"} | columns, partition_keys, primary_keys, settings | dict(options or {}))

    # Writing.

    def commit(
        self,
        *entries: str,
        manifests: Sequence[Sequence[str]] | None = None,
        changelog: Sequence[str] | Sequence[Sequence[str]] = (),
        index: Mapping[str, Vectors | bytes | None] | None = None,
        statistics: str | None = None,
        merge_base: bool = False,
        kind: str | None = None,
        time_ms: int | None = None,
        snapshot_id: int | None = None,
        user: str = "builder",
        identifier: int = BATCH,
        document: Mapping[str, Any] | None = None,
        partition: Mapping[str, tuple[Any, ...]] | tuple[Any, ...] | None = None,
        bucket: Mapping[str, int] | int | None = None,
        extra: Mapping[str, Sequence[str]] | None = None,
        external: Mapping[str, str] | None = None,
        file_source: Mapping[str, int | None] | None = None,
        rows: Mapping[str, int] | None = None,
        size: Mapping[str, int] | None = None,
    ) -> int:
        """Write the next snapshot and everything it names.

        Args:
            entries: `+A` adds, `-A` deletes, `+A@5` says the level (0 for a new file). Their order is kept. `+A` for a
                symbol that is known adds the same file again.
            manifests: The entries, one sequence for each manifest of the delta; instead of `entries`.
            changelog: Entries of the changelog manifest, or one sequence for each of several.
            index: The whole index after this commit: symbol -> deletion vectors by data file symbol, or the bytes of a
                hash index, or None for an index file that exists. Without it the index stays as it is.
            statistics: Symbol of new statistics, or their name (`stat-...`); else they are inherited, while the
                schema is the same.
            merge_base: Rewrite the base list to one manifest of what is live.
            kind: APPEND, COMPACT, OVERWRITE or ANALYZE; guessed from what the commit does.
            document: Fields of the snapshot document to set; None removes one.
            partition: Values by symbol, or for all new files of this commit.
            bucket: The same.
            extra: Extra files by symbol. `index` is short for `<data file>.index`; a name with a dot is taken as it is.
            external: URI or absolute path by symbol, below one of the external roots.
            file_source: 0 APPEND, 1 COMPACT, None absent; by symbol.
            rows: Row counts by symbol; 10 by itself.
            size: Sizes in bytes by symbol.

        Returns:
            The id of the snapshot.
        """
        if entries and manifests is not None:
            raise ValueError("give the entries once: as arguments or as manifests")
        groups = [entries] if entries else list(manifests or ())
        before = self._branch.head
        snapshot_id = snapshot_id if snapshot_id is not None else before.id + 1 if before else 1
        time_ms = self._time_ms(snapshot_id) if time_ms is None else time_ms
        kind = kind or _guess_kind(groups, index is not None, statistics is not None)
        details = Details(kind, time_ms, partition, bucket, extra, external, file_source, rows, size)

        names = _Names(next(self._numbers))
        live = before.live if before else ()
        delta = self._manifests(names, [[self._entry(text, details, before) for text in group] for group in groups])
        changes = [[self._entry(text, details, None, "changelog-") for text in group] for group in _groups(changelog)]
        base = (*before.base, *before.delta) if before else ()
        if merge_base:
            base = self._manifests(names, [[Entry("+", file) for file in live]] if live else [])
        index_manifest = before.document.get("indexManifest") if before else None
        index_files = before.index if before else ()
        if index is not None:
            index_files = tuple(self._files.add_index(name, index[name], self._schema, details) for name in index)
            index_manifest = names.next("index-manifest")
            self._files.put(f"manifest/{index_manifest}", encode_index_manifest(index_files))
        return self._publish(
            names,
            RootModel(
                document={
                    "id": snapshot_id,
                    "schemaId": self._schema["id"],
                    "indexManifest": index_manifest,
                    "commitUser": user,
                    "commitIdentifier": identifier,
                    "commitKind": kind,
                    "timeMillis": time_ms,
                    "watermark": before.document.get("watermark") if before else None,
                    "statistics": self._statistics(statistics, snapshot_id, before),
                    "nextRowId": before.document.get("nextRowId", 0) if before else 0,
                },
                base=base,
                delta=delta,
                changelog=self._manifests(names, changes),
                index=index_files,
            ),
            before,
            document or {},
        )

    def merge_manifests(self, **details: Any) -> int:
        """Commit nothing but a base list that is merged to one manifest."""
        return self.commit(merge_base=True, kind="COMPACT", **details)

    def rollback_as_latest(self, to: int | str, *, time_ms: int | None = None) -> int:
        """Commit the state of an earlier snapshot or tag as the newest snapshot, as the engine does.

        Given a snapshot id, the engine first tags that snapshot for good, and so does this.
        """
        before, target = self._branch.head, self._branch.find(to)
        if before is None:
            raise ValueError("there is nothing to roll back")
        names = _Names(next(self._numbers))
        if isinstance(to, int):
            self.tag(f"rollback-to-as-latest-{to}-{stable_uuid(f'rollback {names.number}')}", snapshot=to)
        now = {file.identity: file for file in before.live}
        then = {file.identity: file for file in target.live}
        delta = [Entry("-", file) for identity, file in now.items() if identity not in then]
        delta += [Entry("+", file) for identity, file in then.items() if identity not in now]
        inherited = ("schemaId", "indexManifest", "statistics", "watermark", "properties")
        return self._publish(
            names,
            RootModel(
                document={
                    **{key: target.document.get(key) for key in inherited},
                    "id": before.id + 1,
                    "commitUser": "builder",
                    "commitIdentifier": BATCH,
                    "commitKind": "OVERWRITE",
                    "timeMillis": self._time_ms(before.id + 1) if time_ms is None else time_ms,
                    "nextRowId": max(model.document.get("nextRowId", 0) for model in (before, target)),
                },
                base=self._manifests(names, [[Entry("+", file) for file in now.values()]] if now else []),
                delta=self._manifests(names, [delta] if delta else []),
                index=target.index,
            ),
            before,
            {},
        )

    def rollback(self, to: int | str) -> None:
        """Take back every later snapshot, changelog and tag of this branch, but not their files, as the engine does."""
        state, target = self._branch, self._branch.find(to)
        self.hint("LATEST", target.id)
        changelogs = state.ids("changelog")
        if later := [i for i in changelogs if i > target.id]:
            self.hint("LATEST", target.id if later != changelogs else -1, folder="changelog")
        gone = [self.root(i) for i in reversed(state.ids("snapshot")) if i > target.id]
        gone += [self.changelog_root(i) for i in reversed(later)]
        gone += [self.root(str(name)) for name, tag in state.roots["tag"].items() if tag.id > target.id]
        for path in gone:
            self.remove(path)
        if target.id not in state.roots["snapshot"]:
            self._put_root("snapshot", target.id, target.without_retention())
            self.hint("EARLIEST", target.id)

    def tag(
        self,
        name: str,
        snapshot: int | None = None,
        *,
        ttl: timedelta | None = None,
        create_time: datetime | None = None,
    ) -> str:
        """Tag a snapshot, or what another tag still holds of it, and return the tag's path.

        Args:
            snapshot: The latest when not given.
            ttl: How long the tag is to live; without it the document is a plain snapshot.
            create_time: Zone-less, as the engine writes it; the snapshot's commit time in UTC when not given.
        """
        model = self._branch.head if snapshot is None else self._branch.find(snapshot)
        if model is None:
            raise ValueError("there is no snapshot to tag")
        if ttl is not None:
            made = create_time or datetime.fromtimestamp(model.document["timeMillis"] / 1000, UTC)
            parts = [made.year, made.month, made.day, made.hour, made.minute, made.second, made.microsecond * 1000]
            while len(parts) > 5 and parts[-1] == 0:
                parts.pop()
            retention = {"tagCreateTime": parts, "tagTimeRetained": ttl.total_seconds()}
            model = replace(model, document={**model.document, **retention})
        return self._put_root("tag", name, model)

    def changelog_document(self, snapshot_id: int) -> str:
        """Copy a snapshot document to `changelog/`, as expiry does where changelogs live longer; return its path."""
        path = self._put_root("changelog", snapshot_id, self._branch.find(snapshot_id))
        self.hint("LATEST", self._branch.ids("changelog")[-1], folder="changelog")
        return path

    def consumer(self, name: str, next_snapshot: int) -> str:
        """Write a consumer's progress and return its path."""
        return self._put_json(f"{self._prefix}consumer/consumer-{name}", {"nextSnapshot": next_snapshot})

    def hint(self, name: str, snapshot_id: int, folder: str = "snapshot") -> None:
        """Write LATEST or EARLIEST."""
        self.store.put(f"{self._prefix}{folder}/{name}", str(snapshot_id).encode())

    def alter(
        self,
        *,
        options: Mapping[str, str] | None = None,
        types: Mapping[str, str] | None = None,
        partition_keys: Sequence[str] | None = None,
        primary_keys: Sequence[str] | None = None,
    ) -> int:
        """Write the next schema of this branch, with options and columns set, and return its id."""
        schema = self._schema
        return self._add_schema(
            {column["name"]: column["type"] for column in schema["fields"]} | dict(types or {}),
            schema["partitionKeys"] if partition_keys is None else partition_keys,
            schema["primaryKeys"] if primary_keys is None else primary_keys,
            {**schema["options"], **(options or {})},
        )

    def branch(self, name: str, from_tag: str | None = None) -> "TableBuilder":
        """Make a branch, empty or from a tag of this one, and return the builder of it."""
        source, target = self._branch, self._view(name)
        model = source.find(from_tag) if from_tag is not None else None
        self._branches[name] = BranchModel()
        for schema in source.schemas:
            if model is None or schema["id"] <= model.document["schemaId"]:
                target._put_schema(schema)
        if model is not None and from_tag is not None:
            target._put_root("tag", from_tag, model)
            target._put_root("snapshot", model.id, model.without_retention())
        return target

    def fast_forward(self, name: str) -> None:
        """Go on from a branch's first snapshot as the branch did: its documents are copied, and its files are shared.

        As the engine does it. The branch stays; hints that it has are copied too, EARLIEST with them.
        """
        source, target = self._branches[name], self._branch
        first = min(source.roots["snapshot"].values(), key=lambda model: model.id)
        gone = [self.root(i) for i in target.ids("snapshot") if i >= first.id]
        gone += [self.root(str(tag)) for tag, model in target.roots["tag"].items() if model.id >= first.id]
        for path in gone:
            self.remove(path)
        target.schemas[:] = [schema for schema in target.schemas if schema["id"] < first.document["schemaId"]]
        known = {schema["id"] for schema in target.schemas}
        for schema in source.schemas:
            if schema["id"] not in known:
                self._put_schema(schema)
        kinds: tuple[RootKind, ...] = ("snapshot", "tag")
        for kind in kinds:
            for root, model in source.roots[kind].items():
                self._put_root(kind, root, model)
        for found in list(self.store.list(f"branch/branch-{name}/snapshot/")):
            if (hint := found.key.rpartition("/")[2]) in ("EARLIEST", "LATEST"):
                self.hint(hint, int(self.store.read(found.key).data))

    def on_branch(self, name: str) -> "TableBuilder":
        """Return the builder of a branch that exists; files and names are shared with this one."""
        if name not in self._branches:
            raise KeyError(f"no branch {name}")
        return self._view(name)

    def remove(self, path: str) -> None:
        """Delete one object, by path or symbol, and forget it if it was a root."""
        store, key = self._files.locate(self._path_of(path))
        (result,) = store.delete([DeleteRequest(key)])
        if not result.ok:
            raise AssertionError(f"{path} was not deleted: {result.code}")
        for root_path, state, kind, name in list(self._all_roots()):
            if root_path == path:
                del state.roots[kind][name]

    def corrupt(self, path: str, data: bytes = b"\0damaged") -> None:
        """Overwrite one object, by path or symbol; the model keeps what it should be."""
        self._files.put(self._path_of(path), data)

    # Asking.

    def path(self, symbol: str, extra: str | None = None) -> str:
        """Return where a file, or an extra file of it, lies: a key of the table, or the URI of an external file."""
        return self._files.path(symbol, extra)

    def symbols(self, paths: Iterable[str]) -> set[str]:
        """Return paths as symbols; `A.index` is an extra file of A; a path without a symbol stays what it is."""
        return self._files.named(paths)

    def present(self) -> set[str]:
        """Return the symbols of all data, extra, changelog, index and statistics files that exist now."""
        paths = self._files.all_paths()
        return {symbol for path, symbol in self._files.symbols.items() if path in paths}

    def exists(self, path: str) -> bool:
        """Tell whether an object exists, by path or symbol."""
        store, key = self._files.locate(self._path_of(path))
        folder = key.rpartition("/")[0]
        return any(found.key == key for found in store.list(f"{folder}/" if folder else ""))

    def root(self, name: int | str) -> str:
        """Return the path of a snapshot (by id) or of a tag (by name) of this branch."""
        return self._root_path("snapshot" if isinstance(name, int) else "tag", name)

    def changelog_root(self, snapshot_id: int) -> str:
        """Return the path of a changelog document of this branch."""
        return self._root_path("changelog", snapshot_id)

    def ids(self, kind: RootKind) -> list[int]:
        """Return the ids of this branch's snapshots or changelogs."""
        return self._branch.ids(kind)

    def roots(self) -> list[str]:
        """Return the paths of all snapshots, tags and changelog documents of all branches, sorted."""
        return sorted(path for path, *_ in self._all_roots())

    def live(self, branch: str, root: int | str) -> frozenset[str]:
        """Return the paths of the data files that a snapshot (by id) or tag (by name) consists of."""
        return frozenset(file.path for file in self._branches[branch].find(root).live)

    def referenced(self, root: str, *, with_changelog: bool = True) -> frozenset[str]:
        """Return every path that a reader of a root, given by its path, needs; the document included.

        Args:
            with_changelog: A snapshot's reader reads its changelog too. Expiry takes that of a tagged snapshot away.
        """
        kind, model = self._root_at(root)
        has_producer = self._schema["options"].get("changelog-producer", "none") != "none"
        needs = model.needs(kind if with_changelog or kind == "changelog" else "tag", has_producer=has_producer)
        return needs | {root}

    def model(self, root: str) -> RootModel:
        """Return what a root, given by its path, was built of: its document, manifests with entries, index files."""
        return self._root_at(root)[1]

    def document(self, root: str) -> dict[str, Any]:
        """Return the JSON of a root, given by its path, as it was written."""
        return dict(self.model(root).document)

    # How.

    @property
    def _prefix(self) -> str:
        return "" if self.branch_name == "main" else f"branch/branch-{self.branch_name}/"

    @property
    def _branch(self) -> BranchModel:
        return self._branches[self.branch_name]

    @property
    def _schema(self) -> dict[str, Any]:
        return self._branch.schemas[-1]

    def _view(self, branch: str) -> "TableBuilder":
        view = copy.copy(self)
        view.branch_name = branch
        return view

    def _time_ms(self, snapshot_id: int) -> int:
        return self._start_ms + (snapshot_id - 1) * TICK_MS

    def _path_of(self, path_or_symbol: str) -> str:
        known = self._files.data(path_or_symbol) or self._files.index(path_or_symbol)
        return known.path if known else path_or_symbol

    def _root_path(self, kind: RootKind, name: int | str) -> str:
        return f"{self._prefix}{kind}/{kind}-{name}"

    def _all_roots(self) -> Iterator[tuple[str, BranchModel, RootKind, int | str]]:
        for branch, state in self._branches.items():
            for kind, models in state.roots.items():
                for name in models:
                    yield self._view(branch)._root_path(kind, name), state, kind, name

    def _root_at(self, path: str) -> tuple[RootKind, RootModel]:
        for root_path, state, kind, name in self._all_roots():
            if root_path == path:
                return kind, state.roots[kind][name]
        for root_path, state, kind, name in self._all_roots():
            if kind == "snapshot" and root_path.replace("snapshot", "changelog") == path:
                return "changelog", state.roots[kind][name]  # expiry made it of the snapshot
        raise KeyError(f"no root {path}")

    def _entry(self, text: str, details: Details, before: RootModel | None, prefix: str = "data-") -> Entry:
        sign, (symbol, _, stated) = text[0], text[1:].partition("@")
        level = int(stated) if stated else None
        if sign == "+":
            return Entry("+", self._files.add(symbol, level, self._schema, details, prefix))
        if sign != "-":
            raise ValueError(f"expected +A or -A, found {text}")
        for file in before.live if before else ():
            if file.symbol == symbol and level in (None, file.level):
                return Entry("-", file)
        # A history may also delete what is not there.
        file = self._files.data(symbol) or self._files.add(symbol, level, self._schema, details, prefix)
        return Entry("-", file if level is None else replace(file, level=level))

    def _manifests(self, names: "_Names", groups: Iterable[Iterable[Entry]]) -> tuple[Manifest, ...]:
        columns = {column["name"]: column["type"] for column in self._schema["fields"]}
        types = tuple(columns[key] for key in self._schema["partitionKeys"])
        written = []
        for group in groups:
            entries = tuple(group)
            body = encode_manifest(entries)
            manifest = Manifest(names.next("manifest"), len(body), entries, types)
            self.store.put(f"manifest/{manifest.name}", body)
            written.append(manifest)
        return tuple(written)

    def _manifest_list(self, names: "_Names", manifests: Iterable[Manifest]) -> tuple[str, int]:
        name, body = names.next("manifest-list"), encode_manifest_list(manifests)
        self.store.put(f"manifest/{name}", body)
        return name, len(body)

    def _statistics(self, symbol: str | None, snapshot_id: int, before: RootModel | None) -> str | None:
        if symbol is None:
            same_schema = before is not None and before.document["schemaId"] == self._schema["id"]
            return before.document.get("statistics") if before is not None and same_schema else None
        name = symbol if symbol.startswith("stat-") else f"stat-{stable_uuid(symbol)}-0"
        described = {"snapshotId": snapshot_id - 1, "schemaId": self._schema["id"], "colStats": {}}
        self._files.symbols[self._put_json(f"statistics/{name}", described)] = symbol
        return name

    def _publish(self, names: "_Names", model: RootModel, before: RootModel | None, changes: Mapping[str, Any]) -> int:
        """Write the lists, the snapshot document and LATEST, in the order in which a writer does it."""
        base, base_size = self._manifest_list(names, model.base)
        delta, delta_size = self._manifest_list(names, model.delta)
        changelog, changelog_size = self._manifest_list(names, model.changelog) if model.changelog else (None, None)
        delta_rows = sum(_rows(manifest) for manifest in model.delta)
        fields = {
            "version": 3,
            "uuid": stable_uuid(f"snapshot {names.number}"),
            "baseManifestList": base,
            "baseManifestListSize": base_size,
            "deltaManifestList": delta,
            "deltaManifestListSize": delta_size,
            "changelogManifestList": changelog,
            "changelogManifestListSize": changelog_size,
            "totalRecordCount": (before.document["totalRecordCount"] if before else 0) + delta_rows,
            "deltaRecordCount": delta_rows,
            "changelogRecordCount": sum(_rows(manifest) for manifest in model.changelog) if model.changelog else None,
            **model.document,
            **changes,
        }
        document = {key: value for key, value in fields.items() if value is not None}
        is_first = not self._branch.roots["snapshot"]
        self._put_root("snapshot", document["id"], replace(model, document=document))
        self.hint("LATEST", document["id"])
        if is_first:
            self.hint("EARLIEST", document["id"])
        return int(document["id"])

    def _put_root(self, kind: RootKind, name: int | str, model: RootModel) -> str:
        self._branch.roots[kind][name] = model
        return self._put_json(self._root_path(kind, name), model.document)

    def _put_json(self, path: str, document: Mapping[str, Any]) -> str:
        self.store.put(path, json.dumps(document, indent=2, separators=(",", " : ")).encode())
        return path

    def _put_schema(self, schema: dict[str, Any]) -> None:
        self._branch.schemas.append(schema)
        self._put_json(f"{self._prefix}schema/schema-{schema['id']}", schema)

    def _add_schema(
        self,
        columns: Mapping[str, str],
        partition_keys: Sequence[str],
        primary_keys: Sequence[str],
        options: Mapping[str, str],
    ) -> int:
        schemas = self._branch.schemas
        ids = {column["name"]: column["id"] for column in schemas[-1]["fields"]} if schemas else {}
        highest = schemas[-1]["highestFieldId"] if schemas else -1
        for name in columns:
            if name not in ids:
                highest += 1
                ids[name] = highest
        fields = []
        for name, type_ in columns.items():
            nullable = name not in primary_keys or type_.endswith("NOT NULL")
            fields.append({"id": ids[name], "name": name, "type": type_ if nullable else f"{type_} NOT NULL"})
        self._put_schema(
            {
                "version": 3,
                "id": len(schemas),
                "fields": fields,
                "highestFieldId": highest,
                "partitionKeys": list(partition_keys),
                "primaryKeys": list(primary_keys),
                "options": dict(options),
                "timeMillis": self._start_ms,
            }
        )
        return len(schemas) - 1


class _Names:
    """Names that one committer gives: each kind of file has a UUID and a count."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._counts = {kind: itertools.count() for kind in ("manifest", "manifest-list", "index-manifest")}

    def next(self, kind: str) -> str:
        return f"{kind}-{stable_uuid(f'commit {self.number} {kind}')}-{next(self._counts[kind])}"


def _groups(entries: Sequence[str] | Sequence[Sequence[str]]) -> list[Sequence[str]]:
    plain = [entry for entry in entries if isinstance(entry, str)]
    return [plain] if plain else [group for group in entries if not isinstance(group, str)]


def _guess_kind(groups: Sequence[Sequence[str]], changes_index: bool, analyzes: bool) -> str:
    signs = {entry[0] for group in groups for entry in group}
    if signs == {"+", "-"}:
        return "COMPACT"
    if signs == {"-"} or changes_index:
        return "OVERWRITE"
    return "ANALYZE" if analyzes and not signs else "APPEND"


def _rows(manifest: Manifest) -> int:
    return sum(entry.file.rows if entry.sign == "+" else -entry.file.rows for entry in manifest.entries)
