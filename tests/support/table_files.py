"""The files of a built table: which symbol stands for which file, where it lies, and its bytes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from zlib import crc32

from lakesweep.storage.store import Store
from tests.support import data_bytes
from tests.support.binary_row import encode_row, partition_path
from tests.support.metadata_files import DataFile, IndexFile, encode_vectors, stable_uuid

Vectors = Mapping[str, Sequence[int]]

_INDEX_FILE_IN_DATA_FOLDER = "index-file-in-data-file-dir"


@dataclass(frozen=True, slots=True)
class Details:
    """What one commit says about its files beyond their symbols."""

    kind: str
    time_ms: int
    partition: Mapping[str, tuple[Any, ...]] | tuple[Any, ...] | None = None
    bucket: Mapping[str, int] | int | None = None
    extra: Mapping[str, Sequence[str]] | None = None
    external: Mapping[str, str] | None = None
    file_source: Mapping[str, int | None] | None = None
    rows: Mapping[str, int] | None = None
    size: Mapping[str, int] | None = None

    def partition_of(self, symbol: str, default: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the partition values of a symbol."""
        if isinstance(self.partition, Mapping):
            return self.partition.get(symbol, default)
        return default if self.partition is None else self.partition

    def bucket_of(self, symbol: str, default: int) -> int:
        """Return the bucket of a symbol."""
        if isinstance(self.bucket, Mapping):
            return self.bucket.get(symbol, default)
        return default if self.bucket is None else self.bucket


