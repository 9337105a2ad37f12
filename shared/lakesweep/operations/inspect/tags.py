"""`tags`: the tags of a branch, as Paimon's system table `$tags` shows them. This changes nothing.

Source: Paimon `TagsTable`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, timedelta, tzinfo

from lakesweep.errors import MaintenanceError, ObjectNotFoundError, RefusedError
from lakesweep.format.tag import Tag
from lakesweep.format.values.zone import earliest_ms
from lakesweep.model.roots import RootRef
from lakesweep.operations.tags.options import declared_zone
from lakesweep.operations.tags.rules.expiry import NO_END, WITHOUT_ZONE, end_of_life
from lakesweep.runs.fleet import ruling_of
from lakesweep.runs.session import Table
from lakesweep.runs.tags.documents import NO_TAG, list_own
from lakesweep.table.documents import TagDocument, read_schema, read_tags

_SECOND_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class TagRow:
    """One tag."""

    name: str
    path: str
    tag: Tag | None
    """`None`: the document does not parse."""
    problem: str | None
    ends_ms: int | None
    """When its time to live is over; `None`: never, or not known."""

    def to_json(self) -> dict[str, object]:
        """Return the row described in `docs/cli_json.md`."""
        tag = self.tag
        retained_ns = None if tag is None else tag.time_retained_ns
        created = None if tag is None else tag.create_time
        return {
            "name": self.name,
            "path": self.path,
            "snapshot_id": None if tag is None else tag.snapshot.id,
            "schema_id": None if tag is None else tag.snapshot.schema_id,
            "commit_time_ms": None if tag is None else tag.snapshot.time_ms,
            "record_count": None if tag is None else tag.snapshot.total_record_count,
            "created": None if created is None else created.isoformat(),
            "time_retained": None if retained_ns is None else iso_duration(retained_ns),
            "ends_ms": self.ends_ms,
            "problem": self.problem,
        }


@dataclass(frozen=True, slots=True)
class TagTable:
    """The tags of one branch, ascending by name."""

    table: str
    branch: str
    zone: str | None
    """The zone in which times of creation are read; `None`: none is declared."""
    rows: tuple[TagRow, ...]
    warnings: tuple[str, ...] = ()

    def to_json(self) -> Mapping[str, object]:
        """Return the document described in `docs/cli_json.md`."""
        return {
            "table": self.table,
            "branch": self.branch,
            "time_zone": self.zone,
            "tags": [row.to_json() for row in self.rows],
            "warnings": list(self.warnings),
        }


def list_tags(table: Table, names: tuple[str, ...] = (), time_zone: str | None = None) -> TagTable:
    """Return the tags of a branch, or only the named tags; then only their documents are read.

    Raises:
        RefusedError: This is no table, the branch does not exist, or a named tag does not.
        UsageError: The time zone does not exist.
        StorageError: A request failed.
    """
    own = list_own(table, "schema", "tag")
    read_schema(table.store, own)
    zone = declared_zone(table, time_zone, None if table.policy is None else ruling_of(table))
    there = {ref.name: ref for ref in own.tags}
    for name in names:
        if name not in there:
            raise RefusedError(f"table {table.ref}: no tag {name!r}; expected it there", code=NO_TAG)
    refs = [there[name] for name in dict.fromkeys(names)] if names else list(own.tags)
    rows = [
        _row(ref, document, zone)
        for ref, document in read_tags(table.store, refs)
        if not isinstance(document, ObjectNotFoundError)
    ]
    found = tuple(sorted(rows, key=lambda row: row.name))
    warnings = [
        f"table {table.ref}: tag {row.name!r} does not parse, so it is kept: {row.problem}"
        for row in found
        if row.problem is not None
    ]
    if zone is None and any(row.ends_ms is not None for row in found):
        warnings.append(
            f"table {table.ref}: no time zone is declared for times of creation, so tags with a time to live are kept "
            f"for {WITHOUT_ZONE // timedelta(hours=1)} h longer"
        )
    return TagTable(table.ref.location, table.ref.branch, None if zone is None else str(zone), found, tuple(warnings))


def _row(ref: RootRef, document: TagDocument | MaintenanceError, zone: tzinfo | None) -> TagRow:
    if isinstance(document, TagDocument):
        return TagRow(ref.name, ref.path, document.tag, None, _ends_ms(document.tag, zone))
    return TagRow(ref.name, ref.path, None, str(document), None)


def _ends_ms(tag: Tag, zone: tzinfo | None) -> int | None:
    """Return when a tag's time to live is over, in epoch milliseconds; `None`: never, or after the calendar's end."""
    if tag.create_time is None or tag.time_retained_ns is None:
        return None
    end = end_of_life(tag.create_time, tag.time_retained_ns, zone)
    return None if end >= NO_END else earliest_ms(end, zone or UTC)


def iso_duration(nanos: int) -> str:
    """Return a duration as ISO-8601 with hours as the largest unit, as Java's `Duration#toString` does."""
    if nanos == 0:
        return "PT0S"
    sign, rest = ("-", -nanos) if nanos < 0 else ("", nanos)
    seconds, fraction = divmod(rest, _SECOND_NS)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = [f"{sign}{hours}H" if hours else "", f"{sign}{minutes}M" if minutes else ""]
    if seconds or fraction:
        decimals = f".{fraction:09}".rstrip("0") if fraction else ""
        parts.append(f"{sign}{seconds}{decimals}S")
    return "PT" + "".join(parts)
