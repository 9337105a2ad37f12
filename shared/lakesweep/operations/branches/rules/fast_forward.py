"""How main becomes what a branch is, a document at a time, so that main is a complete table wherever a run stops.

The end state is Paimon's: main keeps its snapshots and tags from before the branch's first snapshot, and gets
everything of the branch. Paimon deletes first and copies then. If it dies in between, the table lacks its newest
snapshots, or has none. Lakesweep lets main keep everything that it has in common with the branch, and continues from
there.

Documents are replaced in place only if main and the branch have nothing in common. Then the branch's newest snapshot is
written before anything is deleted. So a snapshot of main that is still to be replaced is never the newest, and no
writer commits on top of it.

Source: Paimon `FileSystemBranchManager#fastForward`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from lakesweep.format.documents import parse_hint
from lakesweep.model.document_actions import Former, delete_document, delete_root, write_document
from lakesweep.model.plan import Action, Put
from lakesweep.model.roots import Root
from lakesweep.operations.branches.rules.history import EARLIEST, LATEST, History, SchemaDocument
from lakesweep.operations.tags.rules.rollback import is_second


@dataclass(frozen=True, slots=True)
class Course:
    """The steps that main passes through. Each tuple is in the order of execution."""

    first: tuple[Root | None, Root] | None
    """The branch's newest snapshot if it is written before any deletion, preceded by the snapshot that it replaces."""
    withdrawn: tuple[Root, ...]
    """Snapshots that main loses, descending."""
    left_id: int | None
    """The newest snapshot of main after these are deleted."""
    published: tuple[Root, ...]
    """Snapshots of the branch that main lacks, ascending."""
    replaced: tuple[tuple[Root, Root], ...]
    """Snapshots of main, each with the branch's snapshot that replaces it, descending."""
    withdrawn_tags: tuple[Root, ...]
    published_tags: tuple[Root, ...]
    put_schemas: tuple[tuple[SchemaDocument | None, SchemaDocument], ...]
    """Main's schema (if any) and the branch's schema of the same id, descending. So from the first write on, every
    commit uses the newest schema."""
    dropped_schemas: tuple[SchemaDocument, ...]
    """Schemas of main that the branch lacks, descending."""
    staying: tuple[Root, ...] = field(default=(), compare=False)
    """Roots of main that remain unchanged from the beginning to the end."""

    @property
    def is_empty(self) -> bool:
        """Tell whether main is already what the branch is."""
        return not any(
            (
                self.first,
                self.withdrawn,
                self.published,
                self.replaced,
                self.withdrawn_tags,
                self.published_tags,
                self.put_schemas,
                self.dropped_schemas,
            )
        )

    @property
    def going(self) -> tuple[Root, ...]:
        """Return the roots of main that it loses."""
        return (*self.withdrawn, *self.displaced, *self.withdrawn_tags)

    @property
    def displaced(self) -> tuple[Root, ...]:
        """Return the snapshots of main that the branch's snapshots replace, descending."""
        first = () if self.first is None or self.first[0] is None else (self.first[0],)
        return (*first, *(old for old, _ in self.replaced))

    @property
    def coming(self) -> tuple[Root, ...]:
        """Return the branch's roots that main gains."""
        first = () if self.first is None else (self.first[1],)
        return (*first, *self.published, *(new for _, new in self.replaced), *self.published_tags)


@dataclass(frozen=True, slots=True)
class SchemaConflict:
    """A schema that would be changed or deleted although a root needs it."""

    schema_id: int
    root: Root
    goes: bool
    """The schema would be deleted; otherwise the branch has a different schema of this id."""


