"""`create-tag` and `replace-tag`: give a snapshot a name that outlives it.

The plan holds the tag's document and its source. `execute/tags.py` writes the tag, and then makes sure that the
source still exists.

Source: Paimon `TagManager#createTag`, `TagManager#replaceTag`, `AbstractFileStoreTable#createTag`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from lakesweep.errors import ObjectNotFoundError, RefusedError
from lakesweep.execute.tags import cannot_promise
from lakesweep.format.values.zone import local_time
from lakesweep.model.plan import Plan, Put, to_bytes
from lakesweep.model.roots import Root, RootRef, TableListing
from lakesweep.operations.tags.options import (
    auto_tag_rules,
    check_callbacks,
    check_time_retained,
    declared_zone,
    default_time_retained_ms,
    is_write_only,
    writes_success_file,
)
from lakesweep.operations.tags.rules.expiry import ROLLBACK_PREFIX
from lakesweep.operations.tags.rules.periods import period_of
from lakesweep.operations.tags.rules.rollback import changed_warnings
from lakesweep.runs.fleet import ruling_of
from lakesweep.runs.parameters.parameter import stated
from lakesweep.runs.parameters.time_travel import Version, resolve
from lakesweep.runs.parameters.times import say_span, say_time
from lakesweep.runs.session import Table
from lakesweep.runs.tags.documents import (
    NO_SNAPSHOT,
    NO_TAG,
    check_tag_name,
    list_own,
    put_success,
    put_tag,
    tag_path,
    tags_by_snapshot,
)
from lakesweep.runs.view import TableView, inputs_of, source_alone
from lakesweep.storage.store import Body
from lakesweep.table.documents import MAX_DOCUMENT_BYTES, read_schema

CREATE = "create-tag"
REPLACE = "replace-tag"
TAG_EXISTS = "tag_exists"


@dataclass(frozen=True, slots=True)
class TagArguments:
    """The arguments of a call."""

    name: str
    source: Version = field(default_factory=Version)
    """The version that the tag is made from; default: the newest snapshot."""
    time_retained_ms: int | None = None
    ignore_if_exists: bool = False
    time_zone: str | None = None
    """The zone in which the time of creation is written; default: the fleet policy's, else UTC."""

    def to_json(self) -> Mapping[str, object]:
        """Return the arguments that were given."""
        return stated(
            tag=self.name,
            **named_sources(self.source),
            time_retained_ms=self.time_retained_ms,
            ignore_if_exists=self.ignore_if_exists,
            time_zone=self.time_zone,
        )


def named_sources(source: Version) -> dict[str, object]:
    """Return the source of a tag by argument name, `None` for arguments that were not given."""
    return {
        "snapshot": source.snapshot_id,
        "from_tag": source.tag,
        "timestamp": source.timestamp_ms,
        "watermark": source.watermark,
        "version": source.version,
    }


def plan_create_tag(table: Table, arguments: TagArguments, *, looks_for_name: bool = True) -> Plan:
    """Plan a new tag.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        looks_for_name: Find out whether a tag of that name exists. If the plan is executed at once, the write finds
            that out, which saves a request.

    Raises:
        UsageError: The call names more than one source.
        RefusedError: The name, the time to live or the snapshot is not valid, or the tag exists already. Also if the
            snapshot has an automatic tag already, or if Paimon's callbacks would be skipped.
        StorageError: A request failed.
    """
    making = _Making(table, CREATE, arguments)
    name = arguments.name
    source = making.source()
    automatic = making.automatic_tags()
    if any(ref.name == name for ref in automatic) or (looks_for_name and _document(table, name) is not None):
        if not arguments.ignore_if_exists:
            raise exists(table, name)
        return making.plan(source, (), (f"tag {name!r} is there already, and stays as it is",))
    making.check_automatic(source, automatic)
    retained_ms = arguments.time_retained_ms
    if retained_ms is None and not name.startswith(ROLLBACK_PREFIX):
        retained_ms = default_time_retained_ms(making.options)
    put, warnings = making.put(source, retained_ms, None)
    success = (
        (put_success(table.store, table.ref.branch, name, table.store.now_ms()),)
        if writes_success_file(making.options)
        else ()
    )
    return making.plan(source, (put, *success), warnings)


def plan_replace_tag(table: Table, arguments: TagArguments) -> Plan:
    """Plan to make a tag name another snapshot. Its time to live comes from this call; else the tag has none.

    Raises:
        UsageError: The call names more than one source.
        RefusedError: As `plan_create_tag`; or no tag has that name.
        StorageError: A request failed.
    """
    making = _Making(table, REPLACE, arguments)
    name = arguments.name
    former = _document(table, name)
    if former is None:
        raise RefusedError(f"table {table.ref}: no tag {name!r} to replace; expected it there", code=NO_TAG)
    source = making.source()
    making.check_automatic(source, making.automatic_tags())
    put, warnings = making.put(source, arguments.time_retained_ms, former.etag)
    if to_bytes(put.body) == former.data:
        return making.plan(source, (), (f"tag {name!r} names snapshot {source.snapshot.id} already",))
    return making.plan(source, (put,), (*warnings, *changed_warnings(name)))


