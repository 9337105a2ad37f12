"""`clean-deletion-vectors`: commit a snapshot whose index has no deletion vectors of files that are gone.

Full compactions of Paimon up to 1.4 leave such vectors in tables with buckets, drops and overwrites of pypaimon in
tables without. The commit changes no row, no data file and no other vector. Its delta list is empty, and its base list
has what both lists of the former snapshot had.

What is gone is decided anew on the base of each attempt. Index files that an earlier attempt has rewritten are used
again if the base still has the former one, and the same of its data files are gone.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from lakesweep.commit.allowed import refuse_commit
from lakesweep.commit.base import Base
from lakesweep.commit.environment import Attempt, Prepared
from lakesweep.commit.index_files import put_vectors, target_size
from lakesweep.commit.manifest_options import manifests_of
from lakesweep.commit.next_snapshot import Change, next_snapshot
from lakesweep.errors import FormatError, RefusedError
from lakesweep.format.manifest import DELETION_VECTORS, IndexEntry
from lakesweep.format.manifest_list_writer import write_manifest_list
from lakesweep.format.metadata_names import MetadataNames
from lakesweep.format.schema import TableSchema
from lakesweep.format.vectors.index_file import write_index_files
from lakesweep.model.commits.report import MadeCommit
from lakesweep.model.commits.vectors import VectorsReport
from lakesweep.model.report import RunReport
from lakesweep.model.safety import ORPHAN_AGE_MS
from lakesweep.operations.repair.arguments import RepairArguments
from lakesweep.operations.repair.dangling import (
    OPERATION,
    Dangling,
    Rewritten,
    count_vectors,
    look_for_dangling,
    rewrite,
)
from lakesweep.operations.repair.live_names import LiveNames
from lakesweep.operations.repair.vectors import Kept
from lakesweep.runs.committing.opened import Opened, opened
from lakesweep.runs.committing.run import CommitRun
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import NOT_EXECUTABLE, Table
from lakesweep.storage.clock import Stopwatch
from lakesweep.storage.store import Store
from lakesweep.table.contents.strict import StrictMetadata
from lakesweep.table.vectors import has_vectors


def clean_deletion_vectors(table: Table, arguments: RepairArguments, *, execute: bool) -> RunReport:
    """Leave the deletion vectors of files that are gone out of a branch, or say what a call would leave out.

    Args:
        table: One branch of a table.
        arguments: What the caller asked for.
        execute: If false, nothing changes.

    Raises:
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    try:
        target = opened(table, OPERATION, execute=execute)
        if target.base is None:
            return report_of(table, OPERATION, "nothing_to_do", None)
        if execute:
            return _Execution(target, arguments).report()
        return _planned(target, target.base, arguments)
    except RefusedError as error:
        return refused(table, OPERATION, error)


@dataclass(slots=True)
class _Look:
    """Looks at snapshots of one branch."""

    table: Table
    live: LiveNames
    warn: Callable[[str], None]

    def at(self, base: Base) -> Dangling | None:
        """Return what is dangling in a snapshot; `None`: nothing, or nobody applies its vectors."""
        try:
            is_applied = has_vectors(base.schema)
        except FormatError as error:
            raise RefusedError(f"table {self.table.ref}: {error}", code="bad_option") from error
        if not is_applied:
            if count := count_vectors(base, self.live.metadata):
                self.warn(
                    f"option deletion-vectors.enabled is not true, so no reader and no commit of Paimon looks at the "
                    f"table's {count} deletion vectors; they stay"
                )
            return None
        return look_for_dangling(self.table, base, self.live)

    def report(self, dangling: Dangling | None, rewritten: Rewritten, catalog: str | None) -> VectorsReport:
        """Return what a report says."""
        if dangling is None:
            return VectorsReport(catalog=catalog)
        written = [entry for key, _ in dangling.rewritten for entry in rewritten.get(key, ())]
        return VectorsReport(
            index_files=dangling.files,
            all_index_files=dangling.all_index_files,
            written_files=len(written),
            written_bytes=sum(entry.file_size for entry in written),
            catalog=catalog,
        )


def _look(table: Table, store: Store, warn: Callable[[str], None]) -> _Look:
    return _Look(table, LiveNames(StrictMetadata(store, str(table.ref))), warn)


def _check_allowed(base: Base, arguments: RepairArguments) -> None:
    newest = base.root
    refuse_commit(base.schema, newest.snapshot, newest.body, arguments.catalog.type, "vectors", True)


