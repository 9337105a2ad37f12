"""`lakesweep simulate`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from lakesweep.cli.command import option_of, reads
from lakesweep.cli.options import Place, option
from lakesweep.cli.page import Html, page_file, paged
from lakesweep.cli.text import columns, counted, human_bytes, human_time
from lakesweep.runs.parameters.signatures import (
    OLDER_THAN,
    PROTECT_COMMIT_USER,
    RETAIN_MAX,
    RETAIN_MIN,
    RETAINED,
)

_BAR = 40
"""The longest bar of the chart, in characters."""
_ROWS = 12
"""The chart has at most this many bars."""
_TABLES = 20
"""This many tables are printed as text."""
_READERS = 20
"""This many lines about readers are printed as text."""
_OUTCOMES = {
    "lost": "loses its snapshot {snapshot_id}",
    "holds_back": "holds back {held} from snapshot {snapshot_id} on",
    "protected": "is protected, which holds back {held} from snapshot {snapshot_id} on",
}


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """The policies to simulate, as typed."""

    policy_case: Annotated[
        list[str] | None,
        option(
            "--policy-case",
            "A policy to simulate, such as 'time-retained=3 d, retain-max=100, keep-daily=7'; repeatable.",
            "RULES",
        ),
    ] = None
    retain_max: Annotated[str | None, option_of(RETAIN_MAX)] = None
    retain_min: Annotated[str | None, option_of(RETAIN_MIN)] = None
    older_than: Annotated[str | None, option_of(OLDER_THAN)] = None
    time_retained: Annotated[str | None, option_of(RETAINED)] = None
    protect_commit_user: Annotated[list[str] | None, option_of(PROTECT_COMMIT_USER)] = None
    tag_rules: Annotated[
        str | None,
        option(
            "--tag-rules",
            "Calendar rules for tags, such as 'daily=7, weekly=4, pattern=20*': the --keep options of expire-tags.",
            "RULES",
        ),
    ] = None


@reads(
    "lakesweep simulate s3://lake/sales.db/orders",
    "lakesweep simulate /data/orders --time-retained '3 d' --retain-max 100",
    "lakesweep simulate /data/orders --policy-case 'time-retained=3 d' --policy-case 'retain-max=20, keep-daily=7'",
    "lakesweep simulate s3://lake --days 30 --json",
    "lakesweep simulate s3://lake/sales.db/orders --html orders.html",
    place=("branch", "policy", "control"),
    more=PolicyOptions,
)
def simulate(
    place: Place,
    options: PolicyOptions,
    days: Annotated[
        int | None, typer.Option("--days", metavar="N", min=1, help="Replay the commits of the last N days, too.")
    ] = None,
    html: Html = None,
) -> int:
    """Show what a table would keep under other rules. TABLE may also be a database or a warehouse.

    For each policy: snapshots, tags, files, bytes and their price, without the limit of one run; how far back time
    travel reaches; which consumers hold snapshots back, and which streaming writers lose their last snapshot. The first
    policy is the present one: the table's options, and the fleet policy. --retain-max and the like form one policy
    more, --policy-case others; without any, some ages are shown. What is not stated is as the table says. Then bytes by
    the age that is kept. Changes nothing. Exit code 4: some tables could not be simulated.
    """
    from lakesweep.cli.answer import answer_document
    from lakesweep.operations.simulation.many import simulate as simulate_place
    from lakesweep.operations.simulation.policies import policies_of
    from lakesweep.runs.session import Table

    def read(opened: Table) -> Mapping[str, object]:
        plain = {
            each.name: getattr(options, each.name)
            for each in (RETAIN_MAX, RETAIN_MIN, OLDER_THAN, RETAINED, PROTECT_COMMIT_USER)
        }
        policies = policies_of(options.policy_case or (), plain, options.tag_rules)
        return simulate_place(opened, policies, days).to_json()

    def page(document: Mapping[str, Any], text: Sequence[str]) -> str:
        from lakesweep.pages.simulation import simulation_page

        return simulation_page(document)

    written = paged(page_file(html, page), read, _lines, as_json=place.as_json)
    return answer_document(place, *written, lambda document: bool(document["failed"]))


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    now, tables = document["now"], document["tables"]
    if tables and document["failed"] == len(tables):
        yield f"{document['place']}: {counted(len(tables), 'table')}, and none of them could be simulated"
        yield from _by_table(document)
        return
    only = tables[0] if len(tables) == 1 and not document["failed"] else None
    without = f" ({document['failed']} of them could not be simulated, and no sum has it)" if document["failed"] else ""
    what = f"{document['place']}: " if only else f"{document['place']}: {counted(len(tables), 'table')}{without}, "
    yield (
        f"{what}{counted(now['snapshots'], 'snapshot')}, {counted(now['tags'], 'tag')}, {human_bytes(now['bytes'])}, "
        f"{_usd(now['usd_month'])} USD a month"
    )
    if only and only["history_begins_ms"] is not None:
        yield f"history begins {human_time(only['history_begins_ms'])}; what was before is unknown"
    yield from columns(*_cases(document, only))
    if only:
        yield from _readers(only["cases"])
    else:
        yield ""
        yield from _by_table(document)
    yield from _chart(document["curve"])


def _cases(document: Mapping[str, Any], only: Mapping[str, Any] | None) -> tuple[Sequence[str], list[tuple[Any, ...]]]:
    head = ["POLICY", "SNAPSHOTS", "TAGS", "FILES", "BYTES", "USD A MONTH", "DELETES", "LOST"]
    head += ["REACHES BACK TO"] if only else []
    head += ["PEAK", "AVERAGE"] if document["days"] is not None else []
    rows: list[tuple[Any, ...]] = []
    for number, total in enumerate(document["cases"]):
        kept = total["kept"]
        row = [total["name"], kept["snapshots"], kept["tags"], kept["data_files"] + kept["metadata_files"]]
        row += [human_bytes(kept["bytes"]), _usd(kept["usd_month"]), human_bytes(total["deleted"]["bytes"])]
        row += [total["lost_readers"]]
        if only:
            row.append(human_time(only["cases"][number]["reaches_ms"]))
        if document["days"] is not None:
            row += [
                None if total[each] is None else human_bytes(total[each]) for each in ("peak_bytes", "average_bytes")
            ]
        rows.append(tuple(row))
    return head, rows


def _readers(cases: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Say once of each reader what some policies do to it."""
    found: dict[str, list[str]] = {}
    for case in cases:
        for each in case["readers"]:
            if each["outcome"] in _OUTCOMES:
                held = f"{counted(each['snapshots'], 'snapshot')} ({human_bytes(each['bytes'])})"
                says = _OUTCOMES[each["outcome"]].format(held=held, snapshot_id=each["snapshot_id"])
                found.setdefault(f"{each['kind'].replace('_', ' ')} {each['name']} {says}", []).append(case["name"])
    for line, names in list(found.items())[:_READERS]:
        yield f"{line}: {', '.join(names)}"
    if len(found) > _READERS:
        yield f"and {len(found) - _READERS} more such lines (--json shows them)"