class TableFiles:
    """Makes data and index files, and knows them again by symbol."""

    def __init__(self, store: Store, externals: Mapping[str, Store], real_rows: bool) -> None:
        self._store = store
        self._externals = {location.rstrip("/"): external for location, external in externals.items()}
        self._real_rows = real_rows
        self._data: dict[str, DataFile] = {}
        """Each as it was last added."""
        self._indexes: dict[str, IndexFile] = {}
        self.symbols: dict[str, str] = {}
        """Path -> symbol; extra files are `A.x`."""

    def data(self, symbol: str) -> DataFile | None:
        """Return a data or changelog file as it was last added."""
        return self._data.get(symbol)

    def index(self, symbol: str) -> IndexFile | None:
        """Return an index file."""
        return self._indexes.get(symbol)

    def path(self, symbol: str, extra: str | None = None) -> str:
        """Return where a symbol's file, or one of its extra files, lies."""
        if (index := self._indexes.get(symbol)) is not None:
            return index.path
        file = self._data[symbol]
        return file.path if extra is None else file.folder + _extra_name(file.name, extra)

    def locate(self, path: str) -> tuple[Store, str]:
        """Return the store and the key of a path or URI."""
        for location, store in self._externals.items():
            if path.startswith(f"{location}/"):
                return store, path.removeprefix(f"{location}/")
        if path.startswith("/") or "://" in path:
            raise KeyError(f"{path} lies below none of the external roots {sorted(self._externals)}")
        return self._store, path

    def put(self, path: str, data: bytes) -> None:
        """Write one object."""
        store, key = self.locate(path)
        store.put(key, data)

    def all_paths(self) -> set[str]:
        """Return the path or URI of every object that exists now."""
        paths = {found.key for found in self._store.list("")}
        for location, store in self._externals.items():
            paths |= {f"{location}/{found.key}" for found in store.list("")}
        return paths

    def add(self, symbol: str, level: int | None, schema: Mapping[str, Any], details: Details, prefix: str) -> DataFile:
        """Return the file to add for a symbol, and write what of it is not there yet.

        A known symbol keeps its bytes, place and attributes; level, extra files and source change where they are given.
        """
        known = self._data.get(symbol)
        file = known or self._new_data_file(symbol, schema, details, prefix)
        if level is not None:
            file = replace(file, level=level)
        if details.extra is not None and symbol in details.extra:
            file = replace(file, extra_files=tuple(_extra_name(file.name, extra) for extra in details.extra[symbol]))
        if details.file_source is not None and symbol in details.file_source:
            file = replace(file, file_source=details.file_source[symbol])
        for extra in file.extra_files:
            path = file.folder + extra
            if path not in self.symbols:
                self.symbols[path] = f"{symbol}.{extra.removeprefix(f'{file.name}.')}"
                self.put(path, data_bytes.filler(extra, 40))
        self._data[symbol] = file
        return file

    def _new_data_file(self, symbol: str, schema: Mapping[str, Any], details: Details, prefix: str) -> DataFile:
        options, types = schema["options"], {field["name"]: field["type"] for field in schema["fields"]}
        keys = schema["partitionKeys"]
        partition = details.partition_of(symbol, tuple(data_bytes.sample(types[key], 0) for key in keys))
        bucket = details.bucket_of(symbol, 0)
        named = symbol.rpartition("=")[2]  # `x=a.parquet` and `y=a.parquet` are two files of one name
        name = named if "." in symbol else f"{prefix}{stable_uuid(symbol)}-0.{options.get('file.format', 'parquet')}"
        external = (details.external or {}).get(symbol)
        if external is not None:
            folder, _, name = external.rpartition("/")
            folder += "/"
        else:
            folder = _bucket_folder(schema, partition, bucket)

        trimmed = [key for key in schema["primaryKeys"] if key not in keys]
        rows = (details.rows or {}).get(symbol, 10)
        if self._real_rows:
            body = data_bytes.parquet(schema["fields"], trimmed, dict(zip(keys, partition, strict=True)), rows)
        else:
            body = data_bytes.filler(name, (details.size or {}).get(symbol, 100 + crc32(symbol.encode()) % 100))
        key_types = [types[key] for key in trimmed]
        file = DataFile(
            symbol=symbol,
            name=name,
            folder=folder,
            partition=partition,
            partition_row=encode_row([types[key] for key in keys], partition),
            bucket=bucket,
            total_buckets=int(options["bucket"]),
            size=len(body),
            rows=rows,
            schema_id=schema["id"],
            creation_ms=details.time_ms,
            file_source=1 if details.kind == "COMPACT" else 0,
            is_external=external is not None,
            min_key=encode_row(key_types, [data_bytes.sample(type_, 0) for type_ in key_types]),
            max_key=encode_row(key_types, [data_bytes.sample(type_, max(rows - 1, 0)) for type_ in key_types]),
            key_null_counts=(0,) * len(trimmed),
            sequence=(0, max(rows - 1, 0)),
        )
        self.put(file.path, body)
        self.symbols[file.path] = symbol
        return file

    def add_index(
        self, symbol: str, content: Vectors | bytes | None, schema: Mapping[str, Any], details: Details
    ) -> IndexFile:
        """Return the index file of a symbol; a new one is written with deletion vectors or as a hash index."""
        if symbol in self._indexes:
            return self._indexes[symbol]
        if content is None:
            raise KeyError(f"index {symbol} is not known yet")
        name = f"index-{stable_uuid(symbol)}-0"
        vectors = {} if isinstance(content, bytes) else content
        owner = next((self._data[data] for data in vectors), None)
        keys = schema["partitionKeys"]
        types = {field["name"]: field["type"] for field in schema["fields"]}
        default = owner.partition if owner else tuple(data_bytes.sample(types[key], 0) for key in keys)
        partition = details.partition_of(symbol, default)
        bucket = details.bucket_of(symbol, owner.bucket if owner else 0)
        body, ranges = encode_vectors(
            {self._data[data].name: positions for data, positions in vectors.items()},
            wide=schema["options"].get("deletion-vectors.bitmap64") == "true",
        )
        if isinstance(content, bytes):
            body = content
        external = (details.external or {}).get(symbol)
        in_data_folder = schema["options"].get(_INDEX_FILE_IN_DATA_FOLDER) == "true"
        folder = _bucket_folder(schema, partition, bucket) if in_data_folder else "index/"
        index = IndexFile(
            symbol=symbol,
            name=external.rpartition("/")[2] if external else name,
            path=external or folder + name,
            size=len(body),
            index_type="HASH" if isinstance(content, bytes) else "DELETION_VECTORS",
            partition_row=encode_row([types[key] for key in keys], partition),
            bucket=bucket,
            row_count=len(body) // 4 if isinstance(content, bytes) else len(ranges),
            ranges=None if isinstance(content, bytes) else ranges,
            is_external=external is not None,
        )
        self.put(index.path, body)
        self._indexes[symbol] = index
        self.symbols[index.path] = symbol
        return index

    def named(self, paths: Iterable[str]) -> set[str]:
        """Return paths as symbols, those without one as they are."""
        return {self.symbols.get(path, path) for path in paths}


def _extra_name(data_name: str, extra: str) -> str:
    return extra if "." in extra else f"{data_name}.{extra}"


def _bucket_folder(schema: Mapping[str, Any], partition: tuple[Any, ...], bucket: int) -> str:
    options = schema["options"]
    top = options.get("data-file.path-directory", "").strip("/")
    folder = partition_path(
        schema["partitionKeys"],
        partition,
        options.get("partition.default-name", "__DEFAULT_PARTITION__"),
        options.get("partition.legacy-name", "true") == "true",
    )
    return (f"{top}/" if top else "") + folder + ("bucket-postpone/" if bucket == -2 else f"bucket-{bucket}/")
