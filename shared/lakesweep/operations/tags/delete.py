"""`delete-tag`: delete tags, and the files that only these tags need.

The rules are Paimon's, with a stricter last check. If the snapshot of a tag still exists, only the tag's document is
deleted; the expiry of that snapshot deletes the files later. The same applies if another tag remains on the snapshot.
The last tag of a deleted snapshot takes with it every file of its state that no root of any branch needs. Paimon asks
only two neighbours.

Documents are deleted first. So nobody can open a tag, or make another tag from it, while its files are being deleted.
Source: Paimon `TagManager#deleteTag`, `TagDeletion`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from lakesweep.errors import ObjectNotFoundError, RefusedError, StalePlanError
from lakesweep.format.tag import Tag
from lakesweep.model.document_actions import delete_root
from lakesweep.model.paths.allowed import may_delete
from lakesweep.model.plan import Delete, Plan
from lakesweep.model.roots import References, Root, RootRef
from lakesweep.operations.retention.release import Release, plan_release
from lakesweep.operations.tags.options import check_callbacks, writes_success_file
from lakesweep.operations.tags.rules.rollback import needed_warnings
from lakesweep.runs.damage import damage_findings, lost_findings, warnings_of
from lakesweep.runs.session import Table
from lakesweep.runs.tags.documents import PHASE, SUCCESS, success_path, tag_path
from lakesweep.runs.view import TableView, begin, inputs_of
from lakesweep.table.documents import TagDocument, read_tags
from lakesweep.table.reach.freed_tags import find_freed_tags

OPERATION = "delete-tag"


def plan_delete_tag(table: Table, names: tuple[str, ...]) -> Plan:
    """Plan the deletion of tags by name. An unknown name is only a warning, as in Paimon.

    Args:
        table: One branch of a table.
        names: The names of the tags.

    Raises:
        RefusedError: This is no table, Paimon would call callbacks when it deletes a tag, or a root cannot be read.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    view = begin(table, OPERATION)
    options = view.schema.options
    inputs = inputs_of(view.own, {"tag": list(names)})
    there = {ref.name for ref in view.own.tags}
    warnings = [f"there is no tag {name!r} to delete" for name in names if name not in there]
    if there.isdisjoint(names):
        return view.plan((), inputs, warnings=warnings)
    check_callbacks(table, options)
    own = read_own_tags(view)
    warnings += [
        f"{tag_path(view.own.name, name)} cannot be read, so it is kept ({problem}); its files are not known"
        for name, problem in own.unreadable.items()
        if name in names
    ]
    warnings += needed_warnings(view.own, own.roots, names)
    removal = plan_removal(view, own, {name: "deleted manually" for name in names if name in own.roots}, options)
    return view.plan(
        removal.actions,
        inputs,
        kept=removal.kept.count,
        kept_bytes=removal.kept.size_bytes,
        warnings=(*warnings, *removal.warnings),
        needs_confirmation=removal.is_large,
        findings=removal.damage,
    )


@dataclass(frozen=True, slots=True)
class OwnTags:
    """The tags of a branch."""

    roots: Mapping[str, Root]
    """By name."""
    tags: Mapping[str, Tag]
    """By name."""
    unreadable: Mapping[str, str]
    """Name -> problem of the document."""

    def snapshot_id(self, name: str) -> int:
        """Return the snapshot of a tag that can be read."""
        return self.tags[name].snapshot.id


def read_own_tags(view: TableView) -> OwnTags:
    """Read all tags of the branch. A tag that does not parse is no error.

    Raises:
        StalePlanError: A tag vanished since it was listed.
        StorageError: A request failed.
    """
    store = view.table.store
    whole: dict[str, TagDocument] = {}
    unreadable: dict[str, str] = {}
    for ref, found in read_tags(store, view.own.tags):
        if isinstance(found, ObjectNotFoundError):
            raise StalePlanError(f"table {store.location}: {ref.path} vanished while the plan was made")
        if isinstance(found, TagDocument):
            whole[ref.name] = found
        else:
            unreadable[ref.name] = str(found)
    roots = {name: document.root for name, document in whole.items()}
    return OwnTags(roots, {name: document.tag for name, document in whole.items()}, unreadable)