def _by_table(document: Mapping[str, Any]) -> Iterator[str]:
    names = [case["name"] for case in document["cases"]]
    rows = []
    for each in document["tables"][:_TABLES]:
        by_name = {case["name"]: human_bytes(case["kept"]["bytes"]) for case in each["cases"]}
        now = "failed" if each["problem"] is not None else human_bytes(each["now"]["bytes"])
        rows.append((each["name"], now, *(by_name.get(name) for name in names)))
    yield from columns(("TABLE", "NOW", *(name.upper() for name in names)), rows)
    if (more := len(document["tables"]) - _TABLES) > 0:
        yield f"and {more} more (--json shows them)"


def _chart(curve: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Draw bytes by the age that is kept. Characters that standard output cannot show are replaced by plain ones."""
    if len(curve) < 2:
        return
    from lakesweep.operations.simulation.rules.thinning import thinned_steps

    points = thinned_steps(curve, lambda point: int(point["bytes"]), _ROWS)
    most = max(point["bytes"] for point in points)
    full = _shown("\u2588", "#")
    yield ""
    rows = (
        (_age(point["age_ms"]), full * round(_BAR * point["bytes"] / max(most, 1)) or "|", human_bytes(point["bytes"]))
        for point in points
    )
    yield from columns(("AGE KEPT", "BYTES, WITHOUT A MAXIMUM COUNT", ""), rows)


def _shown(character: str, plain: str) -> str:
    try:
        character.encode(getattr(sys.stdout, "encoding", None) or "ascii")
    except UnicodeEncodeError:
        return plain
    return character


def _age(age_ms: int) -> str:
    """Return an age in the unit that makes it short."""
    for unit, length_ms in (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if age_ms >= length_ms:
            return f"{age_ms / length_ms:.1f} {unit}"
    return f"{age_ms} ms"


def _usd(amount: float) -> str:
    return f"{amount:.2f}" if amount >= 0.005 or not amount else "<0.01"
