"""The execution of a compaction of manifests: one commit, and the report.

A compaction of a large table takes longer than the commits of a busy writer. So a later attempt uses the manifests of
the one before, if all that they replace is still there. What is new stands behind them, also the DELETE of a file that
they name.
"""

from collections.abc import Sequence
from dataclasses import replace

from lakesweep.commit.allowed import refuse_commit
from lakesweep.commit.base import Base
from lakesweep.commit.environment import Attempt, Committed, Prepared
from lakesweep.commit.manifest_options import Manifests, manifests_of
from lakesweep.commit.next_snapshot import Change, next_snapshot
from lakesweep.format.identity_digests import identity_digest
from lakesweep.format.manifest import ManifestMeta
from lakesweep.format.manifest_list_writer import RawList, check_lists, write_manifest_list
from lakesweep.format.metadata_names import MetadataNames
from lakesweep.format.raw_entries import read_raw_manifest
from lakesweep.format.values.data_type import DataType
from lakesweep.model.commits.manifests import ManifestsReport
from lakesweep.model.commits.report import MadeCommit
from lakesweep.model.report import RunReport
from lakesweep.model.safety import ORPHAN_AGE_MS
from lakesweep.operations.manifests.arguments import CompactManifestArguments
from lakesweep.operations.manifests.compaction import Compacted, Compaction
from lakesweep.operations.manifests.rules.choice import entries_to_read, is_worthwhile
from lakesweep.operations.manifests.rules.due import ListLength, length_in, stated_for, thresholds_of
from lakesweep.operations.manifests.rules.figures import figures_of, saved_requests
from lakesweep.runs.committing.opened import Opened
from lakesweep.runs.committing.run import CommitRun
from lakesweep.runs.committing.size import check_entries
from lakesweep.runs.session import Table
from lakesweep.storage.clock import Stopwatch
from lakesweep.table.contents.strict import StrictMetadata

OPERATION = "compact-manifest"


class Execution:
    """One execution."""

    def __init__(self, target: Opened, arguments: CompactManifestArguments) -> None:
        table = target.table
        self._arguments = arguments
        self._options = {**target.schema.options, **arguments.options}
        self._metadata = StrictMetadata(table.store, str(table.ref))
        self._run = CommitRun(
            target,
            OPERATION,
            self._options,
            has_lock=arguments.catalog.has_lock,
            unattended=arguments.unattended,
            show=self._shown,
        )
        self._former: tuple[Compacted, Stopwatch] | None = None
        """What an attempt has written, and since when."""
        self._report: ManifestsReport | None = None
        self._exceeds: str | None = None

    def report(self) -> RunReport:
        """Commit, and return the report, which is stored if anything was committed or may have been."""
        return self._run.report(self._commit)

    def _commit(self) -> Committed:
        return self._run.commit(self._prepare)

    def _prepare(self, attempt: Attempt) -> Prepared | None:
        base, arguments = attempt.base, self._arguments
        root = base.root
        refuse_commit(base.schema, root.snapshot, root.body, arguments.catalog.type, "compact_manifest", True)
        lists = self._metadata.lists(root.snapshot)
        metas = [meta for each in lists for meta in each.metas]
        how, types = manifests_of(self._options), base.schema.partition_types
        names = MetadataNames(attempt.uuid)
        former = self._reusable(attempt, metas)
        if former is None:
            if arguments.only_due:
                self._exceeds = length_of(base, arguments, lists).exceeds
            if (arguments.only_due and self._exceeds is None) or not is_worthwhile(metas, how.target_bytes):
                figures = figures_of(metas)
                self._report = ManifestsReport(before=figures, after=figures, catalog=arguments.catalog.type)
                return None
            check_feasible(self._run.target.table, lists, how, types)
            since = Stopwatch()
            former = Compaction(self._metadata, types, how, names, attempt.write).run(metas), since
            is_reused = False
        else:
            is_reused = True
        compacted, since = self._former = former
        found = report_on(metas, compacted, types, arguments.catalog.type, is_reused=is_reused)
        self._report = replace(found, exceeds=self._exceeds)
        if compacted.is_empty:
            return None
        return next_snapshot(attempt, _change(attempt, lists, compacted, how, names, since))

    def _reusable(self, attempt: Attempt, metas: Sequence[ManifestMeta]) -> tuple[Compacted, Stopwatch] | None:
        """Return what an earlier attempt has written, if the new snapshot may name it.

        Everything that it replaces must still be there. A new manifest must not add a file that a former one deleted:
        Paimon takes such a file for deleted, and the DELETE is left out.
        """
        if self._former is None or not attempt.may_reuse or attempt.base.is_restart:
            return None
        compacted, since = self._former
        newer = [meta for meta in metas if meta.file_name not in compacted.inputs]
        if len(metas) - len(newer) != len(compacted.inputs) or since.elapsed_ms() > ORPHAN_AGE_MS // 2:
            return None
        sizes = {meta.file_name: meta.file_size for meta in newer}
        for name, body in self._metadata.bodies(sizes, sizes):
            with self._metadata.refusing():
                manifest = read_raw_manifest(body, f"manifest/{name}", expected_size=sizes[name])
                for adds, _ in manifest.copies(identified=True):
                    if compacted.deleted.overlaps(map(identity_digest, adds)):
                        return None
        return self._former

    def _shown(self, report: RunReport, made: tuple[MadeCommit, ...]) -> RunReport:
        return report if self._report is None else replace(report, commits=replace(self._report, made=made))


