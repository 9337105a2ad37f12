"""Metadata that lies: what it says, and which root says it."""

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro

from tests.attack.metadata import Changes, document, to_bytes
from tests.bad_bytes.worlds import World
from tests.support.metadata_schemas import INDEX_MANIFEST, MANIFEST, MANIFEST_LIST

WORLD = "appends-plain"


def avro(schema: Any, records: list[Any]) -> bytes:
    target = io.BytesIO()
    fastavro.writer(target, schema, records, codec="deflate", sync_marker=b"s" * 16)
    return target.getvalue()


def _record(world: World, prefix: str, key: str) -> dict[str, Any]:
    for path in world.metadata:
        if path.startswith(prefix) and "/manifest-list-" not in path.replace(prefix, "", 1):
            for found in fastavro.reader(io.BytesIO(world.body(path))):
                if isinstance(found, dict) and key in found:
                    return dict(found)
    raise KeyError(prefix)


def honest_names(world: World) -> list[str]:
    """Return the name of everything in the table, without folders."""
    return sorted({path.rpartition("/")[2] for path in world.objects})


def entries(world: World, kind: int, *, extra: bool = False) -> list[dict[str, Any]]:
    """Return an entry for every name in the table, in the place of every partition and bucket that there is."""
    template = _record(world, "manifest/manifest-", "_FILE")
    file = template["_FILE"]
    if extra:
        named = file | {"_FILE_NAME": "data-evil-0.parquet", "_EXTRA_FILES": honest_names(world)}
        return [template | {"_KIND": kind, "_FILE": named}]
    return [template | {"_KIND": kind, "_FILE": file | {"_FILE_NAME": name}} for name in honest_names(world)]


def manifest(name: str, records: list[dict[str, Any]], world: World) -> Changes:
    """Return a manifest and a list that names it alone, `manifest-list-<name>`."""
    body = avro(MANIFEST, records)
    added = sum(record["_KIND"] == 0 for record in records)
    listed = _record(world, "manifest/manifest-list-", "_NUM_ADDED_FILES") | {
        "_FILE_NAME": f"manifest-{name}", "_FILE_SIZE": len(body), "_NUM_ADDED_FILES": added,
        "_NUM_DELETED_FILES": len(records) - added,
    }  # fmt: skip
    return {f"manifest/manifest-{name}": body, f"manifest/manifest-list-{name}": avro(MANIFEST_LIST, [listed])}


def listing_all(world: World, *, true_sizes: bool) -> bytes:
    """Return a list that names every file of the metadata as its manifest."""
    template = _record(world, "manifest/manifest-list-", "_NUM_ADDED_FILES")
    names = [path.removeprefix("manifest/") for path in world.objects if path.startswith("manifest/")]
    records = [
        template | {"_FILE_NAME": name, "_FILE_SIZE": len(world.body(f"manifest/{name}")) if true_sizes else 1 << 62}
        for name in names
    ]
    return avro(MANIFEST_LIST, records)


def index_of_all(world: World, index_type: str) -> bytes:
    """Return an index manifest that names everything as an index file."""
    template = _record(world, "manifest/index-manifest-", "_INDEX_TYPE")
    return avro(INDEX_MANIFEST, [template | {"_FILE_NAME": n, "_INDEX_TYPE": index_type} for n in honest_names(world)])


Lie = Callable[[World], tuple[Changes, dict[str, Any]]]
"""Files of the attacker, and the fields of a root that name them."""


def _lists(name: str, *fields: str) -> dict[str, Any]:
    return dict.fromkeys(fields, f"manifest-list-{name}") | {f"{field}Size": None for field in fields}


def _deletes_all(world: World) -> tuple[Changes, dict[str, Any]]:
    return manifest("evil", entries(world, 1), world), _lists("evil", "deltaManifestList")