def fast_forward_course(main: History, branch: History) -> Course:
    """Return the steps that make `main` what `branch` is.

    Args:
        main: The documents of main.
        branch: The documents of the branch, which has a snapshot.
    """
    first_id = branch.first.ref.id
    theirs = {root.ref.id: root for root in branch.snapshots}
    common = tuple(takewhile(lambda root: _stays(root, first_id, theirs.get(root.ref.id)), main.snapshots))
    if common:
        withdrawn = main.snapshots[len(common) :]
    else:
        withdrawn = tuple(root for root in main.snapshots if root.ref.id not in theirs)
    left = {root.ref.id: root for root in main.snapshots if root not in withdrawn}
    replaced = [(old, theirs[i]) for i, old in left.items() if i in theirs and old.body != theirs[i].body]
    newest = branch.snapshots[-1]
    first: tuple[Root | None, Root] | None = None
    if replaced and replaced[-1][1] is newest:
        first = replaced.pop()
    elif main.snapshots and not left:
        first = None, newest
    published = tuple(
        root for root in branch.snapshots if root.ref.id not in left and (first is None or root is not newest)
    )

    their_tags = {root.ref.name: root for root in branch.tags}
    withdrawn_tags = tuple(root for root in main.tags if not _tag_stays(root, first_id, their_tags.get(root.ref.name)))
    kept_tags = {root.ref.name: root for root in main.tags if root not in withdrawn_tags}
    changed = {old.ref.id for old in (*(old for old, _ in replaced), *(first or ())[:1]) if old is not None}
    return Course(
        first=first,
        withdrawn=withdrawn[::-1],
        left_id=max(left, default=None) if left else newest.ref.id,
        published=published,
        replaced=tuple(replaced[::-1]),
        withdrawn_tags=withdrawn_tags,
        published_tags=tuple(root for name, root in their_tags.items() if name not in kept_tags),
        put_schemas=tuple(_put_schemas(main, branch)),
        dropped_schemas=tuple(_dropped_schemas(main, branch)),
        staying=(*(root for i, root in left.items() if i not in changed), *main.changelogs, *kept_tags.values()),
    )


def schema_conflict(course: Course) -> SchemaConflict | None:
    """Return the first schema that must be neither changed nor deleted, `None` if there is none.

    A root may have files of every schema up to its own, so it needs them all. Readers use a replaced snapshot until its
    replacement, so it needs its schemas, too. If the branch's newest snapshot is written first, its schemas come before
    it. Then all of main still needs its own schemas.
    """
    until_then = (*course.staying, *course.displaced)
    if course.first is not None:
        until_then = (*course.staying, *course.going)
    for old, new in course.put_schemas:
        user = None if old is None else _user(until_then, new.id)
        if user is not None:
            return SchemaConflict(new.id, user, goes=False)
    for schema in course.dropped_schemas:
        user = _user((*course.staying, *course.coming), schema.id)
        if user is not None:
            return SchemaConflict(schema.id, user, goes=True)
    return None


def needed_by_rollbacks(course: Course, branch: History) -> Iterator[str]:
    """Yield the second tags of rollbacks as latest that main would lose although it keeps their snapshot.

    Such a tag is needed while main has anything from before that snapshot; see `rules/lives.py`. Paimon deletes it if
    the branch was made from another tag of the snapshot.
    """
    theirs = {(root.ref.id, root.snapshot.delta_manifest_list) for root in branch.snapshots}
    first_id = min((root.snapshot.id for root in course.staying), default=None)
    for root in course.withdrawn_tags:
        snapshot = root.snapshot
        is_kept = (snapshot.id, snapshot.delta_manifest_list) in theirs
        if is_second(root) and is_kept and first_id is not None and first_id < snapshot.id:
            yield root.ref.name


def _stays(root: Root, first_id: int, other: Root | None) -> bool:
    return root.ref.id < first_id or (other is not None and other.body == root.body)


def _tag_stays(root: Root, first_id: int, other: Root | None) -> bool:
    """Tell whether main keeps a tag: it is older than the branch, or the branch has the same tag."""
    return root.snapshot.id < first_id if other is None else other.body == root.body


def _put_schemas(main: History, branch: History) -> Iterator[tuple[SchemaDocument | None, SchemaDocument]]:
    there: Mapping[int, SchemaDocument] = {schema.id: schema for schema in main.schemas}
    for schema in reversed(branch.schemas):
        old = there.get(schema.id)
        if old is None or old.body != schema.body:
            yield old, schema


