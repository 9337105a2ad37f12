"""Which roots need tainted files."""

from collections.abc import Iterator, Sequence
from itertools import groupby

from lakesweep.model.erasure.places import Kind, Place, State
from lakesweep.model.roots import MAIN, RootRef
from lakesweep.operations.erasure.places.copies import roots_with_copies
from lakesweep.operations.erasure.places.listed import SAMPLE
from lakesweep.operations.erasure.places.scene import ENDS, Scene, in_words

_KINDS: tuple[Kind, ...] = ("snapshot", "changelog", "tag")


def root_places(scene: Scene) -> Iterator[Place]:
    """Yield the roots that need a tainted file that exists, by branch and kind."""
    held, sure, maybe = scene.held, 0, 0
    for name, roots in held.tainted.items():
        if name in scene.erased.holds and scene.exists(name):
            sure |= roots
        elif scene.exists(name):
            maybe |= roots
    there = {ref.path for ref in held.refs_in(sure)}
    copied = roots_with_copies(scene.view, scene.erased, held, scene.erased_ms, scene.erased_id)
    copies = {each.ref.path for each in copied}
    may = {ref.path for ref in held.refs_in(maybe)} | held.unread | copies
    if scene.listed.problem is not None:
        there, may = set(), there | may
    chosen = [ref for ref in held.refs if ref.path in there or ref.path in may]

    def alike(ref: RootRef) -> tuple[object, ...]:
        name = ref.name if ref.kind == "tag" else ""
        is_copy = ref.path in copies and ref.path not in there
        return ref.branch, ref.kind, name, ref.path in there, ref.path in held.unread, is_copy

    for _, group in groupby(chosen, key=alike):
        found = list(group)
        state: State = "there" if found[-1].path in there else "unknown"
        yield _place(scene, found, state, may_copy=found[-1].path in copies)
    for kind in _KINDS:
        if not any(ref.kind == kind for ref in chosen):
            yield Place(kind=kind, words=f"{kind}s", state="gone")


def _place(scene: Scene, found: Sequence[RootRef], state: State, *, may_copy: bool) -> Place:
    last, until = found[-1], scene.until(found[-1:])
    why = None
    if state == "unknown":
        why = "they need data files that could not be searched"
        if last.path in scene.held.unread:
            why = "they cannot be read as a whole"
        elif may_copy:
            why = "others wrote them since the search, and may have copied the rows; only a new search can tell"
        elif scene.listed.problem is not None:
            why = "it is not known whether their data files exist"
    return Place(
        kind=last.kind,
        words=in_words(found),
        state=state,
        count=len(found),
        paths=tuple(ref.path for ref in found[:SAMPLE]),
        until=None if until is None else until.says,
        until_ms=None if until is None else until.at_ms,
        ends=ENDS[last.kind] if last.branch == MAIN else f"{ENDS[last.kind]} or delete-branch",
        why=why,
    )
