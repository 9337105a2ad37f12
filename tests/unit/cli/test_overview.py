"""`lakesweep overview`: what a person and a program see, and the exit codes."""

import contextlib
import io
import json
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest

from lakesweep.cli.main import main
from lakesweep.cli.overviewed import overview_lines, shortened, usd
from lakesweep.model.overview import Bytes, Finding, Overview, Receipt, TableOverview
from lakesweep.operations.overview.rules.order import ORDERS, in_order
from lakesweep.operations.overview.rules.totals import by_month, totals_of
from tests.support.lakehouse import LONG, Lakehouse
from tests.support.s3_server import fresh_bucket, moto_endpoint, moto_store
from tests.support.table_builder import TableBuilder
from tests.support.terminal import terminal
from tests.unit.cli.command_line import Answer, call, write_table

RETENTION = {"snapshot.num-retained.min": "1", "snapshot.num-retained.max": "2"}


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lakehouse:
    found = Lakehouse(tmp_path)
    monkeypatch.setenv("LAKESWEEP_CONTROL", str(found.control))
    found.add("sales.db/orders", commits=6, options=RETENTION)
    found.add("sales.db/clients", options=RETENTION)
    return found


def show(*words: object) -> Answer:
    return call("overview", *words)


def test_the_document_and_the_text(lake: Lakehouse) -> None:
    document = show(lake.location, "--json").document
    assert [table["name"] for table in document["tables"]] == ["sales.db/orders", "sales.db/clients"]
    assert document["totals"]["tables"] == 2
    assert document["place"] == lake.location
    answer = show(lake.location)
    assert (answer.exit_code, answer.messages) == (0, "")
    lines = answer.printed.splitlines()
    assert " ".join(lines[0].split()) == "TABLE BYTES LIVE SNAPSHOTS OLDEST SMALL PASS USD SAVES FINDINGS"
    assert lines[1].startswith("sales.db/orders  ")
    assert re.search(r"^total +2 tables, .* <0.01 USD a month \(us-east-1, list prices of 20", answer.printed, re.M)
    assert re.search(r"^remembered 2 tables that did not change", answer.printed, re.M)


def test_the_page(lake: Lakehouse, tmp_path: Path) -> None:
    """It has every table, beside the text or the document, whose exit code stays."""
    lake.tables["sales.db/orders"].remove(lake.tables["sales.db/orders"].path("F6"))
    page = tmp_path / "lake.html"
    answer = show(lake.location, "--html", page, "--limit", 1, "--fail-on", "act")
    assert answer.exit_code == 6
    assert answer.printed.splitlines()[-1] == f"page       {page}, {page.stat().st_size / 1024:.1f} KiB"
    text = page.read_text(encoding="utf-8")
    assert all(f'["{name}",null,' in text for name in lake.tables)
    assert lake.location in text
    told = show(lake.location, "--html", page, "--json")
    assert told.document["totals"]["tables"] == 2
    assert told.sentences == [f"lakesweep: page {page}, {page.stat().st_size / 1024:.1f} KiB"]


def test_commands_of_findings_run(tmp_path: Path) -> None:
    """`show` takes no control location, so a command that names one would be refused when somebody copies it."""
    write_table(tmp_path / "lake" / "sales.db" / "orders", options={})
    policy = tmp_path / "policy.json"
    policy.write_text(json.dumps({"version": 1, "rules": [{"tables": "s3://other/"}]}))
    place = ("--control", tmp_path / "control", "--policy", policy)
    document = call("overview", tmp_path / "lake", *place, "--json").document
    commands = [shlex.split(found["command"]) for found in document["tables"][0]["findings"] if found["command"]]
    assert "show" in [words[1] for words in commands]
    for program, *words in commands:
        assert (program, call(*words).exit_code) == ("lakesweep", 0), words


