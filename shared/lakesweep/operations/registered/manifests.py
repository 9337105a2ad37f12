"""Run the operation that compacts manifests."""

from collections.abc import Mapping

from lakesweep.model.report import RunReport
from lakesweep.operations.manifests.arguments import CompactManifestArguments
from lakesweep.operations.manifests.compact_manifest import compact_manifest
from lakesweep.operations.registered.planned import Run
from lakesweep.runs.committing.catalog import catalog_of
from lakesweep.runs.execution import require_area
from lakesweep.runs.parameters import manifests as given
from lakesweep.runs.parameters.parameter import OPTIONS, Call
from lakesweep.runs.session import Table


def _compact_manifest(table: Table, call: Call, execute: bool) -> RunReport:
    if execute:
        require_area(table)
    arguments = CompactManifestArguments(catalog_of(table, call), call[OPTIONS])
    return compact_manifest(table, arguments, execute=execute)


RUNS: Mapping[str, Run] = {given.COMPACT_MANIFEST.name: _compact_manifest}