def _planned(target: Opened, base: Base, arguments: RepairArguments) -> RunReport:
    table, warnings = target.table, list[str]()
    look = _look(table, target.store, warnings.append)
    dangling = look.at(base)
    if dangling is None or not dangling.gone:
        report = report_of(table, OPERATION, "nothing_to_do", None)
        commits = look.report(dangling, {}, arguments.catalog.type)
        return replace(report, commits=commits, warnings=tuple(warnings))
    try:
        _check_allowed(base, arguments)
    except RefusedError as error:
        warnings.append(f"{NOT_EXECUTABLE}: {error}")
    rewritten = rewrite(table, target.store, dangling, _measured(base.schema), {})
    report = report_of(table, OPERATION, "planned", None)
    commits = look.report(dangling, rewritten, arguments.catalog.type)
    return replace(report, commits=commits, warnings=tuple(warnings))


def _measured(schema: TableSchema) -> Callable[[Kept], tuple[IndexEntry, ...]]:
    """Return what makes entries of new index files without writing them, so they have no name."""
    size = target_size(schema)

    def entries(kept: Kept) -> tuple[IndexEntry, ...]:
        return tuple(
            IndexEntry(
                kept.partition, kept.bucket, DELETION_VECTORS, "", len(file.body), len(file.ranges), None, file.ranges
            )
            for file in write_index_files(kept.vectors, size)
        )

    return entries


class _Execution:
    """One execution: one commit."""

    def __init__(self, target: Opened, arguments: RepairArguments) -> None:
        self._target, self._arguments = target, arguments
        self._options = {**target.schema.options, **arguments.options}
        self._run = CommitRun(
            target, OPERATION, self._options, has_lock=arguments.catalog.has_lock, unattended=False, show=self._shown
        )
        self._look = _look(target.table, target.store, self._run.warn)
        self._rewritten: Rewritten = {}
        """What earlier attempts have written, and `_since` when."""
        self._since = Stopwatch()
        self._report: VectorsReport | None = None

    def report(self) -> RunReport:
        """Commit, and return the report, which is stored if anything was committed or may have been."""
        return self._run.report(lambda: self._run.commit(self._prepare))

    def _prepare(self, attempt: Attempt) -> Prepared | None:
        base, catalog = attempt.base, self._arguments.catalog.type
        dangling = self._look.at(base)
        if dangling is None or not dangling.gone:
            self._report = self._look.report(dangling, {}, catalog)
            return None
        _check_allowed(base, self._arguments)
        if not attempt.may_reuse or base.is_restart or self._since.elapsed_ms() > ORPHAN_AGE_MS // 2:
            self._rewritten, self._since = {}, Stopwatch()
        former = self._rewritten
        table = self._target.table

        def put(kept: Kept) -> tuple[IndexEntry, ...]:
            return put_vectors(
                table.store,
                base.schema,
                kept.partition,
                kept.bucket,
                kept.vectors,
                lambda: table.check_time(OPERATION),
            )

        self._rewritten = rewrite(table, table.store, dangling, put, former)
        report = self._look.report(dangling, self._rewritten, catalog)
        self._report = replace(report, reused_attempt=any(key in former for key, _ in dangling.rewritten))
        return next_snapshot(attempt, self._change(attempt, dangling))

    def _change(self, attempt: Attempt, dangling: Dangling) -> Change:
        base, how = attempt.base.root.snapshot, manifests_of(self._options)
        names = MetadataNames(attempt.uuid)
        base_list, delta_list, index_manifest = names.manifest_list(), names.manifest_list(), names.index_manifest()
        return Change(
            kind="COMPACT",
            schema_id=base.schema_id,
            base_list=base_list,
            delta_list=delta_list,
            index_manifest=index_manifest,
            statistics=base.statistics,
            total_record_count=base.total_record_count,
            delta_record_count=0,
            next_row_id=base.next_row_id,
            files={
                base_list: write_manifest_list(dangling.lists, (), codec=how.codec, level=how.level),
                delta_list: write_manifest_list((), (), codec=how.codec, level=how.level),
                index_manifest: dangling.index_manifest(self._rewritten, how),
            },
            keeps_properties=True,
            since=self._since,
        )

    def _shown(self, report: RunReport, made: tuple[MadeCommit, ...]) -> RunReport:
        return report if self._report is None else replace(report, commits=replace(self._report, made=made))
