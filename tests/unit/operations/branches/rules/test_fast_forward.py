"""What main goes through: in which order, and which roots still need a schema that would change or go."""

import json

import pytest

from lakesweep.format.documents import parse_changelog
from lakesweep.format.snapshot import parse_snapshot
from lakesweep.model.roots import DocumentRef, Root, RootKind, RootRef
from lakesweep.operations.branches.rules.fast_forward import fast_forward_course, schema_conflict
from lakesweep.operations.branches.rules.history import History, SchemaDocument


def root(kind: RootKind, snapshot_id: int, schema_id: int = 0, name: str = "", user: str = "main") -> Root:
    """Return a root, which is another one than those of other users."""
    document = {
        "version": 3,
        "id": snapshot_id,
        "schemaId": schema_id,
        "baseManifestList": "base",
        "deltaManifestList": "delta",
        "commitUser": user,
        "commitIdentifier": 1,
        "commitKind": "APPEND",
        "timeMillis": snapshot_id,
        "totalRecordCount": 1,
        "deltaRecordCount": 1,
    }
    body = json.dumps(document).encode()
    path = f"{kind}/{kind}-{name or snapshot_id}"
    parse = parse_changelog if kind == "changelog" else parse_snapshot
    return Root(RootRef("main", kind, name or str(snapshot_id), path, "e", len(body)), parse(body, path), body)


def schemas(*ids: int, words: str = "main") -> tuple[SchemaDocument, ...]:
    return tuple(
        SchemaDocument(DocumentRef(str(i), f"schema/schema-{i}", "e", 2, 0), f"{words} {i}".encode()) for i in ids
    )


def history(*roots: Root, schemas: tuple[SchemaDocument, ...] = (), earliest_id: int | None = None) -> History:
    def of(kind: RootKind) -> tuple[Root, ...]:
        return tuple(each for each in roots if each.ref.kind == kind)

    return History(of("snapshot"), of("tag"), of("changelog"), schemas, earliest_id)


def ids(roots: tuple[Root, ...]) -> list[int]:
    return [each.snapshot.id for each in roots]


def test_where_nothing_is_in_common_it_goes_from_the_newest_down() -> None:
    """The branch's newest comes first; what it lacks goes then, and the rest is replaced where it lies."""
    main = history(*(root("snapshot", i) for i in range(1, 7)))
    branch = history(*(root("snapshot", i, user="b") for i in range(1, 5)))
    course = fast_forward_course(main, branch)
    assert course.first is not None
    assert [each and each.snapshot.commit_user for each in course.first] == ["main", "b"]
    assert course.first[1].snapshot.id == 4
    assert ids(course.withdrawn) == [6, 5]
    assert [(old.snapshot.id, new.snapshot.id) for old, new in course.replaced] == [(3, 3), (2, 2), (1, 1)]
    assert ids(course.displaced) == [4, 3, 2, 1]
    assert sorted(ids(course.coming)) == [1, 2, 3, 4]
    assert course.left_id == 4


def test_what_is_in_common_stays_and_the_rest_goes_from_the_newest_down() -> None:
    both = [root("snapshot", i) for i in (1, 2)]
    main = history(*both, *(root("snapshot", i) for i in (3, 4, 5)))
    branch = history(both[1], *(root("snapshot", i, user="b") for i in (3, 4)))
    course = fast_forward_course(main, branch)
    assert (course.first, ids(course.withdrawn), course.left_id) == (None, [5, 4, 3], 2)
    assert (ids(course.published), course.replaced, ids(course.staying)) == ([3, 4], (), [1, 2])


@pytest.mark.parametrize("kind", ["changelog", "tag", "snapshot"])
def test_a_schema_does_not_change_under_a_root_that_stays(kind: RootKind) -> None:
    """A changelog of main, a tag from before the branch, a snapshot from before it."""
    stays = root(kind, 1, schema_id=1, name="t" if kind == "tag" else "")
    main = history(stays, root("snapshot", 5, 1), schemas=schemas(0, 1))
    branch = history(root("snapshot", 4, 1, user="b"), schemas=schemas(0, 1, words="b"))
    conflict = schema_conflict(fast_forward_course(main, branch))
    assert conflict is not None
    assert (conflict.schema_id, conflict.goes, conflict.root.ref) == (1, False, stays.ref)


