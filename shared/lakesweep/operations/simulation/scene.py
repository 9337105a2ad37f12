"""A branch as a simulation reads it, once, for all policies."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from lakesweep.format.snapshot import Snapshot
from lakesweep.model.roots import MAIN, Root
from lakesweep.operations.retention.expire_snapshots import lifecycle_of
from lakesweep.operations.simulation.files import FileReader
from lakesweep.operations.simulation.gaps import refusal
from lakesweep.operations.simulation.rules.lives import Deleted, Files, Lives
from lakesweep.operations.tags.delete import OwnTags, files_at_stake, one_each, read_own_tags
from lakesweep.runs.damage import lost_findings, warnings_of
from lakesweep.runs.fleet import Ruling, limited, may_delete, ruling_of, why_kept
from lakesweep.runs.metadata_cache import invalidate, invalidate_changelogs
from lakesweep.runs.parameters.retention_options import (
    ExpireArguments,
    consumers_bind_changelogs_only,
    falls_back,
    has_decoupled_changelog,
    is_stated,
)
from lakesweep.runs.session import Table
from lakesweep.runs.view import TableView, begin
from lakesweep.table.documents import read_consumers
from lakesweep.table.reach.freed import Lifecycle

OPERATION = "simulate"


@dataclass(frozen=True, slots=True)
class TagDecision:
    """Which tags a policy deletes."""

    kept: int
    """The tags that stay: a number with one bit for each, in the order of their names."""
    freeing: int
    """Those that go and take files along."""
    count: int
    """How many go."""
    document_bytes: int
    """The bytes of their documents."""


@dataclass(frozen=True, slots=True)
class Scene:
    """What is known of a branch."""

    view: TableView
    ruling: Ruling | None
    snapshots: tuple[Snapshot, ...]
    """Ascending by id."""
    tags: OwnTags
    consumers: Mapping[str, int]
    """Consumer -> the smallest snapshot id that it still needs."""
    binds_snapshots: bool
    """Consumers hold back snapshots."""
    present: tuple[Files, ...]
    """What was there right after each snapshot, if nothing had ever been deleted; the last is what is there now."""
    lives: Lives
    warnings: tuple[str, ...]
    _deleted: dict[tuple[int, int], Deleted] = field(default_factory=dict)

    @property
    def options(self) -> Mapping[str, str]:
        """Return the options of the table."""
        return self.view.schema.options

    @property
    def ids(self) -> list[int]:
        """Return the ids of the snapshots."""
        return [snapshot.id for snapshot in self.snapshots]

    def deleted(self, tags: TagDecision) -> Deleted:
        """Return what goes under a decision about the tags."""
        key = tags.kept, tags.freeing
        if key not in self._deleted:
            self._deleted[key] = self.lives.deleted(*key)
        return self._deleted[key]

    def decided(self, going: frozenset[str]) -> TagDecision:
        """Return the decision to delete these tags."""
        names = sorted(self.tags.roots)
        chosen, _ = one_each(self.tags, files_at_stake(self.view, self.tags, going))
        freed_ids = {root.snapshot.id for root in chosen}
        kept = freeing = 0
        for number, name in enumerate(names):
            if name not in going:
                kept |= 1 << number
            elif self.tags.snapshot_id(name) in freed_ids:
                freeing |= 1 << number
        return TagDecision(kept, freeing, len(going), sum(self.tags.roots[name].ref.size_bytes for name in going))


def read_scene(table: Table) -> Scene:
    """Read a branch and all metadata of the table.

    Raises:
        RefusedError: This is no table, or a root cannot be read completely.
        StalePlanError: A root vanished while the table was read.
        UsageError: The location of the fleet policy holds no valid policy.
        StorageError: A request failed.
    """
    view = begin(table, OPERATION)
    ruling = ruling_of(table)
    options = view.schema.options
    lifecycle = lifecycle_of(options)
    own = view.own_documents(view.own.snapshots)
    tags = read_own_tags(view)
    for problem in tags.unreadable.values():
        raise refusal(view, problem)
    of_tags = [tags.roots[name] for name in sorted(tags.roots)]
    others = view.other_documents(root.ref.path for root in (*own, *of_tags))
    _forget_what_may_be_gone(view, (*own, *of_tags, *others.roots))
    found = FileReader(view, own, of_tags, others.roots, lifecycle).read()
    outlived = {ref.id for ref in view.own.changelogs}
    for position, root in enumerate(own):
        if lifecycle is Lifecycle.COUPLED or root.ref.id in outlived:  # a fast-forward brings snapshots back
            found.lives.add(root.ref.size_bytes, is_data=False, born=position, goes=position + 1)
        else:  # it becomes a changelog of the same size
            found.lives.add(root.ref.size_bytes, is_data=False, born=position)
    for root in of_tags:
        found.lives.add(root.ref.size_bytes, is_data=False)
    for root in others.roots:
        found.lives.add(root.ref.size_bytes, is_data=False, is_held=True)
    return Scene(
        view=view,
        ruling=ruling,
        snapshots=tuple(root.snapshot for root in own),
        tags=tags,
        consumers=read_consumers(table.store, view.own.consumers),
        binds_snapshots=not consumers_bind_changelogs_only(options),
        present=tuple(found.lives.present(len(own))),
        lives=found.lives,
        warnings=(
            *warnings_of(lost_findings(view)),
            *_about_passes(view, ruling),
            *_about_files(view, found.without_size, found.missing),
            *(f"{ref} vanished while the table was read" for ref in others.vanished),
        ),
    )


def _forget_what_may_be_gone(view: TableView, roots: Sequence[Root]) -> None:
    """Read the lists anew that expiry may have rightly deleted since they were cached; see `gaps.py`."""
    invalidate_changelogs(view.table, roots, view.schema.options)
    tagged = {(root.ref.branch, root.snapshot.id) for root in roots if root.ref.kind == "tag"}
    copies = (root for root in roots if root.ref.branch != MAIN or (root.ref.branch, root.snapshot.id) in tagged)
    invalidate(view.table, (root.snapshot.changelog_manifest_list for root in copies))


def _about_passes(view: TableView, ruling: Ruling | None) -> tuple[str, ...]:
    """Return what a person should know about the passes that follow the present policy."""
    options = view.schema.options
    warnings: list[str] = []
    if not is_stated(options) and not falls_back(options, limited(ExpireArguments(), ruling)):
        warnings.append(
            "the schema states no retention, so the present policy is Paimon's defaults, and unattended maintenance "
            "expires no snapshot"
        )
    if ruling is not None and not may_delete(ruling):
        warnings.append(f"{why_kept(ruling)}, so no pass deletes what the present policy would")
    if has_decoupled_changelog(options):
        warnings.append(
            "changelogs outlive snapshots in this table: an expired snapshot becomes a changelog and keeps the files "
            "of its changes, and the expiry of changelogs is not simulated"
        )
    return tuple(warnings)


def _about_files(view: TableView, without_size: int, missing: int) -> tuple[str, ...]:
    warnings: list[str] = []
    if without_size:
        are = "1 extra file is" if without_size == 1 else f"{without_size} extra files are"
        warnings.append(f"{are} counted without bytes, since no manifest states the size")
    if missing:
        warnings.append(
            f"{missing} index or statistics files are not there, so they are not counted; lakesweep check "
            f"{view.table.ref.location} shows which"
        )
    return tuple(warnings)
