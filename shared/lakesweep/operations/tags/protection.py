"""Which tags something else depends on: a branch that was made from the tag, or a calendar rule of the fleet policy.

When Paimon expires a branch, it considers the tags of that branch alone. So a branch made from a tag of main is safe
from the expiry of main only while that tag exists. Lakesweep refuses a rollback or
fast-forward that would delete such a tag, unless the caller names the tag.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from lakesweep.errors import RefusedError, some_of
from lakesweep.format.snapshot import Snapshot
from lakesweep.model.roots import MAIN, BranchListing, RootRef
from lakesweep.operations.tags.delete import OwnTags
from lakesweep.operations.tags.expire import judge_own
from lakesweep.operations.tags.options import declared_zone
from lakesweep.runs.fleet import Ruling, rule_of, ruling_of
from lakesweep.runs.view import TableView
from lakesweep.table.documents import read_roots

TAG_PROTECTED = "tag_protected"


def give_up_tags(
    view: TableView,
    own: OwnTags,
    going: Sequence[str],
    lost: Sequence[str],
    *,
    rewrite: str,
    instead: str,
    more: Mapping[str, str] | None = None,
) -> tuple[str, ...]:
    """Refuse a branch rewrite that deletes protected tags, unless the caller gave them up. Return warnings.

    Args:
        view: The branch.
        own: Its tags.
        going: The names of the tags to delete.
        lost: Tags that the caller gave up.
        rewrite: The branch rewrite, such as `a rollback to snapshot 4`.
        instead: What else the caller can do.
        more: Name -> reason, of tags to delete that something else protects.

    Raises:
        RefusedError: With code `tag_protected`; the tags are named. Or the table's options about tags are invalid.
        StorageError: A request failed.
    """
    protected = {**_protectors(view, own, going, ruling_of(view.table)), **(more or {})} if going else {}
    held = [f"{name!r} ({protector})" for name, protector in protected.items() if name not in lost]
    if held:
        raise RefusedError(
            f"table {view.table.ref}: {rewrite} would delete protected tags: {some_of(held)}; expected lose_tag "
            f"with the name of each, or {instead}",
            code=TAG_PROTECTED,
        )
    return tuple(given_up_in_vain(lost, view.own.tags, protected))


def given_up_in_vain(lost: Iterable[str], tags: Iterable[RootRef], protected: Container[str]) -> Iterator[str]:
    """Warn of tags that the caller gave up needlessly, perhaps by mistake.

    Args:
        lost: Tags that the caller gave up.
        tags: The tags of the branch.
        protected: Protected tags that the plan deletes.
    """
    there = {ref.name for ref in tags}
    for name in lost:
        if name not in there:
            yield f"there is no tag {name!r} to lose"
        elif name not in protected:
            yield f"tag {name!r} need not be given up: it is kept, or nothing protects it"


def _protectors(view: TableView, own: OwnTags, going: Sequence[str], ruling: Ruling | None) -> dict[str, str]:
    """Return the reasons that protect tags to be deleted, in words, by the name of the tag."""
    found: dict[str, str] = {}
    for branch in view.listing.branches.values():
        for name in _sources(view, own, branch, going) if branch.name != view.own.name else ():
            made = f"branch {branch.name} was made from it"
            found.setdefault(name, "main has it as well" if branch.name == MAIN else made)
    for name, reasons in _kept_by_policy(view, own, ruling).items():
        if name in going and ruling is not None:
            why = f"{', '.join(reasons)}; rule for {rule_of(ruling).deciders['tags']}"
            found.setdefault(name, f"policy {ruling.policy} keeps it ({why})")
    return dict(sorted(found.items()))


def _sources(view: TableView, own: OwnTags, branch: BranchListing, going: Sequence[str]) -> Iterator[str]:
    """Yield the tags to delete from which a branch may have been made.

    Such a branch has a copy of the tag. If it has no copy any more, it has the tag's snapshot, like other tags.
    """
    copied: set[int] = set()
    for name in going:
        snapshot = own.tags[name].snapshot
        if any(_is_copy(view, ref, snapshot) for ref in branch.tags if ref.name == name):
            copied.add(snapshot.id)
            yield name
    for name in going:
        snapshot = own.tags[name].snapshot
        if snapshot.id not in copied and any(
            _is_copy(view, ref, snapshot) for ref in branch.snapshots if ref.id == snapshot.id
        ):
            yield name


def _is_copy(view: TableView, ref: RootRef, snapshot: Snapshot) -> bool:
    """Tell whether a root of another branch is this snapshot. A root that cannot be read may be a copy."""
    try:
        roots = read_roots(view.table.store, [ref]).roots
    except RefusedError:
        return True
    return any(_identity(root.snapshot) == _identity(snapshot) for root in roots)


def _identity(snapshot: Snapshot) -> tuple[object, ...]:
    return snapshot.id, snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.commit_identifier


def _kept_by_policy(view: TableView, own: OwnTags, ruling: Ruling | None) -> Mapping[str, tuple[str, ...]]:
    """Return the calendar rules of the fleet policy that keep a tag, by its name."""
    rules = rule_of(ruling).tags
    if not rules:
        return {}
    verdict, _ = judge_own(view, own, view.schema.options, rules, declared_zone(view.table, None, ruling))
    kept = {name: tuple(r for r in reasons if r.startswith("keep_")) for name, reasons in verdict.kept.items()}
    return {name: reasons for name, reasons in kept.items() if reasons}
