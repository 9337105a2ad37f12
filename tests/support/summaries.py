"""What a session prints in the end of what its tests recorded, from whichever process ran them.

The hooks of a folder's own `conftest.py` are not known to the process that prints, when the tests run in others.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest


def recorded(reporter: pytest.TerminalReporter, name: str, *outcomes: str) -> Iterator[tuple[str, Any]]:
    """Yield what tests recorded under a name, with the test's own name."""
    for outcome in outcomes:
        for report in reporter.getreports(outcome):
            for key, value in getattr(report, "user_properties", ()):
                if key == name and report.when == "call":
                    yield report.nodeid.rpartition("::")[2], value


def calls_broken(reporter: pytest.TerminalReporter) -> None:
    """Print a line for every test that broke calls."""
    lines = [f"{test}: {value}" for test, value in recorded(reporter, "calls", "passed")]
    if lines:
        reporter.section("storage calls broken")
        for line in lines:
            reporter.write_line(line)


def system_measured(reporter: pytest.TerminalReporter) -> None:
    """Print what tests of the running system measured."""
    lines = [str(value) for _, value in recorded(reporter, "system", "passed", "failed")]
    if lines:
        reporter.section("the running system")
        for line in lines:
            reporter.write_line(line)


def pages_opened(reporter: pytest.TerminalReporter) -> None:
    """Print how quickly Chromium opened large pages."""
    lines = [str(value) for _, value in recorded(reporter, "pages", "passed", "failed")]
    if lines:
        reporter.section("pages in Chromium")
        for line in lines:
            reporter.write_line(line)


def tables_compared(reporter: pytest.TerminalReporter) -> None:
    """Say what was compared: a green run over empty tables would prove nothing."""
    verdicts = [value for _, value in recorded(reporter, "verdict", "passed", "failed")]
    if not verdicts:
        return
    from tests.differential.compare import RULES

    facts = sum((Counter(verdict["facts"]) for verdict in verdicts), Counter[str]())
    explained = sum((Counter(verdict["explained"]) for verdict in verdicts), Counter[str]())
    seconds = sum(verdict["seconds"] for verdict in verdicts)
    reporter.section("differential")
    reporter.write_line(
        f"{facts['histories']} histories from seed {min(verdict['seed'] for verdict in verdicts)} on, {seconds:.0f} s: "
        f"{facts['files']} files compared, {facts['deleted by the engine']} deleted by the engine, "
        f"{facts['deleted by ours']} by ours, {sum(verdict['problems'] > 0 for verdict in verdicts)} with problems"
    )
    for rule, count in sorted(explained.items()):
        reporter.write_line(f"  {count} differences by {rule}: {RULES[rule].sentence}")
    features = (
        f"{name} {count}"
        for name, count in sorted(facts.items())
        if count <= facts["histories"] and name != "histories"
    )
    reporter.write_line("  histories with " + ", ".join(features))


def orphans_compared(reporter: pytest.TerminalReporter) -> None:
    """Say how the two cleaners differed, and how many files that was about."""
    verdicts = [value for _, value in recorded(reporter, "orphans", "passed", "failed")]
    if not verdicts:
        return
    from tests.support.orphan_differences import RULES

    counts = sum((Counter({k: v for k, v in each.items() if isinstance(v, int)}) for each in verdicts), Counter[str]())
    reporter.section("orphan files")
    reporter.write_line(
        f"{len(verdicts)} tables from seed {min(each['seed'] for each in verdicts)} on, "
        f"{sum(each['seconds'] for each in verdicts):.0f} s: {counts['files']} files, {counts['planted']} of them "
        f"planted, {counts['engine']} deleted by the engine, {counts['ours']} by ours; the engine stopped at "
        f"{counts['stopped']} tables, ours refused {counts['refused']}; "
        f"{sum(each['problems'] > 0 for each in verdicts)} with problems"
    )
    for rule, count in sorted(sum((Counter(each["rules"]) for each in verdicts), Counter[str]()).items()):
        reporter.write_line(f"  {count} differences by {rule}: {RULES[rule]}")


def tags_compared(reporter: pytest.TerminalReporter) -> None:
    """Say what was done to tags by both, and what differed."""
    verdicts = [value for _, value in recorded(reporter, "tags", "passed", "failed")]
    if not verdicts:
        return
    from tests.differential.tag_case import RULES

    facts = sum((Counter(verdict["facts"]) for verdict in verdicts), Counter[str]())
    explained = sum((Counter(verdict["explained"]) for verdict in verdicts), Counter[str]())
    reporter.section("differential: tags")
    reporter.write_line(
        f"{len(verdicts)} histories from seed {min(verdict['seed'] for verdict in verdicts)} on: "
        f"{facts['judged']} steps judged, {facts['tags made']} tags made, "
        f"{facts['tags gone']} gone with {facts['data files gone']} data files, {facts['roots read']} roots read"
    )
    for rule, count in sorted(explained.items()):
        reporter.write_line(f"  {count} differences by {rule}: {RULES[rule]}")


