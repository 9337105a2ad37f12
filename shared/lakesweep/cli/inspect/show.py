"""`lakesweep show`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from lakesweep.cli.command import reads
from lakesweep.cli.inspect.ruling import retention_line, retention_text, ruling_lines
from lakesweep.cli.inspect.version import VersionOptions
from lakesweep.cli.options import Place, option
from lakesweep.cli.text import counted, exact_time, fields, human_bytes, human_span

_PARTITIONS = 10
"""This many partitions with deleted rows are printed as text."""


@reads(
    "lakesweep show /data/orders",
    "lakesweep show s3://lake/sales.db/orders --branch rt --pinned --json",
    "lakesweep show s3://lake/sales.db/orders --timestamp 2026-01-31T12:00:00Z",
    place=("branch", "policy"),
    more=VersionOptions,
)
def show(
    place: Place,
    version: VersionOptions,
    pinned: Annotated[
        bool,
        option("--pinned", "Measure live files, and files that old consumers, branches and tags hold; reads more."),
    ] = False,
    with_deletion_vectors: Annotated[
        bool, option("--with-deletion-vectors", "Count rows that deletion vectors delete by partition; reads more.")
    ] = False,
    levels: Annotated[
        bool,
        option(
            "--levels", "With a primary key: sorted runs, and files of level 0 that wait for compaction; reads more."
        ),
    ] = False,
) -> int:
    """Show a table's roots, retention and oddities; and one version if an option names it."""
    from lakesweep.cli.answer import answer_document
    from lakesweep.operations.inspect.show import summarise
    from lakesweep.runs.session import Table

    def read(opened: Table) -> Mapping[str, object]:
        return summarise(
            opened,
            version.parse(),
            pinned=pinned,
            by_partition=with_deletion_vectors,
            levels=levels,
            falls_back_to_tags=version.fall_back_to_tags,
        ).to_json()

    return answer_document(place, read, _lines, lambda document: bool(document["damage"]))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    yield from fields(_pairs(document))


