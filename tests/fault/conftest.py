"""Prints which calls the fault tests broke, where a test recorded it."""

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line for every test that broke calls."""
    lines = [
        f"{report.nodeid.rpartition('::')[2]}: {value}"
        for report in terminalreporter.getreports("passed")
        for name, value in getattr(report, "user_properties", ())
        if name == "calls"
    ]
    if lines:
        terminalreporter.section("storage calls broken")
        for line in lines:
            terminalreporter.write_line(line)
