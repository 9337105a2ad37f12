"""An overview as text: a row for each table, what is wrong with the command that mends it, and the sums."""

import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from lakesweep.api.outcome import PARTIAL
from lakesweep.cli.inspect.health import FINDINGS
from lakesweep.cli.terminal.output import printable
from lakesweep.cli.text import columns, counted, human_bytes, human_time

Document = Mapping[str, Any]

_WIDE = 110
_PIPED = 150
"""Columns of output that no terminal shows."""
_LEAST_NAME = 24
_LONG_NAME = 60
_NAMED = 3
"""This many tables with the same finding are named."""
_SHOWS = frozenset({"check", "doctor", "explain", "plans", "runs", "show"})
"""Commands that change nothing."""
_NOT_COUNTED = "versions_not_counted"
_DAY_MS = 24 * 3600 * 1000
_NARROW_HEAD = ("TABLE", "BYTES", "SNAPSHOTS", "SMALL", "USD", "SAVES", "FINDINGS")
_WIDE_HEAD = ("TABLE", "BYTES", "LIVE", "SNAPSHOTS", "OLDEST", "SMALL", "PASS", "USD", "SAVES", "FINDINGS")


def exit_code_of(document: Document, fail_on: str | None) -> int:
    """Return the exit code: a table that could not be read counts more than findings."""
    if document["totals"]["failed"]:
        return PARTIAL
    severities = {"act": ("act",), "look": ("act", "look")}.get(fail_on or "", ())
    found = any(each["severity"] in severities for table in document["tables"] for each in table["findings"])
    return FINDINGS if found else 0


def overview_lines(document: Document, limit: int) -> Iterator[str]:
    """Render an overview.

    Args:
        document: As `Overview.to_json` returns it.
        limit: The most tables, and the most findings, that are shown.
    """
    yield from _rows(document, limit)
    yield from _findings(document["tables"], limit)
    yield from _sums(document)


def _rows(document: Document, limit: int) -> Iterator[str]:
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _PIPED
    head, row_of = (_WIDE_HEAD, _wide) if width >= _WIDE else (_NARROW_HEAD, _narrow)
    rows = [tuple(row_of(table, document["measured_ms"])) for table in document["tables"][:limit]]
    others = sum(2 + max(map(len, texts)) for texts in list(zip(head, *rows, strict=True))[1:])
    names = max(width - others, _LEAST_NAME)
    yield from columns(head, ((shortened(name, names), *cells) for name, *cells in rows))
    if (more := len(document["tables"]) - limit) > 0:
        yield f"and {counted(more, 'more table')}; --limit shows more, --json all"


def _narrow(table: Document, now_ms: int) -> Sequence[str]:
    if table["problem"] is not None:
        return (table["name"], "-", "-", "-", "-", "-", "unreadable")
    return (
        table["name"],
        human_bytes(table["bytes"] + (table["noncurrent_bytes"] or 0)),
        str(table["snapshots"]),
        _or_dash(table["small_files"], str),
        usd(table["usd_month"]),
        usd(table["saving_usd_month"]),
        _found(table["findings"]),
    )


def _wide(table: Document, now_ms: int) -> Sequence[str]:
    if table["problem"] is not None:
        return (table["name"], *("-",) * 8, "unreadable")
    name, size, snapshots, small, cost, saves, found = _narrow(table, now_ms)
    last = table["last_pass"]
    return (
        name,
        size,
        _or_dash(table["live_bytes"], human_bytes),
        snapshots,
        _age(table["oldest_root_ms"], now_ms),
        small,
        _age(None if last is None else last["at_ms"], now_ms),
        cost,
        saves,
        found,
    )


def _or_dash(value: Any, shown: Callable[[Any], str]) -> str:
    return "-" if value is None else shown(value)


def _found(findings: Sequence[Document]) -> str:
    counts = {severity: sum(each["severity"] == severity for each in findings) for severity in ("act", "look")}
    return ", ".join(f"{count} {severity}" for severity, count in counts.items() if count) or "-"


def _age(time_ms: int | None, now_ms: int) -> str:
    if time_ms is None:
        return "-"
    days, rest = divmod(max(now_ms - time_ms, 0), _DAY_MS)
    return f"{days} d" if days else f"{rest // (3600 * 1000)} h"


