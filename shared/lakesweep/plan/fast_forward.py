"""How main becomes what a branch is, a document at a time, so that main can be read whole wherever that stops.

The end is the engine's: of main stay the snapshots and tags before the branch's first snapshot, and everything of the
branch comes. On the way there the engine deletes first and copies then, so that a run that dies leaves a table without
its newest snapshots, or without any. Here main keeps as much as it has in common with the branch, and goes on from
there. Only where it has nothing in common are documents replaced where they lie. The newest one of the branch then
comes before anything goes: what main had there is at no moment the newest, so nobody commits on it.

Source: Paimon `FileSystemBranchManager#fastForward`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from lakesweep.model.roots import DocumentRef, Root


@dataclass(frozen=True, slots=True)
class SchemaDocument:
    """One schema as it lies there."""

    ref: DocumentRef
    body: bytes

    @property
    def id(self) -> int:
        """Return the id in its name."""
        return int(self.ref.name)


@dataclass(frozen=True, slots=True)
class History:
    """The documents of one branch."""

    snapshots: tuple[Root, ...]
    """Ascending by id."""
    tags: tuple[Root, ...]
    changelogs: tuple[Root, ...]
    schemas: tuple[SchemaDocument, ...]
    """Ascending by id."""
    earliest_id: int | None = None
    """What its hint EARLIEST says."""

    @property
    def first(self) -> Root:
        """Return the first snapshot as the engine sees it: where EARLIEST names one, older ones are hidden."""
        return next((root for root in self.snapshots if root.ref.id == self.earliest_id), self.snapshots[0])


@dataclass(frozen=True, slots=True)
class Course:
    """What main goes through. Each tuple is in the order in which it is done."""

    first: tuple[Root | None, Root] | None
    """The branch's newest snapshot, where it comes before anything goes, and the one in its place."""
    withdrawn: tuple[Root, ...]
    """Snapshots of main, descending."""
    left_id: int | None
    """The newest snapshot of main once those are gone."""
    published: tuple[Root, ...]
    """Snapshots of the branch that main does not have, ascending."""
    replaced: tuple[tuple[Root, Root], ...]
    """Snapshots of main, and those of the branch that take their places, descending."""
    withdrawn_tags: tuple[Root, ...]
    published_tags: tuple[Root, ...]
    put_schemas: tuple[tuple[SchemaDocument | None, SchemaDocument], ...]
    """What is there, and the branch's, descending: whoever commits from the first of them on has the newest."""
    dropped_schemas: tuple[SchemaDocument, ...]
    """Of main, that the branch does not have, descending."""
    staying: tuple[Root, ...] = field(default=(), compare=False)
    """Roots of main that are there, as they are, from the beginning to the end."""

    @property
    def is_empty(self) -> bool:
        """Tell whether main is what the branch is already."""
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
        """Return the roots of main that it will not have any more."""
        return (*self.withdrawn, *self.displaced, *self.withdrawn_tags)

    @property
    def displaced(self) -> tuple[Root, ...]:
        """Return the snapshots of main in whose places others come, descending."""
        first = () if self.first is None or self.first[0] is None else (self.first[0],)
        return (*first, *(old for old, _ in self.replaced))

    @property
    def coming(self) -> tuple[Root, ...]:
        """Return the branch's roots that main will have beside those that stay."""
        first = () if self.first is None else (self.first[1],)
        return (*first, *self.published, *(new for _, new in self.replaced), *self.published_tags)


@dataclass(frozen=True, slots=True)
class SchemaConflict:
    """A schema that would change, or go, under a root that needs it."""

    schema_id: int
    root: Root
    goes: bool
    """It goes; otherwise the branch has another one of this id."""


def fast_forward_course(main: History, branch: History) -> Course:
    """Return what makes `main` what `branch` is.

    Args:
        main: The documents of main.
        branch: Those of the branch, which has a snapshot.
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
    """Return the first schema that may not change or go, `None` when all of them may.

    A root may have files of every schema up to its own, so it needs them all. What is replaced is read until then, so
    it needs its schemas, too; so does all of main where the branch's newest snapshot comes first, and its schemas
    before it.
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


def _stays(root: Root, first_id: int, other: Root | None) -> bool:
    return root.ref.id < first_id or (other is not None and other.body == root.body)


def _tag_stays(root: Root, first_id: int, other: Root | None) -> bool:
    """Tell whether a tag of main stays: it is older than the branch, or the branch has it, too."""
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