def _adds_all(world: World) -> tuple[Changes, dict[str, Any]]:
    return manifest("evil", entries(world, 0), world), _lists("evil", "deltaManifestList")


def _adds_and_deletes_all(world: World) -> tuple[Changes, dict[str, Any]]:
    both = [*entries(world, 0), *entries(world, 1)]
    return manifest("evil", both, world), _lists("evil", "baseManifestList", "deltaManifestList")


def _extra_files(world: World) -> tuple[Changes, dict[str, Any]]:
    both = [*entries(world, 0, extra=True), *entries(world, 1, extra=True)]
    return manifest("evil", both, world), _lists("evil", "deltaManifestList")


def _changelog_of_all(world: World) -> tuple[Changes, dict[str, Any]]:
    return manifest("evil", entries(world, 0), world), _lists("evil", "changelogManifestList")


def _lists_all(world: World) -> tuple[Changes, dict[str, Any]]:
    files = {"manifest/manifest-list-evil": listing_all(world, true_sizes=True)}
    return files, _lists("evil", "baseManifestList", "deltaManifestList", "changelogManifestList")


def _lists_all_with_lies(world: World) -> tuple[Changes, dict[str, Any]]:
    files = {"manifest/manifest-list-evil": listing_all(world, true_sizes=False)}
    return files, _lists("evil", "baseManifestList", "deltaManifestList", "changelogManifestList")


def _index(index_type: str) -> Lie:
    def lie(world: World) -> tuple[Changes, dict[str, Any]]:
        return {"manifest/index-manifest-evil": index_of_all(world, index_type)}, {
            "indexManifest": "index-manifest-evil"
        }

    return lie


def _names_of_others(world: World) -> tuple[Changes, dict[str, Any]]:
    """The lists of the newest snapshot, in other roles."""
    newest = document(world, "snapshot/snapshot-6")
    delta = newest["deltaManifestList"]
    fields = {
        "baseManifestList": delta, "changelogManifestList": newest["baseManifestList"], "indexManifest": delta,
        "statistics": delta, "baseManifestListSize": None, "changelogManifestListSize": None,
    }  # fmt: skip
    return {}, fields


def _files_as_metadata(world: World) -> tuple[Changes, dict[str, Any]]:
    data = next(path for path in world.objects if "bucket-0/" in path).rpartition("/")[2]
    roles = ("baseManifestList", "deltaManifestList", "changelogManifestList", "indexManifest", "statistics")
    return {}, dict.fromkeys(roles, data) | {f"{role}Size": None for role in roles[:3]}


LIES: dict[str, Lie] = {
    "deletes everything": _deletes_all,
    "adds everything": _adds_all,
    "adds and deletes everything": _adds_and_deletes_all,
    "everything is an extra file": _extra_files,
    "everything is its changelog": _changelog_of_all,
    "lists everything": _lists_all,
    "lists everything of absurd sizes": _lists_all_with_lies,
    "everything is a deletion vector": _index("DELETION_VECTORS"),
    "everything is a hash index": _index("HASH"),
    "everything is a global index": _index("btree-global-index"),
    "names the lists of others": _names_of_others,
    "names data files as metadata": _files_as_metadata,
}


def _replaced(world: World, root: str, fields: dict[str, Any], **more: Any) -> bytes:
    return to_bytes({k: v for k, v in (document(world, root) | fields | more).items() if v is not None})


def _as_newest(world: World, fields: dict[str, Any]) -> Changes:
    return {
        "snapshot/snapshot-7": _replaced(world, "snapshot/snapshot-6", fields, id=7),
        "snapshot/LATEST": b"7",
    }


def _as_expiring(number: int) -> Callable[[World, dict[str, Any]], Changes]:
    def place(world: World, fields: dict[str, Any]) -> Changes:
        root = f"snapshot/snapshot-{number}"
        return {root: _replaced(world, root, fields)}

    return place