def files_at_stake(view: TableView, own: OwnTags, going: Iterable[str]) -> dict[int, list[str]]:
    """Return snapshot id -> tags to delete, for each snapshot that no other root of the branch holds."""
    going = frozenset(going)
    there = {ref.id for ref in view.own.snapshots}
    there |= {own.snapshot_id(name) for name in own.tags if name not in going}
    found: dict[int, list[str]] = defaultdict(list)
    for name in sorted(going):
        if own.snapshot_id(name) not in there:
            found[own.snapshot_id(name)].append(name)
    return dict(found)


def plan_removal(view: TableView, own: OwnTags, going: Mapping[str, str], options: Mapping[str, str]) -> Release:
    """Plan the deletion of tags of one branch. Each manifest is read once for all of them.

    Args:
        view: The branch.
        own: Its tags.
        going: Name -> reason, for readable tags.
        options: The table's options, overridden by the call's.

    Raises:
        RefusedError: A remaining root or the newest snapshot cannot be read.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    documents = tuple(_documents(view, own, going, options))
    at_stake = files_at_stake(view, own, going)
    damaged = {tag_path(view.own.name, name): problem for name, problem in own.unreadable.items()}
    if not at_stake or not view.own.snapshots:
        lost = lost_findings(view)
        why = (f"no snapshot is left in branch {view.own.name}, so the files of its tags are kept",) if at_stake else ()
        damage = {**damage_findings(view, References(), damaged), **lost}
        return Release(documents, warnings=(*warnings_of(lost), *why), damage=damage)
    _refuse_unreadable(view, own)
    chosen, warnings = one_each(own, at_stake)
    release = plan_release(
        view,
        chosen,
        view.other_documents(own.roots[name].ref.path for name in going),
        lambda reader, removed, remaining: find_freed_tags(reader, view.paths(), removed, tuple(remaining.values())),
        options,
        frees_changelogs=False,
        before="tags with files of their own are deleted",
        damaged=damaged,
    )
    return replace(release, actions=(*documents, *release.actions), warnings=(*warnings, *release.warnings))


def _documents(view: TableView, own: OwnTags, going: Mapping[str, str], options: Mapping[str, str]) -> Iterable[Delete]:
    with_success = writes_success_file(options)
    for name, why in sorted(going.items()):
        yield delete_root(PHASE, own.roots[name], why)
        success = success_path(view.own.name, name)
        if with_success and may_delete(SUCCESS, success):
            yield Delete(PHASE, SUCCESS, success, None, f"tag {name} is deleted")


def _refuse_unreadable(view: TableView, own: OwnTags) -> None:
    """Refuse to delete files while a remaining tag cannot be read, since it may need them."""
    for problem in own.unreadable.values():
        raise RefusedError(
            f"table {view.table.ref}: {problem}; expected to read every tag before files are deleted, since this tag "
            "may need them",
            code="unreadable_root",
        )


def one_each(own: OwnTags, at_stake: Mapping[int, Sequence[str]]) -> tuple[tuple[Root, ...], tuple[str, ...]]:
    """Return one tag for each snapshot id. If tags of one id differ, after a rollback, they free no files."""
    chosen, warnings = [], []
    for snapshot_id, names in at_stake.items():
        roots = [own.roots[name] for name in names]
        if len({(root.snapshot.base_manifest_list, root.snapshot.delta_manifest_list) for root in roots}) > 1:
            warnings.append(f"tags {', '.join(names)} differ about snapshot {snapshot_id}, so their files are kept")
            continue
        chosen.append(roots[0])
    return tuple(chosen), tuple(warnings)


def find_tag(view: TableView, name: str) -> RootRef | None:
    """Return a tag of the branch as listed."""
    return next((ref for ref in view.own.tags if ref.name == name), None)