def check_feasible(table: Table, lists: Sequence[RawList], how: Manifests, types: Sequence[DataType]) -> None:
    """Make sure that a new list can have what these have, and that this process has time to compact their manifests.

    Raises:
        RefusedError: It has not, or a list has fields that Lakesweep does not know.
    """
    check_lists(lists)
    metas = [meta for each in lists for meta in each.metas]
    entries = entries_to_read(metas, how.target_bytes, is_partitioned=bool(types))
    check_entries(table, OPERATION, len(metas), entries)


def length_of(base: Base, arguments: CompactManifestArguments, lists: Sequence[RawList]) -> ListLength:
    """Return how long the base list of a snapshot is, beside the thresholds in force.

    Args:
        base: The snapshot and the schema.
        arguments: The call.
        lists: Base and delta list of the snapshot.

    Raises:
        RefusedError: `bad_option`: an option about the thresholds does not parse.
    """
    stated = stated_for(base.schema.options, arguments.otherwise, arguments.options)
    return length_in(lists[0].metas, thresholds_of(stated))


def _change(
    attempt: Attempt,
    lists: Sequence[RawList],
    compacted: Compacted,
    how: Manifests,
    names: MetadataNames,
    since: Stopwatch,
) -> Change:
    base = attempt.base.root.snapshot
    kept = [each.only(compacted.kept) for each in lists]
    newer = [each.only({meta.file_name for meta in each.metas} - compacted.inputs) for each in lists]
    base_name, delta_name = names.manifest_list(), names.manifest_list()
    return Change(
        kind="COMPACT",
        schema_id=base.schema_id,
        base_list=base_name,
        delta_list=delta_name,
        index_manifest=base.index_manifest,
        statistics=base.statistics,
        total_record_count=base.total_record_count,
        delta_record_count=0,
        next_row_id=base.next_row_id,
        files={
            # What is newer stands last: a writer that merges a DELETE before the ADD of the same file fails.
            base_name: write_manifest_list(kept, compacted.written, newer, codec=how.codec, level=how.level),
            delta_name: write_manifest_list((), (), codec=how.codec, level=how.level),
        },
        keeps_properties=True,
        since=since,
    )


def report_on(
    metas: Sequence[ManifestMeta],
    compacted: Compacted,
    types: Sequence[DataType],
    catalog: str | None,
    *,
    is_reused: bool = False,
) -> ManifestsReport:
    """Return what a report says of a compaction of some manifests."""
    stay = [meta for meta in metas if meta.file_name in compacted.kept or meta.file_name not in compacted.inputs]
    after = [*stay, *(each.meta for each in compacted.written)]
    return ManifestsReport(
        before=figures_of(metas),
        after=figures_of(after),
        saved_requests=None if compacted.is_empty else saved_requests(metas, after, types),
        reused_attempt=is_reused,
        catalog=catalog,
    )