def _as_tag(world: World, fields: dict[str, Any]) -> Changes:
    return {"tag/tag-evil": _replaced(world, "snapshot/snapshot-4", fields)}


def _as_tag_that_is_over(world: World, fields: dict[str, Any]) -> Changes:
    over = {"tagCreateTime": [2001, 1, 1, 0, 0], "tagTimeRetained": 1.0}
    return {"tag/tag-evil": _replaced(world, "snapshot/snapshot-1", fields, **over)}


def _as_changelog(world: World, fields: dict[str, Any]) -> Changes:
    return {
        "changelog/changelog-1": _replaced(world, "snapshot/snapshot-2", fields, id=1),
        "changelog/LATEST": b"1",
        "changelog/EARLIEST": b"1",
        "snapshot/snapshot-1": None,
    }


def _as_branch(world: World, fields: dict[str, Any]) -> Changes:
    return {
        "branch/branch-evil/schema/schema-0": world.body("schema/schema-0"),
        "branch/branch-evil/snapshot/snapshot-5": _replaced(world, "snapshot/snapshot-5", fields),
        "branch/branch-evil/snapshot/snapshot-6": world.body("snapshot/snapshot-6"),
    }


PLACES: dict[str, Callable[[World, dict[str, Any]], Changes]] = {
    "the newest snapshot": _as_newest,
    "the oldest snapshot": _as_expiring(1),
    "the second snapshot": _as_expiring(2),
    "a late snapshot": _as_expiring(4),
    "a tag": _as_tag,
    "a tag that is over": _as_tag_that_is_over,
    "a changelog": _as_changelog,
    "a branch": _as_branch,
}


ABSURD = (
    "", " ", "-1", "0", "1", "2147483648", "9223372036854775807", "9223372036854775808", "9" * 400, "1e30", "NaN",
    "true", "1" + "0" * 30 + " d", "-1 d", "1 d 1 d", "0 ms", "9223372036854775807 d", "\x1b[31m", "../..", "/",
    "/etc", "..",
    "snapshot", "manifest", "branch/branch-side", "memory://bucket/db.db/other", "s3://other/b", ".*", "(a+)+$",
    "%s{0}",
    "x" * 100_000, "side", "main", "\u202e",
)  # fmt: skip


OPTIONS = (
    "snapshot.num-retained.min", "snapshot.num-retained.max", "snapshot.time-retained", "snapshot.expire.limit",
    "snapshot.expire.execution-mode", "snapshot.clean-empty-directories", "changelog.num-retained.min",
    "changelog.num-retained.max", "changelog.time-retained", "changelog-producer", "consumer.expiration-time",
    "consumer.mode", "bucket", "file.format", "manifest.format", "manifest.compression", "data-file.path-directory",
    "data-file.prefix", "changelog-file.prefix", "data-file.external-paths", "data-file.external-paths.strategy",
    "index-file-in-data-file-dir", "partition.default-name", "partition.legacy-name", "branch", "path", "type",
    "tag.automatic-creation", "tag.creation-period", "tag.creation-period-duration", "tag.creation-delay",
    "tag.period-formatter", "tag.num-retained-max", "tag.default-time-retained", "tag.time-expire-enabled",
    "tag.automatic-completion", "tag.batch.customized-name", "sink.process-time-zone", "sink.watermark-time-zone",
    "metastore.tag-to-partition", "write-only", "global-index.external-path", "blob-field",
)  # fmt: skip


PASSES = ("expire-snapshots", "maintain", "remove-orphan-files")


def with_schema(world: World, **fields: Any) -> Changes:
    """Return the next schema, which differs in some fields."""
    before = json.loads(world.body("schema/schema-0"))
    options = before["options"] | fields.pop("options", {})
    return {"schema/schema-1": to_bytes(before | {"id": 1, "options": options} | fields)}


