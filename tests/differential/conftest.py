"""One JVM for all differential tests, and a summary of what they compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.differential.compare import RULES
from tests.differential.engine import Engine


@pytest.fixture(scope="session")
def engine(engine_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The Java engine, warm after the first table."""
    with Engine(tmp_path_factory.mktemp("engine"), engine_classpath) as engine:
        yield engine


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was compared: a green run over empty tables would prove nothing.

    What a test recorded comes with its report, from whichever process ran it.
    """
    verdicts: list[dict[str, Any]] = [
        value
        for outcome in ("passed", "failed")
        for report in terminalreporter.getreports(outcome)
        for name, value in getattr(report, "user_properties", ())
        if name == "verdict" and report.when == "call"
    ]
    if not verdicts:
        return
    facts = sum((Counter(verdict["facts"]) for verdict in verdicts), Counter[str]())
    explained = sum((Counter(verdict["explained"]) for verdict in verdicts), Counter[str]())
    seconds = sum(verdict["seconds"] for verdict in verdicts)
    terminalreporter.section("differential")
    terminalreporter.write_line(
        f"{facts['histories']} histories from seed {min(verdict['seed'] for verdict in verdicts)} on, {seconds:.0f} s: "
        f"{facts['files']} files compared, {facts['deleted by the engine']} deleted by the engine, "
        f"{facts['deleted by ours']} by ours, {sum(verdict['problems'] > 0 for verdict in verdicts)} with problems"
    )
    for rule, count in sorted(explained.items()):
        terminalreporter.write_line(f"  {count} differences by {rule}: {RULES[rule].sentence}")
    features = (
        f"{name} {count}"
        for name, count in sorted(facts.items())
        if count <= facts["histories"] and name != "histories"
    )
    terminalreporter.write_line("  histories with " + ", ".join(features))
