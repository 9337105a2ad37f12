"""`create-branch`: give a table a second history, empty or from a tag or snapshot of main.

A branch is a few documents: copies of main's schemas and, unless it is empty, of one snapshot and its tag. Main and the
branch share all other files. As soon as its snapshot exists, the branch is a root like any other. Every operation of
Lakesweep that deletes files considers what the branch needs.

The plan writes the snapshot first. Until the schemas follow, nobody can open the branch, but its files are already
safe. The plan writes the newest schema before the older ones, so that nobody can write with an older schema.

Source: Paimon `FileSystemBranchManager#createBranch`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.schema import TableSchema, parse_schema
from lakesweep.format.tag import tag_body
from lakesweep.model.document_actions import write_document
from lakesweep.model.plan import Plan, Put
from lakesweep.model.roots import MAIN, DocumentRef, Root, branch_dir
from lakesweep.model.steering import Steering
from lakesweep.operations.branches.documents import read_bodies
from lakesweep.operations.branches.names import EXISTS, check_new_name, check_on_main, list_branch
from lakesweep.operations.branches.target_files import check_target
from lakesweep.operations.tags.delete import read_own_tags
from lakesweep.operations.tags.options import is_write_only
from lakesweep.operations.tags.rules.expiry import ROLLBACK_PREFIX
from lakesweep.operations.tags.rules.rollback import is_second
from lakesweep.runs.parameters.parameter import stated
from lakesweep.runs.parameters.time_travel import Version, resolve
from lakesweep.runs.parameters.times import say_time
from lakesweep.runs.session import Table
from lakesweep.runs.tags.documents import tag_path
from lakesweep.runs.view import TableView, begin, inputs_of, source_alone
from lakesweep.table.documents import read_roots

OPERATION = "create-branch"


@dataclass(frozen=True, slots=True)
class BranchArguments:
    """The arguments of a call: at most one source; none for an empty branch."""

    name: str
    tag: str | None = None
    snapshot_id: int | None = None

    def to_json(self) -> Mapping[str, object]:
        """Return the arguments that were given."""
        return stated(branch=self.name, tag=self.tag, snapshot=self.snapshot_id)


def plan_create_branch(table: Table, arguments: BranchArguments) -> Plan:
    """Plan a new branch.

    Raises:
        UsageError: Another branch than main was chosen, there are two sources, or no branch may have this name.
        RefusedError: The branch exists, the snapshot or tag does not, or its files cannot be read completely.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    name = arguments.name
    check_on_main(table, OPERATION)
    check_new_name(name)
    view = begin(table, OPERATION)
    if name in view.listing.branches or list_branch(table, name).objects:
        raise RefusedError(f"table {table.ref}: branch {name!r} exists already; expected another name", code=EXISTS)
    source = _source(view, arguments)
    roots = () if source is None else tuple(_roots(view, name, source, arguments.tag))
    copied = _schemas(view, name, source)
    if source is not None:
        # A reader of the branch finds its files by the branch's newest schema, so the check uses that schema.
        check_target(table, replace(view, schema=copied[0][1]), source)
    actions = (*roots, *(put for put, _ in copied))
    return view.seeing(source_alone(MAIN, source)).plan(
        actions,
        inputs_of(view.own, arguments.to_json()),
        warnings=tuple(_warnings(view, name, source)),
        findings={
            "branch": {
                "name": name,
                "tag": None if source is None or source.ref.kind != "tag" else source.ref.name,
                "snapshot": None if source is None else source.snapshot.id,
                "schemas": len(actions) - len(roots),
            },
        },
        steering=Steering(complete_roots=tuple(put.path for put in roots)),
    )


def _source(view: TableView, arguments: BranchArguments) -> Root | None:
    """Return the snapshot or tag that the branch begins with, `None` for an empty one."""
    if arguments.tag is None and arguments.snapshot_id is None:
        return None
    version = Version(snapshot_id=arguments.snapshot_id, tag=arguments.tag)
    return resolve(view.table, view.own, version, purpose="tag")