def _findings(tables: Sequence[Document], limit: int) -> Iterator[str]:
    """Render what is wrong, first what cannot be read, then what needs action. Equal sentences are one line."""
    problems = [table["problem"] for table in tables if table["problem"] is not None]  # a sentence names its table
    yield from (f"{'unread':<10} {problem}" for problem in problems[:limit])
    if (more_problems := len(problems) - limit) > 0:
        yield f"and {counted(more_problems, 'more table')} that could not be read; --limit shows more, --json all"
    groups: dict[tuple[str, str], list[tuple[str, Document]]] = {}
    for severity in ("act", "look"):
        for table in tables:
            for found in table["findings"]:
                if found["severity"] == severity:  # each one to act on is told, of the others each kind
                    kind = found["says" if severity == "act" else "code"]
                    groups.setdefault((severity, kind), []).append((table["name"], found))
    for (severity, _), group in islice(groups.items(), limit):
        yield from _group(severity, group)
    if (more_groups := len(groups) - limit) > 0:
        yield f"and {counted(more_groups, 'more finding')}; --limit shows more, --json all"


def _group(severity: str, group: Sequence[tuple[str, Document]]) -> Iterator[str]:
    """Render equal findings of several tables, or findings of one kind: then the first, and where the others are."""
    (_, first), *others = group
    tables = list(dict.fromkeys(shortened(name, _LONG_NAME) for name, _ in group))
    if all(found["says"] == first["says"] for _, found in others):
        yield f"{severity:<10} {_some(tables)}: {first['says']}"
    else:
        also = f"; the like of {_some(tables[1:])}" if tables[1:] else f"; and {len(others)} like it"
        yield f"{severity:<10} {tables[0]}: {first['says']}{also}"
    if first["command"] is not None:
        yield f"{_label(first['command']):<10} {first['command']}"


def _label(command: str) -> str:
    """Return the word before a command: most mend something, the others show more."""
    return "see" if command.split()[1:2] and command.split()[1] in _SHOWS else "mend"


def _some(names: Sequence[str]) -> str:
    more = f" and {counted(len(names) - _NAMED, 'more table')}" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _sums(document: Document) -> Iterator[str]:
    totals = document["totals"]
    paid = human_bytes(totals["bytes"] + totals["noncurrent_bytes"])
    read = counted(totals["tables"] - totals["failed"], "table")
    yield (
        f"{'total':<10} {read}, {paid} in {counted(totals['objects'], 'object')}, {usd(totals['usd_month'])} USD "
        f"a month ({document['region']}, list prices of {document['prices_date']})"
    )
    if totals["failed"]:
        yield f"{'failed':<10} {counted(totals['failed'], 'table')} could not be read, and no sum contains them"
    if document["skipped"]:
        yield f"{'skipped':<10} {counted(document['skipped'], 'folder')} without a table"
    if totals["reasons"]:
        by_size = sorted(totals["reasons"], key=lambda each: -each["bytes"])
        yield f"{'bytes':<10} {', '.join(_reason(each) for each in by_size if each['bytes'])}"
    if totals["noncurrent_bytes"]:
        yield f"{'versions':<10} {human_bytes(totals['noncurrent_bytes'])} of these are not current versions"
    if unknown := sum(any(each["code"] == _NOT_COUNTED for each in table["findings"]) for table in document["tables"]):
        yield f"{'unknown':<10} versions of {counted(unknown, 'table')} could not be counted, and no sum contains them"
    yield (
        f"{'saves':<10} passes and scans for orphan files would free {human_bytes(totals['saving_bytes'])}, "
        f"{usd(totals['saving_usd_month'])} USD a month"
    )
    for receipt in totals["receipts"][:2]:
        yield (
            f"{'runs':<10} {receipt['month']}: {counted(receipt['runs'], 'run')} for {usd(receipt['usd'])} USD freed "
            f"{human_bytes(receipt['freed_bytes'])}, {usd(receipt['freed_usd_month'])} USD a month{_gaps(receipt)}"
        )
    remembered = [table["measured_ms"] for table in document["tables"] if table["is_remembered"]]
    if remembered:
        yield (
            f"{'remembered':<10} {counted(len(remembered), 'table')} that did not change, measured since "
            f"{human_time(min(remembered))}; --fresh measures again"
        )


def _gaps(receipt: Document) -> str:
    """Say what a sum of receipts lacks."""
    since = "" if receipt["since_ms"] is None else f"; of some tables only since {human_time(receipt['since_ms'])}"
    return since + (f"; {counted(receipt['unknown'], 'run')} not wholly known" if receipt["unknown"] else "")


def _reason(share: Document) -> str:
    return f"{share['reason'].replace('_', ' ')} {human_bytes(share['bytes'])}"


def usd(amount: float) -> str:
    """Return an amount of money with two decimals. An amount that they do not show is `<0.01`."""
    return "<0.01" if 0 < amount < 0.005 else f"{amount:.2f}"


def shortened(name: str, width: int) -> str:
    """Return a name that fits, without control characters, and without its middle if need be."""
    name = printable(name)
    if len(name) <= width:
        return name
    end = (width - 3) * 2 // 3
    return f"{name[: width - 3 - end]}...{name[-end:]}"