SCHEMAS: dict[str, dict[str, Any]] = {
    "a huge id": {"id": (1 << 63) - 1},
    "a negative id": {"id": -1},
    "another version": {"version": 99},
    "no fields": {"fields": []},
    "fields twice": {"fields": [{"id": 0, "name": "dt", "type": "STRING"}] * 2, "partitionKeys": ["dt"]},
    "types in types": {"fields": [{"id": 0, "name": "dt", "type": {"type": "ARRAY", "element": "INT"}}]},
    "an unknown type": {"fields": [{"id": 0, "name": "dt", "type": "\x1b[31mX"}], "partitionKeys": ["dt"]},
    "keys that are no fields": {"partitionKeys": ["nothing"]},
    "keys with slashes": {"partitionKeys": ["../.."], "fields": [{"id": 0, "name": "../..", "type": "STRING"}]},
    "keys of documents": {"partitionKeys": ["snapshot"], "fields": [{"id": 0, "name": "snapshot", "type": "STRING"}]},
    "a thousand keys": {"partitionKeys": ["dt"] * 1000},
    "options of numbers": {"options": {"snapshot.num-retained.max": 1}},
    "options of lists": {"options": {"snapshot.num-retained.max": ["1"]}},
    "ten thousand options": {"options": {f"k{number}": "v" for number in range(10_000)}},
    "options of many external paths": {
        "options": {"data-file.external-paths": ",".join(f"memory://x{number}/p" for number in range(1000))}
    },
}


def _consumer(value: object) -> Changes:
    return {"consumer/consumer-evil": f'{{"nextSnapshot": {value}}}'.encode()}


DOCUMENTS: dict[str, Changes] = {
    **{f"LATEST {value[:20]!r}": {"snapshot/LATEST": value} for value in (
        b"", b"-1", b"0", b"4", b"999999999999999999", b"9" * 5000, b"\xff\xfe", b"6\n", b" 6 ", b"../x", b"{}",
        b"\x1b[31m",
    )},
    **{f"EARLIEST {value[:20]!r}": {"snapshot/EARLIEST": value} for value in (
        b"", b"-1", b"6", b"7", b"9" * 5000, b"x",
    )},
    **{f"changelog hints {value[:20]!r}": {"changelog/LATEST": value, "changelog/EARLIEST": value} for value in (
        b"", b"-1", b"6", b"9" * 5000, b"x",
    )},
    **{f"a consumer at {value}": _consumer(value) for value in (
        -1, 0, (1 << 63) - 1, 1 << 63, 10**30, "null", '"6"', "1e3", "[]",
    )},
    "consumers of odd names": {f"consumer/consumer-{name}": b'{"nextSnapshot": 1}' for name in (
        "", "\x1b[31m", "a" * 900, "..", "*", "evil\n", "\u202e", "%2e%2e",
    )},
    "branches of odd names": {f"branch/branch-{name}/snapshot/snapshot-1": b"{}" for name in (
        "%2e%2e", "\x1b[31m", "...", "main", "*", "\u202e", "a b", "main ",
    )},
    "branches in each other": {
        "branch/branch-side/branch/branch-in/snapshot/snapshot-1": b"{}",
        "branch/branch-side/snapshot/snapshot/snapshot-1": b"{}",
        "branch/snapshot/snapshot-1": b"{}",
    },
    "tags of odd names": {f"tag/tag-{name}": b"{}" for name in (
        "", "..", "\x1b[31m", "a" * 900, "success-file", "x/y",
    )},
    "snapshots of odd names": {f"snapshot/snapshot-{name}": b"{}" for name in (
        "", "-1", "01", "+7", "7 ", "\u0667", "7.tmp", "9223372036854775808", "9" * 100, "0x7", "7e0",
    )},
    "a snapshot that says another id": {"snapshot/snapshot-7": b'{"id": 6}'},
    "schemas of odd names": {f"schema/schema-{name}": b"{}" for name in ("", "-1", "01", "x", "9" * 30, "\u0661")},
}  # fmt: skip