def branches_compared(reporter: pytest.TerminalReporter) -> None:
    """Say what was done to branches and pasts by both, and what differed."""
    verdicts = [value for _, value in recorded(reporter, "branches", "passed", "failed")]
    if not verdicts:
        return
    from tests.differential.branch_case import MOVES, RULES

    facts = sum((Counter(verdict["facts"]) for verdict in verdicts), Counter[str]())
    explained = sum((Counter(verdict["explained"]) for verdict in verdicts), Counter[str]())
    moves = ", ".join(f"{facts[name]} {name}" for name in (*MOVES, "create-branch", "delete-branch"))
    reporter.section("differential: branches")
    reporter.write_line(
        f"{len(verdicts)} histories from seed {min(verdict['seed'] for verdict in verdicts)} on: "
        f"{facts['judged']} steps judged ({moves}), {facts['refused by both']} refused by both, "
        f"{facts['commits on what ours moved']} commits of the engine right after ours moved a branch, "
        f"{facts['roots read']} roots read, {facts['roots of branches read']} of them of other branches"
    )
    for rule, count in sorted(explained.items()):
        reporter.write_line(f"  {count} differences by {rule}: {RULES[rule]}")


def commits_compared(reporter: pytest.TerminalReporter) -> None:
    """Say what was dropped, who read what was left, and what was committed on top."""
    verdicts = [value for _, value in recorded(reporter, "commits", "passed", "failed")]
    if not verdicts:
        return
    from tests.differential.commit_case import ACTS
    from tests.differential.commit_differences import RULES

    facts = sum((Counter(verdict["facts"]) for verdict in verdicts), Counter[str]())
    explained = sum((Counter(verdict["explained"]) for verdict in verdicts), Counter[str]())
    acts = ", ".join(f"{facts[name]} {name}" for name in ACTS)
    others = ", ".join(
        f"{facts[f'read by {name}']} by {name} ({facts[f'not readable by {name} at all']} not readable)"
        for name in ("pypaimon", "rust")
    )
    reporter.section("differential: commits")
    reporter.write_line(
        f"{len(verdicts)} histories from seed {min(verdict['seed'] for verdict in verdicts)} on: {acts}; "
        f"{facts['partitions gone']} partitions gone; {facts['steps on top']} steps of the engine on top; "
        f"{facts['filtered scans']} filters compared; read {others}; "
        f"{sum(verdict['problems'] > 0 for verdict in verdicts)} with problems"
    )
    for rule, count in sorted(explained.items()):
        reporter.write_line(f"  {count} differences by {rule}: {RULES[rule]}")


def rollbacks_compared(reporter: pytest.TerminalReporter) -> None:
    """Say what came back, and what the engine did to it."""
    verdicts = [value for _, value in recorded(reporter, "as latest", "passed", "failed")]
    if not verdicts:
        return
    facts = sum((Counter(verdict["facts"]) for verdict in verdicts), Counter[str]())
    refused = ", ".join(f"{count} {name}" for name, count in sorted(facts.items()) if name.startswith("refused"))
    reporter.section("differential: rollbacks as latest")
    reporter.write_line(
        f"{len(verdicts)} histories from seed {min(verdict['seed'] for verdict in verdicts)} on: "
        f"{facts['rollback done']} rollbacks, {facts['rollback nothing_to_do']} with nothing to do, {refused}; "
        f"{facts['files back']} files and {facts['index back']} indexes back, {facts['files gone']} files gone; "
        f"{facts['expiries by the engine']} expiries and {facts['tags deleted by the engine']} tags deleted by the "
        f"engine, {facts['ours: expire-snapshots']} and {facts['ours: delete-tag']} by ours; {facts['versions read']} "
        f"versions read; {sum(verdict['problems'] > 0 for verdict in verdicts)} with problems"
    )


def schedules_played(reporter: pytest.TerminalReporter) -> None:
    """Say what happened in the schedules: a green run in which nothing happens would prove nothing."""
    played = [Counter(value) for _, value in recorded(reporter, "schedules", "passed")]
    if played:
        seen = sum(played, Counter[str]())
        reporter.section("schedules of orphan scans")
        reporter.write_line(", ".join(f"{name} {count}" for name, count in sorted(seen.items())))
