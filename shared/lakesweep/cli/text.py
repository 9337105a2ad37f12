"""Reports as text. The text is made from the document that `--json` prints, so both always agree."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from lakesweep.cli.commits import commit_lines
from lakesweep.cli.lost import lost_lines
from lakesweep.cli.repaired import hint_lines, repair_lines
from lakesweep.cli.width import is_too_narrow

Document = Mapping[str, Any]

FIRST_ACTIONS = 3
"""Actions of each kind that are shown."""
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


_SNAPSHOT_REASONS = ("retain_min", "consumer", "limit", "too_young", "commit_user", "fleet_policy")
"""Reasons to keep snapshots. Every other reason is about files, or is in `_KEPT`."""
_KEPT = {"changelog_retention": "changelog", "consumer_stays": "consumer"}
"""Reason -> what is kept for it."""
_BY_EXPIRY = frozenset({"expire-snapshots", "remove-orphan-files", "maintain", "tag-schedule"})
"""Operations whose reports say which snapshots expire, even if it is none."""
_WRITES_ONLY = frozenset({"create-tag", "replace-tag", "auto-tags", "create-branch", "repair-hints"})
"""Operations that delete nothing."""


def report_lines(
    document: Document, *, is_step: bool = False, actions: Iterable[Document] | None = None
) -> Iterator[str]:
    """Render the report of an operation, as `RunReport.to_json` returns it. If it has several steps, render each.

    Args:
        document: The report.
        is_step: Whether it is a step of a pass. Then kept tags are not shown.
        actions: What the plan deletes, if that is too much for the document. It is read once.
    """
    steps = document["steps"] or ()
    if len(steps) > 1 or document["branch"] is None or "places" in document.get("commits", ()):
        yield _headline(document)
        for step in steps:
            yield from report_lines(step, is_step=True)
        yield from _commits(document)
        return
    if _was_gone(document):
        yield from outcome_lines(document)
        return
    yield _headline(document)
    yield from _commits(document)
    for name, text in hint_lines(document.get("findings", {}).get("hints", ())):
        yield _field(name, text)
    yield from _lost(document)
    yield from _roots(document)
    yield from _deletes(document, document["actions"] if actions is None else actions)
    yield from _tags(document, is_step=is_step)
    if document["operation"] == "undo" and document["created"]:
        counts = Counter(created["kind"].replace("_", " ") for created in document["created"])
        yield _field("restore", ", ".join(f"{count} {kind}" for kind, count in counts.items()))
    for name, what in sorted(document.get("findings", {}).get("tags", {}).get("made", {}).items()):
        yield _field("tag", f"{name}: {what}")
    for created in document["created"][:FIRST_ACTIONS]:
        yield _field("write", created["path"])
    if len(document["created"]) > FIRST_ACTIONS:
        yield _field("write", f"and {len(document['created']) - FIRST_ACTIONS} more")
    if document["kept"]:
        yield _field("keep", ", ".join(_kept(document)))
    yield from _outcome(document)


def outcome_lines(document: Document) -> Iterator[str]:
    """Render only how a run ended, where its plan was printed before or was executed before."""
    yield _headline(document)
    yield from _outcome(document)


def _headline(document: Document) -> str:
    branch = "all branches" if document["branch"] is None else f"branch {document['branch']}"
    return f"{document['operation']} of {document['table']}, {branch}: {_status(document)}"


def _was_gone(document: Document) -> bool:
    """Tell whether a run found nothing left to delete, so that the numbers of its plan would mislead."""
    outcome = document["outcome"]
    return (
        outcome is not None
        and "restored" not in outcome
        and not outcome["deleted"]
        and not outcome["failed"]
        and (outcome["already_gone"] > 0 or document["status"] == "nothing_to_do")
    )


def _lost(document: Document) -> Iterator[str]:
    """Show first what a branch loses. If the plan is stale, none of it has happened."""
    if document["status"] == "stale":
        return
    findings = document.get("findings", {})
    words = {
        "time": exact_time((findings.get("target") or {}).get("time_ms")),
        "newly_orphaned": human_bytes((findings.get("newly_orphaned") or {}).get("bytes", 0)),
    }
    for name, text in lost_lines(findings, words):
        yield _field(name, text)


def _commits(document: Document) -> Iterator[str]:
    """Show what a run commits, and what that leaves behind."""
    commits = document.get("commits")
    if commits is None:
        return
    words = {"operation": document["operation"], "next_due": human_time(commits.get("next_due_ms"))}
    if "until_ms" in commits:
        words["time"] = human_time(commits["until_ms"])
    if "back" in commits:
        words["time"] = exact_time(commits["target"]["time_ms"])
    is_repair = not commits.keys().isdisjoint(("lost_files", "kept_vectors"))
    lines = repair_lines(commits, human_bytes, human_time) if is_repair else commit_lines(commits, words, human_bytes)
    for name, text in lines:
        yield _field(name, text) if name else f"  {text}"
    if document["outcome"] is None and document["run_id"] is not None:
        yield _field("run", document["run_id"])


def _roots(document: Document) -> Iterator[str]:
    snapshots = document["snapshots"]
    going = _going(snapshots.get("expired", ()), snapshots.get("due_later", 0))
    if snapshots.get("earliest") is None:
        return
    there = f"{snapshots['earliest']} to {snapshots['latest']}"
    if document["operation"] == "expire-changelogs":
        yield _field("snapshots", there)
        yield _field("changelogs", going)
    else:
        yield _field("snapshots", f"{there}, {going}" if document["operation"] in _BY_EXPIRY else there)


def _status(document: Document) -> str:
    return str(document["status"]).replace("_", " ")


def _kept(document: Document) -> Iterator[str]:
    """Render what is kept, files last. A stored plan has lost the order of the reasons, so they are sorted."""
    is_of_files = document["operation"] == "remove-orphan-files"

    def what(why: str) -> str:
        return "snapshot" if why in _SNAPSHOT_REASONS and not is_of_files else _KEPT.get(why, "file")

    sizes = document["kept_bytes"]
    for why, count in sorted(document["kept"].items(), key=lambda each: (what(each[0]) == "file", each[0])):
        size = f", {human_bytes(sizes[why])}" if sizes.get(why) else ""
        yield f"{counted(count, what(why))} ({why.replace('_', ' ')}{size})"


def _going(expired: Sequence[int], due_later: int) -> str:
    if not expired:
        return "all kept"
    which = str(expired[0]) if len(expired) == 1 else f"{expired[0]} to {expired[-1]}"
    more = f"; {due_later} more {'is' if due_later == 1 else 'are'} due, for later runs" if due_later else ""
    return f"{len(expired)} to expire ({which}){more}"


def _deletes(document: Document, actions: Iterable[Document]) -> Iterator[str]:
    delete = document["delete"]
    if not delete["count"]:
        return
    kinds: dict[str, _Kind] = defaultdict(_Kind)
    for action in actions:
        kinds[action["kind"]].add(action)
    unsized = sum(kind.unsized for kind in kinds.values())
    more = f" and {unsized} of unknown size" if unsized else ""
    yield _field("delete", f"{counted(delete['count'], 'object')}, {human_bytes(delete['bytes'])}{more}")
    if not kinds:  # other processes wrote the plan, and it is too large to show
        yield from (f"  {kind}: {count}" for kind, count in delete["by_kind"].items())
    for name, kind in kinds.items():
        size = f", {human_bytes(kind.bytes)}" if kind.unsized < kind.count else ""
        yield f"  {name}: {kind.count}{size}"
        yield from (f"    {path}: {reason}" for path, reason in kind.first)
        if kind.count > FIRST_ACTIONS:
            yield f"    and {kind.count - FIRST_ACTIONS} more"


@dataclass(slots=True)
class _Kind:
    """The deletions of one kind of object."""

    count: int = 0
    unsized: int = 0
    bytes: int = 0
    first: list[tuple[str, str]] = field(default_factory=list)

    def add(self, action: Document) -> None:
        self.count += 1
        self.unsized += action["size_bytes"] is None
        self.bytes += action["size_bytes"] or 0
        if self.count <= FIRST_ACTIONS:
            self.first.append((action["path"], action["reason"]))


def _tags(document: Document, *, is_step: bool) -> Iterator[str]:
    """Show for each tag why it is deleted or kept, if rules were applied."""
    tags = document.get("findings", {}).get("tags", {})
    for name, why in sorted(tags.get("going", {}).items()):
        yield _field("tag", f"{name}: delete ({why.replace('_', ' ')})")
    for name, reasons in () if is_step else sorted(tags.get("kept", {}).items()):
        yield _field("tag", f"{name}: keep ({', '.join(reasons).replace('_', ' ')})")


def _outcome(document: Document) -> Iterator[str]:
    outcome = document["outcome"]
    if outcome is None:
        return
    gone, kept = outcome["already_gone"], outcome["kept_by_recheck"]
    rest = f", {kept} kept by a recheck" if kept else ""
    if _was_gone(document):
        if gone:
            yield _field("gone", f"{counted(gone, 'object')} {'was' if gone == 1 else 'were'} gone already{rest}")
    elif document["operation"] not in _WRITES_ONLY and (document["operation"] != "undo" or document["delete"]["count"]):
        more = f", {gone} already gone" if gone else ""
        yield _field("deleted", f"{counted(outcome['deleted'], 'object')}, {human_bytes(outcome['bytes'])}{more}{rest}")
    if "restored" in outcome:
        yield _field("restored", counted(outcome["restored"], "object"))
    for failed in outcome["failed"][:FIRST_ACTIONS]:
        yield _field("failed", f"{failed['path']}: {failed['code']}")
    if len(outcome["failed"]) > FIRST_ACTIONS:
        yield _field("failed", f"and {len(outcome['failed']) - FIRST_ACTIONS} more")
    if document["run_id"] is not None:
        yield _field("run", document["run_id"])


def next_line(command: str) -> str:
    """Render the next command."""
    return _field("next", command)


def _field(name: str, text: str) -> str:
    return f"{name:<10} {text}"


def fields(pairs: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Render names and values, with all names in one column."""
    found = list(pairs)
    width = max((len(name) for name, _ in found), default=0)
    for name, text in found:
        yield f"{name:<{width}}  {text}".rstrip()


