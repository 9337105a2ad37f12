"""What a rollback as latest is asked to do, and whether the table allows it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from lakesweep.commit.allowed import Kind, refuse_commit, refuse_unknown
from lakesweep.commit.base import Base
from lakesweep.errors import RefusedError, some_of
from lakesweep.format.schema import TableSchema
from lakesweep.format.tag import tag_body
from lakesweep.model.roots import BranchListing, Root, TableListing, branch_dir
from lakesweep.operations.branches.rules.readable import ROW_IDS, columns_changed, unlike
from lakesweep.runs.committing.catalog import Catalog
from lakesweep.runs.parameters.parameter import stated
from lakesweep.runs.parameters.time_travel import Version
from lakesweep.runs.session import Table
from lakesweep.storage.store import Store
from lakesweep.table.contents.strict import StrictMetadata
from lakesweep.table.documents import read_all_schemas

_KIND: Kind = "rollback"
_NAMED = 3


@dataclass(frozen=True, slots=True)
class AsLatestArguments:
    """The arguments of a call."""

    version: Version
    catalog: Catalog = field(default_factory=Catalog)
    fallback_reappears: bool = False
    """The caller knows that a fallback branch shows its copy of rows that leave."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Table options for this call."""

    def to_json(self) -> dict[str, object]:
        """Return the arguments that were given."""
        version = self.version
        return {
            **stated(
                as_latest=True,
                snapshot=version.snapshot_id,
                tag=version.tag,
                version=version.version,
                timestamp_ms=version.timestamp_ms,
                watermark=version.watermark,
                fallback_reappears=self.fallback_reappears,
                options=self.options,
            ),
            **self.catalog.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Task:
    """A version to commit again."""

    table: Table
    arguments: AsLatestArguments
    target: Root
    metadata: StrictMetadata
    """Reads the manifests of both versions."""
    others: tuple[BranchListing, ...] = ()
    """The other branches, which may have files that come back."""
    promised: frozenset[int] = frozenset()
    """Snapshots of which an execution first makes the tags that dead runs have not made."""

    def options(self, schema: TableSchema) -> Mapping[str, str]:
        """Return the table's options, overridden by the call's."""
        return {**schema.options, **self.arguments.options}


def check_commit(task: Task, base: Base) -> tuple[str, ...]:
    """Return the warnings of a commit that the table allows.

    Raises:
        RefusedError: The table does not allow it.
    """
    newest, arguments = base.root, task.arguments
    return refuse_commit(
        base.schema, newest.snapshot, newest.body, arguments.catalog.type, _KIND, arguments.fallback_reappears
    )


def check_readable(store: Store, own: BranchListing, target: Root, newest: TableSchema) -> tuple[str, ...]:
    """Refuse a version that the newest schema makes something else of; return warnings about the others.

    Args:
        store: The table's store.
        own: The branch.
        target: The version.
        newest: The newest schema of the branch.

    Raises:
        RefusedError: `unknown_snapshot_field`: its document says something that would be lost. `row_ids`: rows had ids
            then, or since. `schema_differs`: its files would be read, found or continued in another way.
        StorageError: A request failed.
    """
    snapshot = target.snapshot
    refuse_unknown(snapshot, tag_body(target.body, target.ref.path, None, None), _KIND)
    schemas = {schema.id: schema for schema in _since(store, own, snapshot.schema_id)}
    for schema in schemas.values():
        for option in ROW_IDS:
            if schema.options.get(option, "").strip().lower() not in ("", "false"):
                raise RefusedError(
                    f"{target.ref}: option {option} is set in schema {schema.id}; expected rows without ids, since ids "
                    "that were given up would come back; lakesweep rollback without --as-latest withdraws snapshots "
                    "instead",
                    code="row_ids",
                )
    then = schemas.get(snapshot.schema_id)
    if then is None:
        raise RefusedError(
            f"{target.ref} was committed under a schema that does not exist; expected "
            f"{branch_dir(own.name)}schema/schema-{snapshot.schema_id}",
            code="target_lost_files",
        )
    if found := unlike(then, newest):
        raise RefusedError(
            f"{target.ref} was committed under schema {then.id}, and schema {newest.id} reads or writes its files in "
            f"another way: {some_of(found, _NAMED)}; expected the same, so set the table back first, or roll back "
            "without --as-latest",
            code="schema_differs",
        )
    return tuple(_warnings(then, newest))


def _since(store: Store, own: BranchListing, schema_id: int) -> Iterator[TableSchema]:
    """Yield the schemas of a branch from one on."""
    refs = tuple(ref for ref in own.schemas if int(ref.name) >= schema_id)
    listing = BranchListing(own.name, schemas=refs)
    yield from (schema for _, schema in read_all_schemas(store, TableListing({own.name: listing})))


def _warnings(then: TableSchema, newest: TableSchema) -> Iterator[str]:
    if then.id == newest.id:
        return
    yield (
        f"the version was committed under schema {then.id}, and readers and writers continue with schema {newest.id}"
    )
    yield from columns_changed(then, newest)