def exists(table: Table, name: str) -> RefusedError:
    """Return the error for a name that another tag has."""
    return RefusedError(f"table {table.ref}: tag {name!r} exists already; expected another name", code=TAG_EXISTS)


class _Making:
    """The steps that creating and replacing a tag share."""

    def __init__(self, table: Table, operation: str, arguments: TagArguments) -> None:
        self._table = table
        self._operation = operation
        self._arguments = arguments
        self._warnings = check_tag_name(arguments.name)
        check_time_retained(arguments.time_retained_ms)
        self._schemas = list_own(table, "schema")
        self._schema = read_schema(table.store, self._schemas)
        self.options = self._schema.options
        check_callbacks(table, self.options)
        self._zone = declared_zone(table, arguments.time_zone, ruling_of(table))
        self._own = list_own(table, "snapshot")

    def source(self) -> Root:
        """Return the root that the tag is made from."""
        root = resolve(self._table, self._own, self._arguments.source, purpose="tag")
        if root is None:
            raise RefusedError(f"table {self._table.ref}: no snapshot to tag; expected one", code=NO_SNAPSHOT)
        return root

    def automatic_tags(self) -> tuple[RootRef, ...]:
        """Return the branch's automatic tags if the new tag's name is that of an automatic tag, else none."""
        rules = auto_tag_rules(self.options, self._zone or UTC)
        if rules is None or rules.mode == "batch" or period_of(rules, self._arguments.name) is None:
            return ()
        return tuple(ref for ref in list_own(self._table, "tag").tags if period_of(rules, ref.name) is not None)

    def check_automatic(self, source: Root, automatic: Sequence[RootRef]) -> None:
        """Make sure that the snapshot has no automatic tag yet.

        Raises:
            RefusedError: It has one, or an automatic tag does not parse and so might name this snapshot.
        """
        table, name = self._table, self._arguments.name
        tags = tags_by_snapshot(table.store, automatic)
        for ref, problem in tags.unreadable:
            raise RefusedError(
                f"table {table.ref}: {problem}; expected to read automatic tag {ref.name!r}, since it may be on "
                f"snapshot {source.snapshot.id} and no snapshot may have two",
                code="unreadable_root",
            )
        for root in tags.whole:
            if root.snapshot.id == source.snapshot.id:
                raise RefusedError(
                    f"table {table.ref}: snapshot {source.snapshot.id} has the automatic tag {root.ref.name!r}; "
                    f"expected no automatic tag there, since {name!r} would be a second one",
                    code="auto_tag_exists",
                )

    def put(self, source: Root, time_retained_ms: int | None, etag: str | None) -> tuple[Put, tuple[str, ...]]:
        """Return the action that writes the tag, and the warnings."""
        created: datetime | None = None
        warnings = (*self._warnings, *self._cannot_promise(source))
        if time_retained_ms is not None:
            created = local_time(self._table.store.now_ms(), self._zone or UTC)
            if self._zone is None:
                warnings = (
                    *warnings,
                    f"table {self._table.ref}: the time at which tag {self._arguments.name!r} was made is written in "
                    "UTC, since neither the call nor the fleet policy declares a time zone; programs that read it as "
                    "local time keep the tag longer or shorter by the difference",
                )
        life = "" if time_retained_ms is None else f", for {say_span(time_retained_ms)}"
        put = put_tag(
            self._table.ref.branch,
            self._arguments.name,
            source.body,
            source.ref.path,
            created=created,
            time_retained_ms=time_retained_ms,
            reason=f"snapshot {source.snapshot.id}, committed {say_time(source.snapshot.time_ms)}{life}",
            etag=etag,
        )
        return put, warnings

    def _cannot_promise(self, source: Root) -> tuple[str, ...]:
        """Warn that Paimon may be expiring the snapshot: Paimon deletes the files first, so Lakesweep cannot know."""
        if is_write_only(self.options) or (self._own.snapshots and source.ref == self._own.snapshots[-1]):
            return ()
        return (cannot_promise(str(self._table.ref), self._arguments.name, str(source.ref)),)

    def plan(self, source: Root, actions: tuple[Put, ...], warnings: tuple[str, ...]) -> Plan:
        """Return the plan, which depends on its source and on no other root."""
        own = source_alone(self._table.ref.branch, source)
        view = TableView(
            table=self._table,
            operation=self._operation,
            listing=TableListing({own.name: own}),
            own=own,
            schema=self._schema,
            now_ms=self._table.store.now_ms(),
        )
        inputs = inputs_of(self._own, self._arguments.to_json(), {"write_only": is_write_only(self.options)})
        made = {"tags": {"made": {self._arguments.name: actions[0].reason}}} if actions else None
        return view.plan(actions, inputs, warnings=warnings, findings=made)


def _document(table: Table, name: str) -> Body | None:
    try:
        return table.store.read(tag_path(table.ref.branch, name), max_bytes=MAX_DOCUMENT_BYTES)
    except ObjectNotFoundError:
        return None
