"""One JVM for all differential tests, and a summary of what they compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from tests.differential.case import Verdict
from tests.differential.compare import RULES
from tests.differential.engine import Engine

VERDICTS = pytest.StashKey[list[Verdict]]()


@pytest.fixture(scope="session")
def engine(engine_classpath: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """The Java engine, warm after the first table."""
    with Engine(tmp_path_factory.mktemp("engine"), engine_classpath) as engine:
        yield engine


@pytest.fixture(scope="session")
def verdicts(request: pytest.FixtureRequest) -> list[Verdict]:
    """Where tests leave their verdicts for the summary."""
    return request.config.stash.setdefault(VERDICTS, [])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what was compared: a green run over empty tables would prove nothing."""
    verdicts = config.stash.get(VERDICTS, [])
    if not verdicts:
        return
    facts = sum((verdict.facts for verdict in verdicts), Counter[str]())
    explained = sum((verdict.explained for verdict in verdicts), Counter[str]())
    seconds = sum(sum(verdict.seconds.values()) for verdict in verdicts)
    terminalreporter.section("differential")
    terminalreporter.write_line(
        f"{facts['histories']} histories from seed {min(verdict.seed for verdict in verdicts)} on, {seconds:.0f} s: "
        f"{facts['files']} files compared, {facts['deleted by the engine']} deleted by the engine, "
        f"{facts['deleted by ours']} by ours, {sum(bool(verdict.problems) for verdict in verdicts)} with problems"
    )
    for rule, count in sorted(explained.items()):
        terminalreporter.write_line(f"  {count} differences by {rule}: {RULES[rule].sentence}")
    features = (
        f"{name} {count}"
        for name, count in sorted(facts.items())
        if count <= facts["histories"] and name != "histories"
    )
    terminalreporter.write_line("  histories with " + ", ".join(features))
