"""The actions of a fast-forward: what it writes and deletes."""

from collections.abc import Iterator, Mapping

from lakesweep.format.hint import parse_hint
from lakesweep.model.document_actions import Former, delete_document, delete_root, write_document
from lakesweep.model.plan import Action, Put
from lakesweep.model.roots import Root
from lakesweep.operations.branches.rules.fast_forward import Course, History

LATEST = "snapshot/LATEST"
EARLIEST = "snapshot/EARLIEST"


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