def _dropped_schemas(main: History, branch: History) -> Iterator[SchemaDocument]:
    first_id, theirs = branch.first.snapshot.schema_id, {schema.id for schema in branch.schemas}
    return (schema for schema in reversed(main.schemas) if schema.id >= first_id and schema.id not in theirs)


def _user(roots: Sequence[Root], schema_id: int) -> Root | None:
    return next((root for root in roots if root.snapshot.schema_id >= schema_id), None)


def forward_actions(name: str, course: Course) -> Iterator[Action]:
    """Yield the actions on roots and schemas, in order within each phase."""
    lacks = f"branch {name} does not have it"
    if course.first is not None:
        yield from _schema_puts("target", name, course)
        former, newest = course.first
        yield _put("target", newest, former, f"newest of branch {name}")
    for root in course.withdrawn:
        yield delete_root("withdraw", root, lacks)
    for root in course.withdrawn_tags:
        yield delete_root("withdraw_tags", root, lacks)
    if course.first is None:
        yield from _schema_puts("schemas", name, course)
    for root in course.published:
        yield _put("publish", root, None, f"of branch {name}")
    for old_root, new_root in course.replaced:
        yield _put("replace", new_root, old_root, f"branch {name} has another one")
    for root in course.published_tags:
        yield _put("publish_tags", root, None, f"of branch {name}")
    for schema in course.dropped_schemas:
        yield delete_document("clean", "schema", schema.ref, schema.body, lacks)


def _schema_puts(phase: str, name: str, course: Course) -> Iterator[Put]:
    for old, new in course.put_schemas:
        former = None if old is None else Former(old.ref.etag, old.body)
        yield write_document(phase, "schema", f"schema/schema-{new.id}", new.body, f"schema of branch {name}", former)


def _put(phase: str, root: Root, replaced: Root | None, why: str) -> Put:
    """Return the action that writes a branch's root into main."""
    kind = root.ref.kind
    former = None if replaced is None else Former(replaced.ref.etag, replaced.body)
    return write_document(phase, kind, f"{kind}/{kind}-{root.ref.name}", root.body, why, former)


def hint_puts(hints: Mapping[str, Former | None], name: str, course: Course, branch: History) -> Iterator[Put]:
    """Yield the actions on main's hints.

    LATEST names main's newest snapshot at every moment. EARLIEST becomes the branch's EARLIEST if the branch has one,
    as in Paimon. If main's EARLIEST names a snapshot that no longer exists, the plan corrects it. Otherwise it would
    hide older snapshots once main reaches that id again.

    Args:
        hints: Main's LATEST and EARLIEST; `None`: main has no such hint.
        name: The name of the branch.
        course: The changes in main.
        branch: The documents of the branch.
    """

    def hint(phase: str, path: str, snapshot_id: int | None, why: str) -> Put:
        return write_document(phase, "hint", path, str(snapshot_id).encode(), why, hints[path])

    latest, earliest = hints[LATEST], hints[EARLIEST]
    newest_id = branch.snapshots[-1].ref.id
    said = None if latest is None else latest.body.decode("utf-8", "surrogateescape")
    if course.withdrawn and str(course.left_id) != said:
        yield hint("point", LATEST, course.left_id, "the newest snapshot that is left")
        if newest_id != course.left_id:  # overwrite the hint of this plan; its ETag is not known yet
            why, former = f"newest of branch {name}", str(course.left_id)
            yield Put("publish_hints", "hint", LATEST, str(newest_id), why, former=former)
    elif str(newest_id) != said:
        yield hint("publish_hints", LATEST, newest_id, f"newest of branch {name}")
    if branch.earliest_id is not None:
        if earliest is None or earliest.body != str(branch.earliest_id).encode():
            yield hint("publish_hints", EARLIEST, branch.earliest_id, f"as of branch {name}")
        return
    first = None if earliest is None else parse_hint(earliest.body)
    ids = {root.ref.id for root in (*course.staying, *course.coming) if root.ref.kind == "snapshot"}
    if first is not None and first not in ids:
        yield hint("publish_hints", EARLIEST, min(ids), f"there is no snapshot {first} any more")
