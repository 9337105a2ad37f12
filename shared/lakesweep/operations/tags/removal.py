"""Delete tags: their documents, and the files that only these tags need.

The rules are Paimon's, with a stricter last check. If the snapshot of a tag still exists, only the tag's document is
deleted; the expiry of that snapshot deletes the files later. The same applies if another tag remains on the snapshot.
The last tag of a deleted snapshot takes with it every file of its state that no root of any branch needs. Paimon asks
only two neighbours.

Documents are deleted first. So nobody can open a tag, or make another tag from it, while its files are being deleted.
Source: Paimon `TagManager#deleteTag`, `TagDeletion`.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakesweep.errors import ObjectNotFoundError, RefusedError, StalePlanError
from lakesweep.format.tag import Tag
from lakesweep.model.facts import References
from lakesweep.model.paths.allowed import may_delete
from lakesweep.model.plan import Action, Delete, to_text
from lakesweep.model.roots import Root, RootRef
from lakesweep.operations.retention.newest import is_large, refuse_damaged_head
from lakesweep.operations.retention.rules.expire_snapshots import KeptFiles, plan_files
from lakesweep.operations.tags.options import writes_success_file
from lakesweep.runs.damage import damage_findings, lost_findings, warnings_of
from lakesweep.runs.memory import doubt, doubt_changelogs
from lakesweep.runs.tag_documents import PHASE, SUCCESS, TAG, success_path, tag_path
from lakesweep.runs.view import Draft
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.reach.freed import find_freed_tags
from lakesweep.table.reach.references import find_references
from lakesweep.table.reach.root_files import read_root_files
from lakesweep.table.tags import TagDocument, read_tags


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


@dataclass(frozen=True, slots=True)
class Removal:
    """The result of planning a deletion of tags."""

    actions: tuple[Action, ...] = ()
    kept: KeptFiles = field(default_factory=lambda: KeptFiles({}, {}))
    warnings: tuple[str, ...] = ()
    is_large: bool = False
    """It deletes many data files, and more than the newest snapshot has."""
    damage: Mapping[str, object] = field(default_factory=dict)
    """Findings about remaining roots that are damaged."""


def read_own_tags(draft: Draft) -> OwnTags:
    """Read all tags of the branch. A tag that does not parse is no error.

    Raises:
        StalePlanError: A tag vanished since it was listed.
        StorageError: A request failed.
    """
    store = draft.table.store
    whole: dict[str, TagDocument] = {}
    unreadable: dict[str, str] = {}
    for ref, found in read_tags(store, draft.own.tags):
        if isinstance(found, ObjectNotFoundError):
            raise StalePlanError(f"table {store.location}: {ref.path} vanished while the plan was made")
        if isinstance(found, TagDocument):
            whole[ref.name] = found
        else:
            unreadable[ref.name] = str(found)
    roots = {name: document.root for name, document in whole.items()}
    return OwnTags(roots, {name: document.tag for name, document in whole.items()}, unreadable)


def unreadable_tags(draft: Draft, own: OwnTags) -> dict[str, str]:
    """Return path -> problem of each tag of the branch that does not parse."""
    return {tag_path(draft.own.name, name): problem for name, problem in own.unreadable.items()}


def files_at_stake(draft: Draft, own: OwnTags, going: Iterable[str]) -> dict[int, list[str]]:
    """Return snapshot id -> tags to delete, for each snapshot that no other root of the branch holds."""
    going = frozenset(going)
    there = {ref.id for ref in draft.own.snapshots}
    there |= {own.snapshot_id(name) for name in own.tags if name not in going}
    found: dict[int, list[str]] = defaultdict(list)
    for name in sorted(going):
        if own.snapshot_id(name) not in there:
            found[own.snapshot_id(name)].append(name)
    return dict(found)


def plan_removal(draft: Draft, own: OwnTags, going: Mapping[str, str], options: Mapping[str, str]) -> Removal:
    """Plan the deletion of tags of one branch. Each manifest is read once for all of them.

    Args:
        draft: The branch.
        own: Its tags.
        going: Name -> reason, for readable tags.
        options: The table's options, overridden by the call's.

    Raises:
        RefusedError: A remaining root or the newest snapshot cannot be read.
        StalePlanError: The table changed while it was read; plan again.
        StorageError: A request failed.
    """
    documents = tuple(_documents(draft, own, going, options))
    at_stake = files_at_stake(draft, own, going)
    if not at_stake or not draft.own.snapshots:
        lost = lost_findings(draft)
        why = (
            (f"no snapshot is left in branch {draft.own.name}, so the files of its tags are kept",) if at_stake else ()
        )
        damage = {**damage_findings(draft, References(), unreadable_tags(draft, own)), **lost}
        return Removal(documents, warnings=(*warnings_of(lost), *why), damage=damage)
    _refuse_unreadable(draft, own)
    chosen, warnings = _one_each(own, at_stake)
    return _with_files(
        draft, options, documents, chosen, frozenset(own.roots[name].ref.path for name in going), warnings, own
    )


def _documents(draft: Draft, own: OwnTags, going: Mapping[str, str], options: Mapping[str, str]) -> Iterable[Delete]:
    with_success = writes_success_file(options)
    for name, why in sorted(going.items()):
        root = own.roots[name]
        body = to_text(root.body)
        yield Delete(PHASE, TAG, root.ref.path, root.ref.size_bytes, why, etag=root.ref.etag, body=body)
        success = success_path(draft.own.name, name)
        if with_success and may_delete(SUCCESS, success):
            yield Delete(PHASE, SUCCESS, success, None, f"tag {name} is deleted")


def _refuse_unreadable(draft: Draft, own: OwnTags) -> None:
    """Refuse to delete files while a remaining tag cannot be read, since it may need them."""
    for problem in own.unreadable.values():
        raise RefusedError(
            f"table {draft.table.ref}: {problem}; expected to read every tag before files are deleted, since this tag "
            "may need them",
            code="unreadable_root",
        )


def _one_each(own: OwnTags, at_stake: Mapping[int, Sequence[str]]) -> tuple[tuple[Root, ...], tuple[str, ...]]:
    """Return one tag for each snapshot id. If tags of one id differ, after a rollback, they free no files."""
    chosen, warnings = [], []
    for snapshot_id, names in at_stake.items():
        roots = [own.roots[name] for name in names]
        if len({(root.snapshot.base_manifest_list, root.snapshot.delta_manifest_list) for root in roots}) > 1:
            warnings.append(f"tags {', '.join(names)} differ about snapshot {snapshot_id}, so their files are kept")
            continue
        chosen.append(roots[0])
    return tuple(chosen), tuple(warnings)


def _with_files(
    draft: Draft,
    options: Mapping[str, str],
    documents: tuple[Action, ...],
    chosen: Sequence[Root],
    gone: frozenset[str],
    warnings: tuple[str, ...],
    own_tags: OwnTags,
) -> Removal:
    """Load the files of the chosen tags and the files that all other roots need, and plan."""
    store, own = draft.table.store, draft.own
    others = draft.other_documents(gone)
    latest_path = own.snapshots[-1].path
    newest = next((root for root in others.roots if root.ref.path == latest_path), None)
    if newest is None:
        raise StalePlanError(f"table {store.location}: {latest_path} vanished while the plan was made")
    head = newest.snapshot
    doubt(draft.table, (head.base_manifest_list, head.delta_manifest_list, head.index_manifest))
    doubt_changelogs(draft.table, others.roots, options)
    reader = MetadataReader(store)
    files = read_root_files(reader, [*chosen, *others.roots], with_changelog=lambda root: root.ref.kind == "changelog")
    staying = [files[root.ref.path] for root in others.roots]
    freed = find_freed_tags(reader, draft.paths(), [files[root.ref.path] for root in chosen], staying)
    references = find_references(reader, staying, freed.files, own.name)
    latest = files[latest_path]
    unreadable, problems = references.unreadable_roots, references.problems()
    refuse_damaged_head(draft, reader, latest, unreadable, problems, "tags with files of their own are deleted")
    deletes, kept = plan_files(freed.files, references, draft.stores(freed.files).stays)
    vanished = tuple(f"{ref} vanished while the plan was made" for ref in others.vanished)
    return Removal(
        (*documents, *deletes),
        kept,
        (*warnings, *freed.warnings, *references.problems(), *kept.warnings, *vanished),
        is_large(deletes, latest),
        damage_findings(draft, references, unreadable_tags(draft, own_tags)),
    )


def find_tag(draft: Draft, name: str) -> RootRef | None:
    """Return a tag of the branch as listed."""
    return next((ref for ref in draft.own.tags if ref.name == name), None)