def columns(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    """Render rows below a head; `None` is a dash. Each column is as wide as its widest text.

    On a narrow terminal where the rows do not fit, each row is a block of lines instead.
    """
    table = [tuple(head), *(tuple("-" if value is None else str(value) for value in row) for row in rows)]
    widths = [max(map(len, texts)) for texts in zip(*table, strict=True)]
    if is_too_narrow(sum(widths) + 2 * len(widths) - 2, sys.stdout):
        for row in table[1:]:
            yield from fields(zip(table[0], row, strict=True))
            yield ""
        return
    for row in table:
        yield "  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip()


def counted(count: int, what: str) -> str:
    """Return a number with its noun: `1 file`, `2 files`."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def human_bytes(size: int) -> str:
    """Return a size in the unit that makes it short, in powers of 1024."""
    if size < 1024:
        return f"{size} B"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    return f"{size / 1024**power:.1f} {_UNITS[power - 1]}"


def human_span(span_ms: int) -> str:
    """Return a duration in words. The function is imported only now, so that `--help` stays quick."""
    from lakesweep.runs.parameters.times import say_span

    return say_span(span_ms)


def exact_time(epoch_ms: int | None) -> str:
    """Return the time of a version in UTC with milliseconds. A time without them would be before the version."""
    text = human_time(epoch_ms)
    return f"{text[:-1]}.{epoch_ms % 1000:03}Z" if epoch_ms is not None and text.endswith("Z") else text


def human_time(epoch_ms: int | None) -> str:
    """Return a time in UTC; `-` for none; the bare number if no calendar date has it."""
    if epoch_ms is None:
        return "-"
    try:
        return datetime.fromtimestamp(epoch_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
    except (ValueError, OverflowError, OSError):
        return f"{epoch_ms} ms"