def _roots(view: TableView, name: str, source: Root, tag: str | None) -> Iterator[Put]:
    """Yield the actions that write the branch's roots: the snapshot, and the tag if the call names one."""
    snapshot_id = source.snapshot.id
    what = f"{source.ref} of {MAIN}, committed {say_time(source.snapshot.time_ms)}"
    path = f"{branch_dir(name)}snapshot/snapshot-{snapshot_id}"
    yield write_document("target", "snapshot", path, _snapshot_body(view, source), what)
    if tag is not None:
        yield write_document("target", "tag", tag_path(name, tag), source.body, what)


def _snapshot_body(view: TableView, source: Root) -> bytes:
    """Return the snapshot document: main's if its content equals the tag's, else the one made from the tag."""
    if source.ref.kind == "snapshot":
        return source.body
    body = without_life(source.body, source.ref.path)
    there = [ref for ref in view.own.snapshots if ref.id == source.snapshot.id]
    for root in read_roots(view.table.store, there).roots:
        if without_life(root.body, root.ref.path) == body:
            return root.body
    return body


def without_life(body: bytes, path: str) -> bytes:
    """Return a snapshot's or tag's document as Paimon writes it for a snapshot.

    Raises:
        RefusedError: The document is incomplete or does not parse.
    """
    try:
        return tag_body(body, path, None, None)
    except FormatError as error:
        raise RefusedError(str(error), code="unreadable_root") from error


def _schemas(view: TableView, name: str, source: Root | None) -> tuple[tuple[Put, TableSchema], ...]:
    """Return the actions that write the schemas, newest first: up to the snapshot's schema, or all for an empty branch.

    Raises:
        RefusedError: The snapshot's schema does not exist, or a schema does not parse.
    """
    last = view.schema.id if source is None else source.snapshot.schema_id
    there = [schema for schema in reversed(view.own.schemas) if int(schema.name) <= last]
    if not there or int(there[0].name) != last:
        raise RefusedError(
            f"table {view.table.ref}: schema/schema-{last} does not exist, but branch {name!r} would need it as its "
            "newest schema; restore it first",
            code="unreadable_schema",
        )
    return tuple(_schema(view, name, schema, body) for schema, body in read_bodies(view.table.store, there))


def _schema(view: TableView, name: str, schema: DocumentRef, body: bytes) -> tuple[Put, TableSchema]:
    try:
        parsed = parse_schema(body, schema.path)
    except FormatError as error:
        raise RefusedError(f"table {view.table.ref}: {error}", code="unreadable_schema") from error
    path = f"{branch_dir(name)}schema/schema-{schema.name}"
    return write_document("schemas", "schema", path, body, f"schema {schema.name} of {MAIN}"), parsed


def _warnings(view: TableView, name: str, source: Root | None) -> Iterator[str]:
    """Warn of what Paimon would do to the branch: when it expires snapshots or tags, it considers one branch alone."""
    if "$" in name:
        yield (
            f"table {view.table.ref}: Paimon cannot open branch {name!r} by its name, since in t$branch_{name} the "
            "second $ begins the name of a system table; choose another name"
        )
    if source is not None and any(ref.name.startswith(ROLLBACK_PREFIX) for ref in view.own.tags):
        tags = read_own_tags(view).roots.values()
        commits = [tag.snapshot.id for tag in tags if is_second(tag)]
        after = [tag for tag in tags if source.snapshot.id < tag.snapshot.id < max(commits, default=0)]
        if after:
            yield (
                f"table {view.table.ref}: a rollback as latest has committed snapshot {max(commits)}, and the branch "
                f"may have files that it took back. If {after[0].ref} lacks one, and the branch deletes it, Paimon's "
                f"expiry of the branch deletes it also from {MAIN}; let Lakesweep alone expire branch {name!r}"
            )
    if source is None or is_write_only(view.schema.options):
        return
    what = f"snapshot {source.snapshot.id}" if source.ref.kind == "snapshot" else str(source.ref)
    yield (
        f"table {view.table.ref}: its writers may expire snapshots themselves (it is not write-only), and Paimon "
        f"does not ask what a branch needs: it may delete files of branch {name!r} when {what} of {MAIN} is deleted, "
        f"unless another tag of {MAIN} holds them"
    )