def _pairs(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    keys = document["primary_keys"]
    yield "table", document["table"]
    yield "branch", f"{document['branch']} (of {', '.join(document['branches'])})"
    yield "type", f"{document['type']}, {'primary key ' + ', '.join(keys) if keys else 'append'}"
    yield "schema", str(document["schema_id"])
    yield "partitions", ", ".join(document["partition_keys"]) or "none"
    for key, value in document["options"].items():
        yield "option", f"{key} = {value}"
    yield from ruling_lines(document["policy"])
    yield "retention", retention_line(document)
    if document["changelog_retention"] is not None:
        yield "retention", retention_text(document["changelog_retention"], "changelog")
    yield "snapshots", _range(document["snapshots"])
    yield "changelogs", _range(document["changelogs"])
    for tag in document["tags"]:
        yield "tag", _tag(tag)
    for consumer in document["consumers"]:
        yield "consumer", f"{consumer['id']}: needs snapshot {consumer['next_snapshot']} and later"
    for pin in document["pins"]:
        yield "pinned by", _pin(pin)
    for hint in document["hints"]:
        yield "hint", f"{hint['path']}: {hint['value']}{' (off)' if hint['off'] else ''}"
    if document["live"] is not None:
        yield "live", _live(document["live"])
    if document["manifests"] is not None:
        yield "manifests", _manifests(document["manifests"])
    if document["version"] is not None:
        yield "version", _version(document["version"])
        yield "version", f"live then: {_live(document['version']['live'])}"
    if document["deletion_vectors"] is not None:
        yield from _deleted(document["deletion_vectors"])
    if document["levels"] is not None:
        yield from _levels(document["levels"])


def _levels(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    since = "" if found["level_0_since_ms"] is None else f", the oldest of {exact_time(found['level_0_since_ms'])}"
    rows, files = counted(found["level_0_rows"], "row"), counted(found["level_0_files"], "file")
    yield "level 0", f"{rows} in {files}{since} (by the writers' clocks)" if found["level_0_files"] else "no files"
    due = f"{found['due_buckets']} due for compaction" if found["due_buckets"] else "none due for compaction"
    yield "buckets", f"{found['bucket_count']}, with up to {counted(found['runs'], 'sorted run')}; {due}"
    for each in found["buckets"]:
        where = ", ".join(f"{key} {'null' if value is None else value}" for key, value in each["partition"].items())
        why = "" if each["why"] is None else f"; {each['why']}"
        yield (
            "",
            f"{where or 'bucket'}{' bucket' if where else ''} {each['bucket']}: {counted(each['runs'], 'sorted run')}, "
            f"{counted(each['files'], 'file')}, {human_bytes(each['bytes'])}{why}",
        )


def _live(live: Mapping[str, Any]) -> str:
    amounts = [counted(live["files"], "file")]
    if live["bytes"] is not None:
        amounts.append(human_bytes(live["bytes"]))
    if live["rows"] is not None:
        amounts.append(counted(live["rows"], "row"))
    return ", ".join([*amounts, counted(live["manifests"], "manifest")])


def _deleted(found: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    files, vectors = counted(found["index_files"], "index file"), counted(found["vectors"], "deletion vector")
    gone = f", {found['dangling']} of files that are gone (see clean-deletion-vectors)" if found["dangling"] else ""
    if None not in (found["deleted_rows"], found["rows"]) and found["deleted_rows"] > found["rows"]:
        gone = ", some of files that are gone (count them by --with-deletion-vectors)"
    yield "deleted", f"{_share(found)}, by {vectors}{gone} in {files}"
    for each in (found["partitions"] or ())[:_PARTITIONS]:
        where = ", ".join(f"{key} {'null' if value is None else value}" for key, value in each["partition"].items())
        yield "deleted", f"{where or 'all files'}: {_share(each)}, in {counted(each['files'], 'file')}"
    if (more := len(found["partitions"] or ()) - _PARTITIONS) > 0:
        yield "deleted", counted(more, "further partition")


def _share(found: Mapping[str, Any]) -> str:
    if found["deleted_rows"] is None:
        return "an unknown number of rows"
    share = "" if found["share"] is None else f" ({found['share']:.1%})"
    return (
        f"{found['deleted_rows']} of {counted(found['rows'], 'row')}{share}"
        if found["rows"] is not None
        else f"{counted(found['deleted_rows'], 'row')}"
    )


def _manifests(found: Mapping[str, Any]) -> str:
    small = f"{found['small']} below their target size (due above {found['max_count']})"
    size = f"{human_bytes(found['rewritten_bytes'])} to rewrite (due from {human_bytes(found['max_bytes'])} on)"
    who = "a pass compacts them" if found["by_passes"] else "compact-manifest compacts them, no pass does"
    return f"{small}, {size}: {who if found['is_due'] else 'not due'}"


def _version(version: Mapping[str, Any]) -> str:
    held = f", held by tag {version['name']}" if version["kind"] == "tag" else ""
    mark = "" if version["watermark"] is None else f", watermark {version['watermark']}"
    rows = "" if version["delta_rows"] is None else f", {version['delta_rows']:+} rows"
    return (
        f"snapshot {version['snapshot_id']}{held}: {exact_time(version['time_ms'])}, {version['commit_kind']} by "
        f"{version['commit_user']}, schema {version['schema_id']}{mark}{rows}"
    )


def _range(found: Mapping[str, Any]) -> str:
    if not found["count"]:
        return "none"
    first, last = (f"{found[end]['id']} ({exact_time(found[end]['time_ms'])})" for end in ("earliest", "latest"))
    return f"{found['count']}, {first} to {last}"


def _tag(tag: Mapping[str, Any]) -> str:
    life = "no time to live"
    if tag["time_retained_ms"] is not None:
        life = f"made {tag['created'] or '?'}, lives {human_span(tag['time_retained_ms'])}"
    return f"{tag['name']}: snapshot {tag['snapshot_id']}, {life}"


def _pin(pin: Mapping[str, Any]) -> str:
    where = f"at snapshot {pin['snapshot_id']}" if pin["kind"] == "tag" else f"from snapshot {pin['snapshot_id']} on"
    amount = ""
    if pin["bytes"] is not None:
        amount = f", {counted(pin['files'], 'file')}, {human_bytes(pin['bytes'])} that would be freed without it"
    return f"{pin['kind']} {pin['name']} {where}{amount}"
