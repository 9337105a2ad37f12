"""What a pass says that compacts no data files: in one sentence, what a compaction would do, and what that is worth."""

from dataclasses import replace

from lakesweep.model.commits.compaction import BucketMerge, CompactionReport
from lakesweep.model.report import RunReport
from lakesweep.operations.compaction.rules.break_even import beside_spark
from lakesweep.runs.session import NOT_EXECUTABLE, Table


def suggested(table: Table, report: RunReport, *, hides: bool) -> RunReport:
    """Return the report of a look as such a pass shows it: with a sentence if a compaction is worth it.

    Args:
        table: One branch of a table.
        report: The report of the look.
        hides: Readers do not see level 0.
    """
    nothing = replace(report, status="nothing_to_do", refusal=None, warnings=(), commits=None)
    commits = report.commits
    refuses = report.refusal is not None or any(NOT_EXECUTABLE in warning for warning in report.warnings)
    if report.status != "planned" or refuses or not isinstance(commits, CompactionReport):
        return nothing
    sentence = _of_bins(commits) if commits.buckets is None else _of_buckets(commits, commits.buckets, hides)
    return replace(nothing, warnings=(f"table {table.ref}: {sentence}",))


def _of_bins(commits: CompactionReport) -> str:
    bins = sum(each.bins for each in commits.partitions)
    saved = commits.files - bins
    reads = f"so a scan opens {saved} files fewer" if saved > 0 else "without the rows that are deleted"
    return f"`lakesweep compact TABLE` would rewrite {_files(commits)} into about {bins}, {reads}"


def _of_buckets(commits: CompactionReport, buckets: tuple[BucketMerge, ...], hides: bool) -> str:
    rows, files = sum(each.level_0_rows for each in buckets), sum(each.level_0_files for each in buckets)
    hidden = f"{rows} rows in {files} files of level 0 are invisible: " if hides and files else ""
    return "; ".join([f"{hidden}`lakesweep compact TABLE` would merge {_files(commits)}", *beside_spark(commits)])


def _files(commits: CompactionReport) -> str:
    return f"{commits.files} of its {commits.all_files} data files ({commits.bytes} bytes)"
