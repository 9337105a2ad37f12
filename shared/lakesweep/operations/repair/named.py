"""Which roots need what is lost. They stay incomplete: a repair adds a snapshot, and changes none."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

from lakesweep.errors import FormatError, RefusedError
from lakesweep.model.commits.repair import RepairReport
from lakesweep.model.commits.root_words import roots_in_words
from lakesweep.model.roots import Root, base_name
from lakesweep.runs.view import TableView
from lakesweep.table.metadata import MetadataReader
from lakesweep.table.reach.holders import Holders


def with_names(view: TableView, report: RepairReport) -> tuple[RepairReport, tuple[str, ...]]:
    """Return a report that names the roots which need what is lost, and warnings.

    Args:
        view: The table.
        report: What the newest snapshot has lost.

    Raises:
        StorageError: A request failed.
    """
    paths = [*(file.path for file in report.files), *(manifest.path for manifest in report.manifests)]
    names = frozenset(map(base_name, paths))
    if not names:
        return report, ()
    try:
        roots = view.other_documents(()).roots
    except (RefusedError, FormatError) as error:
        return report, (f"which roots need what is lost is not known: {error}",)
    holders = Holders(MetadataReader(view.table.store), roots)
    needing = _files(holders, names) if report.files else _manifests(holders, names)
    found = {name: _in_words(holders, roots) for name, roots in needing.items()}
    return replace(
        report,
        files=tuple(replace(each, named_by=found.get(base_name(each.path), ())) for each in report.files),
        manifests=tuple(replace(each, named_by=found.get(base_name(each.path), ())) for each in report.manifests),
    ), tuple(f"{gap.root.ref} may need it as well: {gap.content.problem}" for gap in holders.gaps if report.files)


def _files(holders: Holders, names: Collection[str]) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for mention in holders.mentions(lambda entry: entry.file_name in names):
        if mention.needed_by and mention.entry.is_add:
            name = mention.entry.file_name
            found[name] = found.get(name, 0) | mention.needed_by
    return found


def _manifests(holders: Holders, names: Collection[str]) -> Mapping[str, int]:
    return {name: each.in_state for name, each in holders.manifests() if name in names}


def _in_words(holders: Holders, roots: int) -> tuple[str, ...]:
    refs: Iterable[Root] = holders.roots_in(roots)
    return tuple(roots_in_words(root.ref for root in refs))