def test_a_schema_does_not_change_under_a_root_that_is_replaced_later() -> None:
    """It is read until then; what goes before the schemas come is not."""
    main = history(root("snapshot", 1), root("snapshot", 2, 1), root("snapshot", 3, 2), schemas=schemas(0, 1, 2))
    theirs = (root("snapshot", 2, 1, user="b"), root("snapshot", 3, 2, user="b"))
    branch = history(*theirs, schemas=schemas(0) + schemas(1, words="b") + schemas(2), earliest_id=3)
    conflict = schema_conflict(fast_forward_course(main, branch))
    assert conflict is not None and (conflict.schema_id, conflict.root.snapshot.id) == (1, 2)
    branch = history(*theirs, schemas=schemas(0, 1) + schemas(2, words="b"), earliest_id=3)
    assert schema_conflict(fast_forward_course(main, branch)) is None


def test_a_schema_does_not_go_under_a_root_that_comes() -> None:
    """The branch has none of this id, and what comes of it is of a later one."""
    main = history(root("snapshot", 5), schemas=schemas(0, 1))
    branch = history(root("snapshot", 4, 0, user="b"), root("snapshot", 5, 2, user="b"), schemas=schemas(0, 2))
    conflict = schema_conflict(fast_forward_course(main, branch))
    assert conflict is not None
    assert (conflict.schema_id, conflict.goes, conflict.root.snapshot.id) == (1, True, 5)


def test_what_goes_needs_its_schemas_where_the_newest_snapshot_comes_first() -> None:
    """They come before it, while all of main is there; else what goes has gone by then."""
    newer = schemas(0) + schemas(1, words="b")
    main = history(root("snapshot", 8, 1), root("tag", 9, 1, name="t"), schemas=schemas(0, 1))
    branch = history(root("snapshot", 4, user="b"), root("snapshot", 5, 1, user="b"), schemas=newer)
    course = fast_forward_course(main, branch)
    assert course.first is not None and course.first[0] is None
    conflict = schema_conflict(course)
    assert conflict is not None and (conflict.schema_id, conflict.root.snapshot.id) == (1, 8)
    base = root("snapshot", 3)
    main = history(base, *main.snapshots, *main.tags, schemas=main.schemas)
    branch = history(base, *branch.snapshots, schemas=branch.schemas)
    course = fast_forward_course(main, branch)
    assert course.first is None and ids(course.withdrawn) == [8]
    assert schema_conflict(course) is None


def test_schemas_come_and_go_from_the_newest_down() -> None:
    """Whoever commits from the first of them on has the newest; those before the branch's first one stay."""
    base = root("snapshot", 1, 1)
    main = history(base, schemas=schemas(0, 1, 2, 5, 6))
    branch = history(base, root("snapshot", 2, 4, user="b"), schemas=schemas(1, 2) + schemas(3, 4, words="b"))
    course = fast_forward_course(main, branch)
    assert [new.id for _, new in course.put_schemas] == [4, 3]
    assert [schema.id for schema in course.dropped_schemas] == [6, 5]


def test_tags_before_the_branch_stay_and_so_do_those_that_it_has() -> None:
    base = root("snapshot", 3)
    shared = root("tag", 4, name="shared")
    main = history(base, root("tag", 2, name="before"), root("tag", 3, name="at"), shared, root("tag", 2, name="other"))
    branch = history(base, root("snapshot", 4, user="b"), shared, root("tag", 4, name="other", user="b"))
    course = fast_forward_course(main, branch)
    assert [each.ref.name for each in course.withdrawn_tags] == ["at", "other"]
    assert [each.ref.name for each in course.published_tags] == ["other"]
    assert {each.ref.name for each in course.staying} == {"3", "before", "shared"}


def test_snapshots_that_a_hint_hides_are_none_of_the_first() -> None:
    """What main has below the one that EARLIEST names stays, unless the branch has another one there."""
    main = history(*(root("snapshot", i) for i in (1, 2, 3)))
    branch = history(*(root("snapshot", i, user="b") for i in (2, 3)), earliest_id=3)
    course = fast_forward_course(main, branch)
    assert ids(course.staying) == [1]
    assert ids(course.withdrawn) == [3] and ids(course.published) == [3]
    assert [(old.snapshot.id, new.snapshot.commit_user) for old, new in course.replaced] == [(2, "b")]
