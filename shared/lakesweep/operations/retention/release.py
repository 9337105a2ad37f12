"""What the removal of documents releases: the files that only removed roots need, and their deletion.

Three operations remove documents and then the files behind them: the expiry of snapshots, the expiry of changelogs and
the deletion of tags. Each says which roots it removes, and which files these free by Paimon's rules
(`table/reach/freed.py`). Everything after that is the same for all three, and happens here:

1. The cached metadata of the newest snapshot is invalidated. What is lost in the store must not look complete.
2. The lists of the removed and of the remaining roots are read.
3. The remaining roots of every branch are asked for each freed file. Lakesweep keeps a file that one of them needs, and
   a file that an unreadable root may need.
4. The plan is refused if the newest snapshot cannot be read, since the removed roots may be the only ones left to
   restore.

The files are deleted after the documents, in the order of `operations/retention/rules/expire_snapshots.py`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from lakesweep.errors import RefusedError, StalePlanError
from lakesweep.model.plan import Action
from lakesweep.model.roots import DATA_KINDS, References, Root
from lakesweep.operations.retention.rules.expire_snapshots import KeptFiles, plan_files
from lakesweep.runs.damage import damage_findings
from lakesweep.runs.metadata_cache import invalidate, invalidate_changelogs
from lakesweep.runs.view import TableView
from lakesweep.table.documents import Documents
from lakesweep.table.metadata import MetadataReader, Unreadable
from lakesweep.table.reach.freed import FreedFiles
from lakesweep.table.reach.references import find_references
from lakesweep.table.reach.root_files import RootFiles, read_root_files

CONFIRM_ABOVE_FILES = 1000
"""A call that deletes more data files than this, and more than the newest snapshot has, needs confirmation."""

FindFreed = Callable[[MetadataReader, Sequence[RootFiles], Mapping[str, RootFiles]], FreedFiles]
"""Finds the files that the removed roots free. Takes these roots in order, and the remaining roots by path."""


@dataclass(frozen=True, slots=True)
class Release:
    """The deletions, and what a plan says about the files that are kept."""

    actions: tuple[Action, ...] = ()
    kept: KeptFiles = field(default_factory=lambda: KeptFiles({}, {}))
    warnings: tuple[str, ...] = ()
    is_large: bool = False
    """The deletions are many data files, and more than the newest snapshot has."""
    damage: Mapping[str, object] = field(default_factory=dict)
    """Findings about remaining roots that are damaged."""


def plan_release(
    view: TableView,
    removed: Sequence[Root],
    remaining: Documents,
    find_freed: FindFreed,
    options: Mapping[str, str],
    *,
    frees_changelogs: bool,
    before: str,
    damaged: Mapping[str, str] | None = None,
) -> Release:
    """Plan the deletion of the files that only removed roots need.

    Args:
        view: The branch. It has a snapshot.
        removed: The roots whose files are freed, oldest first.
        remaining: All other roots of all branches, except those whose documents are removed as well.
        find_freed: Finds the files that `removed` free.
        options: The table's options, overridden by the call's.
        frees_changelogs: Files of changelogs may be freed, so the changelog lists of all snapshots are asked, too.
        before: What the plan would do next, for the message of a refusal.
        damaged: Path of a remaining document that does not parse -> its problem.

    Raises:
        RefusedError: The newest snapshot cannot be read.
        StalePlanError: The newest snapshot vanished since it was listed.
        StorageError: A request failed.
    """
    store, newest_path = view.table.store, view.own.snapshots[-1].path
    newest = next((root.snapshot for root in remaining.roots if root.ref.path == newest_path), None)
    if newest is None:
        raise StalePlanError(f"table {store.location}: {newest_path} vanished while the plan was made")
    invalidate(view.table, (newest.base_manifest_list, newest.delta_manifest_list, newest.index_manifest))
    invalidate_changelogs(view.table, [*removed, *remaining.roots], options)
    reader = MetadataReader(store)
    files = read_root_files(
        reader,
        [*removed, *remaining.roots],
        with_changelog=lambda root: root.ref.kind == "changelog" or (frees_changelogs and root.ref.kind == "snapshot"),
        going=frozenset(root.ref.path for root in removed if root.ref.kind == "snapshot"),
    )
    going = [files[root.ref.path] for root in removed]
    staying = {root.ref.path: files[root.ref.path] for root in remaining.roots}
    head = staying[newest_path]
    invalidate(view.table, (meta.file_name for meta in (() if isinstance(head.delta, Unreadable) else head.delta)))
    freed = find_freed(reader, going, staying)
    references = find_references(reader, staying.values(), freed.files, view.own.name)
    asks_data = any(file.kind in DATA_KINDS for file in freed.files)
    problem = _problem_of_head(reader, head, references, None if asks_data else going[:1])
    if problem is not None:
        raise RefusedError(
            f"table {view.table.ref}: the newest snapshot {newest.id} cannot be read ({problem}); "
            f"expected a readable one before {before}",
            code="unreadable_root",
        )
    deletes, kept = plan_files(freed.files, references, view.stores(freed.files).stays)
    return Release(
        deletes,
        kept,
        (
            *freed.warnings,
            *references.problems(),
            *kept.warnings,
            *(f"{ref} vanished while the plan was made" for ref in remaining.vanished),
        ),
        _is_large(deletes, head),
        damage_findings(view, references, damaged),
    )


def _problem_of_head(
    reader: MetadataReader, head: RootFiles, references: References, oldest: Sequence[RootFiles] | None
) -> str | None:
    """Return why the newest snapshot cannot be read, `None` if it can. Readers do not need statistics.

    Args:
        reader: Reads what the plan has not read.
        head: The newest snapshot.
        references: What the remaining roots need.
        oldest: The first removed root if no data file is freed, since then nobody has read the manifests of the newest
            snapshot. Manifests that both have are not read: without them, the removed root is no better.
    """
    for unreadable in head.unreadable_lists:
        return unreadable.problem
    if head.root.ref.path in references.unreadable_roots:
        return next(each for each in references.problems() if each.startswith(f"{head.root.ref} "))
    index = head.root.snapshot.index_manifest
    found: list[object] = list(reader.index_manifests([] if index is None else [index]).values())
    if oldest is not None:
        known = {meta.file_name for files in oldest for meta in files.manifests()}
        new = [meta for meta in head.manifests() if meta.file_name not in known]
        found += [content for _, content in reader.scan_manifests(new, lambda entries: sum(1 for _ in entries))]
    return next((content.problem for content in found if isinstance(content, Unreadable)), None)


def _is_large(actions: Sequence[Action], head: RootFiles) -> bool:
    data = sum(action.phase == "data" for action in actions)
    live = sum(meta.added_count - meta.deleted_count for meta in head.manifests())
    return data > CONFIRM_ABOVE_FILES and data > live