def test_commands_of_findings_have_the_options_of_the_call(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKESWEEP_CONTROL")
    lake.tables["sales.db/orders"].remove(lake.tables["sales.db/orders"].path("F6"))
    document = show(lake.location, "--json", "--control", lake.control).document
    commands = [found["command"] for found in document["tables"][0]["findings"] if found["command"]]
    assert commands
    assert all(f"--control {lake.control}" in command for command in commands)


def test_runs_are_summed_by_month(lake: Lakehouse) -> None:
    """A run changes the table's lease, so the table is measured again."""
    assert show(lake.location, "--json").document["totals"]["receipts"] == []
    run = call("expire-snapshots", f"{lake.location}/sales.db/orders", "--execute", "--json").document
    document = show(lake.location, "--json").document
    rows = {each["name"]: each for each in document["tables"]}
    (receipt,) = rows["sales.db/orders"]["receipts"]
    assert rows["sales.db/clients"]["receipts"] == []
    assert (receipt["runs"], receipt["freed_bytes"]) == (1, run["outcome"]["bytes"])
    (total,) = document["totals"]["receipts"]
    assert (total["runs"], total["freed_bytes"], total["usd"]) == (1, receipt["freed_bytes"], receipt["usd"])
    assert re.search(r"^runs +20\d\d-\d\d: 1 run for ", show(lake.location).printed, re.M)
    (lease,) = lake.control.glob("tables/*orders*/lease.json")
    lease.write_text("{")
    broken = {each["name"]: each for each in show(lake.location, "--json").document["tables"]}
    assert broken["sales.db/orders"]["receipts"] is None


def test_a_table_with_a_finding_to_act_on_is_first(lake: Lakehouse) -> None:
    table = lake.tables["sales.db/clients"]
    table.remove(table.path("F3"))
    answer = show(lake.location)
    assert answer.exit_code == 0
    lines = answer.printed.splitlines()
    assert lines[1].startswith("sales.db/clients ")
    assert "1 act" in lines[1]
    assert any(line.startswith("act        sales.db/clients: ") for line in lines)
    see = next(line for line in lines if line.startswith("see "))
    assert call(*see.split()[2:]).exit_code == 6
    assert show(lake.location, "--fail-on", "act").exit_code == 6
    assert show(lake.location, "--sort", "name").printed.splitlines()[2].startswith("sales.db/orders ")


def test_fail_on_look_and_partial(lake: Lakehouse) -> None:
    lake.add("sales.db/free")  # it states no retention
    assert show(lake.location, "--fail-on", "act").exit_code == 0
    assert show(lake.location, "--fail-on", "look").exit_code == 6
    lake.tables["sales.db/orders"].corrupt("schema/schema-0")
    answer = show(lake.location, "--fail-on", "look")
    assert answer.exit_code == 4
    assert re.search(r"^sales.db/orders +-.*unreadable$", answer.printed, re.M)
    assert re.search(r"^unread .*schema-0", answer.printed, re.M)
    assert re.search(r"^failed +1 table could not be read", answer.printed, re.M)
    assert show(lake.location, "--json").document["totals"]["failed"] == 1


def test_lists(lake: Lakehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = tmp_path / "tables.txt"
    listed.write_bytes(f"# all\r\n\n{lake.location}/sales.db/orders\r\n{lake.location}/sales.db\n".encode())
    document = show("--tables", listed, "--json").document
    assert (document["place"], document["totals"]["tables"]) == (f"the list {listed}", 2)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(f"{lake.location}/sales.db/orders\n".encode())))
    document = show("--tables", "-", "--json").document
    assert (document["place"], document["totals"]["tables"]) == ("the list of standard input", 1)
    both = show(f"{lake.location}/sales.db/clients", "--tables", listed, "--json").document
    assert both["totals"]["tables"] == 2


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ((), "expected a PLACE or --tables FILE"),
        (
            ("/x", "--sort", "colour"),
            "--sort: expected urgency, saving, cost, bytes, small-files, snapshots, name, found",
        ),
        (("/x", "--fail-on", "all"), "--fail-on: expected act, look, found 'all'"),
        (("/x", "--limit", "0"), "--limit: expected a number from 1, found 0"),
        (("/x", "--processes", "0"), "--processes: expected a number from 1, found 0"),
        (("--tables", "/no/such/file"), "--tables: expected a file at /no/such/file"),
        (("",), "PLACE: expected a local path or s3://bucket/prefix, found nothing"),
    ],
)
def test_wrong_calls(lake: Lakehouse, words: tuple[str, ...], found: str) -> None:
    answer = show(*words)
    assert answer.exit_code == 2
    assert found in answer.messages


def test_no_table(lake: Lakehouse) -> None:
    answer = show(f"{lake.location}/nothing", "--json")
    assert (answer.exit_code, answer.document["error"]["code"]) == (3, "not_a_table")


