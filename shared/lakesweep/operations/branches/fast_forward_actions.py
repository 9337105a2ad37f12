"""The actions of a fast-forward: what it writes and deletes."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from lakesweep.format.hint import parse_hint
from lakesweep.model.plan import Action, Delete, Put, to_text
from lakesweep.model.roots import Root
from lakesweep.operations.branches.history import read_documents
from lakesweep.operations.branches.rules.fast_forward import Course, History
from lakesweep.runs.view import Draft

LATEST = "snapshot/LATEST"
EARLIEST = "snapshot/EARLIEST"


def forward_actions(name: str, course: Course) -> Iterator[Action]:
    """Yield the actions on roots and schemas, in order within each phase."""
    if course.first is not None:
        yield from _schema_puts("target", name, course)
        former, newest = course.first
        yield _put("target", newest, former, f"newest of branch {name}")
    for root in course.withdrawn:
        yield _delete("withdraw", root, f"branch {name} does not have it")
    for root in course.withdrawn_tags:
        yield _delete("withdraw_tags", root, f"branch {name} does not have it")
    if course.first is None:
        yield from _schema_puts("schemas", name, course)
    for root in course.published:
        yield _put("publish", root, None, f"of branch {name}")
    for old_root, new_root in course.replaced:
        yield _put("replace", new_root, old_root, f"branch {name} has another one")
    for root in course.published_tags:
        yield _put("publish_tags", root, None, f"of branch {name}")
    for schema in course.dropped_schemas:
        yield Delete(
            "clean",
            "schema",
            schema.ref.path,
            schema.ref.size_bytes,
            f"branch {name} does not have it",
            etag=schema.ref.etag,
            body=to_text(schema.body),
        )


def _schema_puts(phase: str, name: str, course: Course) -> Iterator[Put]:
    for old, new in course.put_schemas:
        yield Put(
            phase,
            "schema",
            f"schema/schema-{new.id}",
            to_text(new.body),
            f"schema of branch {name}",
            if_absent=old is None,
            etag=None if old is None else old.ref.etag,
            former=None if old is None else to_text(old.body),
        )


def _delete(phase: str, root: Root, why: str) -> Delete:
    ref = root.ref
    return Delete(phase, ref.kind, ref.path, ref.size_bytes, why, etag=ref.etag, body=to_text(root.body))


def _put(phase: str, root: Root, former: Root | None, why: str) -> Put:
    """Return the action that writes a branch's root into main."""
    return Put(
        phase,
        root.ref.kind,
        f"{root.ref.kind}/{root.ref.kind}-{root.ref.name}",
        to_text(root.body),
        why,
        if_absent=former is None,
        etag=None if former is None else former.ref.etag,
        former=None if former is None else to_text(former.body),
    )


@dataclass(frozen=True, slots=True)
class Hints:
    """The hints of main."""

    bodies: Mapping[str, bytes]
    """Path -> content."""
    etags: Mapping[str, str]


def read_hints(draft: Draft) -> Hints:
    """Read the hints of main.

    Raises:
        StalePlanError: A hint vanished since it was listed.
        StorageError: A request failed.
    """
    own = [hint for hint in map(draft.own.hints.get, (LATEST, EARLIEST)) if hint is not None]
    bodies = {ref.path: body for ref, body in read_documents(draft, own)}
    return Hints(bodies, {ref.path: ref.etag for ref in own})


def hint_puts(hints: Hints, name: str, course: Course, branch: History) -> Iterator[Put]:
    """Yield the actions on main's hints.

    LATEST names main's newest snapshot at every moment. EARLIEST becomes the branch's EARLIEST if the branch has one,
    as in Paimon. If main's EARLIEST names a snapshot that no longer exists, the plan corrects it. Otherwise it would
    hide older snapshots once main reaches that id again.
    """
    former = hints.bodies.get(LATEST)
    latest = None if former is None else to_text(former)
    point = str(course.left_id)
    is_pointed = bool(course.withdrawn) and point != latest
    if is_pointed:
        yield _hint("point", LATEST, point, hints, "the newest snapshot that is left")
    newest = str(branch.snapshots[-1].ref.id)
    if newest != (point if is_pointed else latest):
        why = f"newest of branch {name}"
        if is_pointed:  # overwrite the hint of this plan; its ETag is not known yet
            yield Put("publish_hints", "hint", LATEST, newest, why, former=point)
        else:
            yield _hint("publish_hints", LATEST, newest, hints, why)
    earliest = branch.earliest_id
    if earliest is not None and hints.bodies.get(EARLIEST) != str(earliest).encode():
        yield _hint("publish_hints", EARLIEST, str(earliest), hints, f"as of branch {name}")
    said = parse_hint(hints.bodies.get(EARLIEST, b""))
    ids = {root.ref.id for root in (*course.staying, *course.coming) if root.ref.kind == "snapshot"}
    if earliest is None and said is not None and said not in ids:
        yield _hint("publish_hints", EARLIEST, str(min(ids)), hints, f"there is no snapshot {said} any more")


def _hint(phase: str, path: str, body: str, hints: Hints, why: str) -> Put:
    former = hints.bodies.get(path)
    return Put(
        phase,
        "hint",
        path,
        body,
        why,
        if_absent=former is None,
        etag=hints.etags.get(path),
        former=None if former is None else to_text(former),
    )
