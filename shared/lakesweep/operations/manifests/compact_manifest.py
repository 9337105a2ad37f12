"""`compact-manifest`: commit a snapshot that names the same files in fewer manifests.

No row, file or index changes, so Paimon tells nobody of such a commit, and looks for no conflict. The new base list
has what the base and the delta list of the former snapshot had; the new delta list is empty.

Source: Paimon `FileStoreCommitImpl#compactManifest`, `CompactManifestProcedure`.
"""

from dataclasses import replace
from uuid import uuid4

from lakesweep.commit.allowed import MANIFEST_FORMAT, refuse_commit
from lakesweep.commit.base import Base
from lakesweep.commit.manifest_options import manifests_of
from lakesweep.errors import RefusedError
from lakesweep.format.metadata_names import MetadataNames
from lakesweep.model.commits.manifests import ManifestsReport
from lakesweep.model.report import RunReport
from lakesweep.operations.manifests.arguments import CompactManifestArguments
from lakesweep.operations.manifests.compaction import Compaction
from lakesweep.operations.manifests.execution import OPERATION, Execution, check_feasible, length_of, report_on
from lakesweep.operations.manifests.rules.choice import is_worthwhile
from lakesweep.operations.manifests.rules.figures import figures_of
from lakesweep.runs.committing.opened import Opened, opened
from lakesweep.runs.reports import refused, report_of
from lakesweep.runs.session import NOT_EXECUTABLE, Table
from lakesweep.runs.view import TableView
from lakesweep.table.contents.strict import StrictMetadata


def compact_manifest(
    table: Table, arguments: CompactManifestArguments, *, execute: bool, view: TableView | None = None
) -> RunReport:
    """Merge the manifests of a branch, and leave out the entries of deleted files.

    Args:
        table: The table.
        arguments: What the caller asks for.
        execute: If false, nothing changes.
        view: The table as it was just listed, if it was.

    Raises:
        StorageError: A request failed before anything was committed.
        LeaseHeldError: Another run maintains the table.
    """
    try:
        target = opened(table, OPERATION, view, execute=execute)
        if target.base is None:
            return report_of(table, OPERATION, "nothing_to_do", None)
        if execute:
            return Execution(target, arguments).report()
        return _planned(target, target.base, arguments)
    except RefusedError as error:
        return refused(table, OPERATION, error)


def _planned(target: Opened, base: Base, arguments: CompactManifestArguments) -> RunReport:
    table, newest = target.table, base.root
    refusal = _refusal(base, arguments)
    if refusal is not None and arguments.unattended and refusal.code == MANIFEST_FORMAT:
        raise refusal  # the lists have that format, too
    lists = StrictMetadata(target.store, str(table.ref)).lists(newest.snapshot)
    metas = [meta for each in lists for meta in each.metas]
    report = report_of(table, OPERATION, "planned", None)
    commits = ManifestsReport(before=figures_of(metas), catalog=arguments.catalog.type)
    nothing = replace(report, status="nothing_to_do", commits=replace(commits, after=commits.before))
    if arguments.only_due:
        found = length_of(base, arguments, lists)
        commits = replace(commits, exceeds=found.exceeds)
        if found.exceeds is None:
            return replace(nothing, commits=replace(commits, after=commits.before, commits_left=found.commits_left))
    if refusal is not None and arguments.unattended:
        raise refusal  # the commit of a pass may be left to another process, which would only refuse it
    how = manifests_of({**base.schema.options, **arguments.options})
    if not is_worthwhile(metas, how.target_bytes):
        return nothing
    types, metadata = base.schema.partition_types, StrictMetadata(table.store, str(table.ref))
    check_feasible(table, lists, how, types)
    if arguments.unattended:  # nobody reads a plan of each hour
        return replace(report, commits=commits)
    compacted = Compaction(metadata, types, how, MetadataNames(str(uuid4())), lambda name, body: None).run(metas)
    commits = replace(report_on(metas, compacted, types, arguments.catalog.type), exceeds=commits.exceeds)
    if compacted.is_empty:
        return replace(report, status="nothing_to_do", commits=commits)
    warnings = () if refusal is None else (f"{NOT_EXECUTABLE}: {refusal}",)
    return replace(report_of(table, OPERATION, "planned", None), commits=commits, warnings=warnings)


def _refusal(base: Base, arguments: CompactManifestArguments) -> RefusedError | None:
    """Return why the table does not allow the commit, if it does not."""
    newest = base.root
    try:
        refuse_commit(base.schema, newest.snapshot, newest.body, arguments.catalog.type, "compact_manifest", True)
    except RefusedError as error:
        return error
    return None