def test_a_warehouse_on_s3(tmp_path: Path) -> None:
    """A name of nearly a thousand characters, a hostile one, and a bucket without control location."""
    bucket = fresh_bucket()
    hostile = "a'\"\u202e<b>"
    for name in ("x" * 900, hostile):
        TableBuilder(moto_store(f"lake/sales.db/{name}", bucket=bucket)).commit("+A")
    words = ("--endpoint-url", moto_endpoint(), "--region", "us-east-1")
    answer = show(f"s3://{bucket}/lake", "--json", *words)
    assert {table["name"] for table in answer.document["tables"]} == {f"sales.db/{'x' * 900}", f"sales.db/{hostile}"}
    assert answer.document["totals"]["failed"] == 0
    assert "no control location is known" in answer.messages
    text = show(f"s3://{bucket}/lake", *words)
    assert "\u202e" not in text.printed
    rows = [line for line in text.printed.splitlines() if line.startswith("sales.db")]
    assert len(rows) == 2
    assert all(len(line) <= 150 for line in rows)
    for _ in range(2):
        answer = show(f"s3://{bucket}/lake", "--json", *words, "--control", f"s3://{bucket}/ops")
    assert all(table["is_remembered"] for table in answer.document["tables"])
    assert answer.messages == ""


@pytest.mark.parametrize("columns", [80, 120, 200])
def test_terminals(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """Rows fit the terminal, whatever the names."""
    lake.add(f"sales.db/{LONG}")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("LAKESWEEP_PROGRESS", "0")
    monkeypatch.setenv("COLUMNS", str(columns))
    with terminal(columns) as screen, contextlib.redirect_stdout(screen.stream):
        assert main(["overview", lake.location]) == 0
        lines = screen.received().splitlines()
    rows = [line for line in lines if line.startswith(("TABLE", "sales.db"))]
    assert len(rows) == 4
    assert all(len(line) <= columns for line in rows)
    assert ("OLDEST" in rows[0]) == (columns > 110)
    assert (f"sales.db/{LONG}"[:20] + "..." in rows[-1]) or "..." in "".join(rows)


def document_of(*tables: TableOverview, **more: Any) -> dict[str, Any]:
    found = Overview("s3://lake", 10**12, "2026-11-21", "us-east-1", totals_of(tables, ("current",)), tables, **more)
    document: dict[str, Any] = json.loads(json.dumps(found.to_json()))
    return document


def test_equal_findings_are_one_line_and_the_limit_holds() -> None:
    found = Finding("retention_not_stated", "look", "no retention", "lakesweep show x")
    tables = [TableOverview(f"s3://lake/t{n}", f"t{n}", 1, findings=(found,)) for n in range(5)]
    tables += [TableOverview(f"s3://lake/p{n}", f"p{n}", 1, problem=f"p{n} is broken") for n in range(3)]
    lines = list(overview_lines(document_of(*tables, skipped=2), 2))
    assert "and 6 more tables; --limit shows more, --json all" in lines
    assert "look       t0, t1, t2 and 2 more tables: no retention" in lines
    assert "see        lakesweep show x" in lines
    assert [line for line in lines if line.startswith("unread")] == [
        "unread     p0 is broken",
        "unread     p1 is broken",
    ]
    assert "and 1 more table that could not be read; --limit shows more, --json all" in lines
    assert "skipped    2 folders without a table" in lines


def test_findings_of_one_kind() -> None:
    """What needs action is told of each table; of the rest, one line for each kind."""

    def found(number: int, severity: Any) -> Finding:
        return Finding("code", severity, f"{number} is wrong", f"mend {number}")

    def lines_of(severity: Any, *numbers: int) -> list[str]:
        tables = [TableOverview(f"t{n}", f"t{n}", 1, findings=(found(n, severity),)) for n in numbers]
        lines = list(overview_lines(document_of(*tables), 9))
        return [line for line in lines if line.startswith(("act", "look", "mend"))]

    assert lines_of("act", 1, 2) == [
        "act        t1: 1 is wrong",
        "mend       mend 1",
        "act        t2: 2 is wrong",
        "mend       mend 2",
    ]
    assert lines_of("look", 1, 2) == ["look       t1: 1 is wrong; the like of t2", "mend       mend 1"]
    several = TableOverview("t", "t", 1, findings=(found(1, "look"), found(2, "look")))
    assert "look       t: 1 is wrong; and 1 like it" in list(overview_lines(document_of(several), 9))


def test_receipts_and_versions_are_shown() -> None:
    receipt = Receipt("2026-11", 3, {"get": 10}, 0.5, 1 << 30, 0.023)
    table = TableOverview("t", "t", 1, objects=2, bytes=1 << 30, noncurrent_bytes=1 << 30, receipts=(receipt,))
    lines = list(overview_lines(document_of(table), 9))
    assert "runs       2026-11: 3 runs for 0.50 USD freed 1.0 GiB, 0.02 USD a month" in lines
    assert "versions   1.0 GiB of these are not current versions" in lines
    assert any(line.startswith("total      1 table, 2.0 GiB in 2 objects") for line in lines)


def test_sums_name_the_versions_that_are_unknown() -> None:
    """The sum over the others is no sum over all."""
    unknown = Finding("versions_not_counted", "look", "versions that are not current are not counted: denied")
    tables = [
        TableOverview("1", "a", 1, bytes=4, noncurrent_bytes=3),
        TableOverview("2", "b", 1, bytes=4, findings=(unknown,)),
    ]
    overview = Overview("lake", 1, "2026-11-21", "us-east-1", totals_of(tables, ()), tuple(tables))
    lines = list(overview_lines(overview.to_json(), 9))
    assert "unknown    versions of 1 table could not be counted, and no sum contains them" in lines
    assert not any(line.startswith("unknown") for line in overview_lines(document_of(tables[0]), 9))


def test_orders() -> None:
    act = (Finding("missing_files", "act", "x"),)
    tables = (
        TableOverview("1", "a", 1, usd_month=9.0, bytes=9, small_files=1),
        TableOverview("2", "b", 1, usd_month=1.0, saving_usd_month=1.0, bytes=8, small_files=7, snapshots=2),
        TableOverview("3", "c", 1, usd_month=2.0, saving_usd_month=2.0, bytes=7, small_files=None, snapshots=9),
        TableOverview("4", "d", 1, findings=act),
        TableOverview("5", "e", 1, problem="x"),
    )
    expected = {
        "urgency": "decba",
        "saving": "cbade",
        "cost": "acbde",
        "bytes": "abcde",
        "small-files": "bacde",
        "snapshots": "cbade",
        "name": "abcde",
    }
    assert {name: "".join(table.name for table in in_order(tables, name)) for name in ORDERS} == expected


def test_sums() -> None:
    one = TableOverview("1", "a", 1, objects=2, bytes=5, reasons=(Bytes("tags", 1, 2), Bytes("current", 1, 3)))
    two = TableOverview("2", "b", 1, objects=1, bytes=4, noncurrent_bytes=7, reasons=(Bytes("current", 1, 4),))
    bad = TableOverview("3", "c", 1, problem="x")
    found = totals_of((one, two, bad), ("current", "expired"))
    assert (found.tables, found.failed, found.objects, found.bytes, found.noncurrent_bytes) == (3, 1, 3, 9, 7)
    assert found.reasons == (Bytes("current", 2, 7), Bytes("tags", 1, 2))
    months = [Receipt(f"2025-{n:02}", 1, {"get": n}, 1.0, n, 0.1) for n in range(1, 13)] * 2
    summed = by_month([*months, Receipt("2024-12", 1, {}, 0, 0, 0)])
    assert len(summed) == 12
    assert summed[0] == Receipt("2025-12", 2, {"get": 24}, 2.0, 24, 0.2)


def test_amounts_and_names() -> None:
    assert [usd(0), usd(0.001), usd(0.005), usd(12.345)] == ["0.00", "<0.01", "0.01", "12.35"]
    assert shortened("sales.db/orders", 20) == "sales.db/orders"
    assert shortened("s" * 50 + "end", 24) == "s" * 7 + "..." + "s" * 11 + "end"
    assert shortened("a\u202eb", 24) == "a\\u202eb"


def test_progress_is_told_by_lines(lake: Lakehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKESWEEP_PROGRESS", "1")
    shutil.copytree(f"{lake.location}/sales.db/orders", f"{lake.location}/sales.db/copy")
    assert show(lake.location).exit_code == 0
