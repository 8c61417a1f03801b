"""The end of a test run: what was not run here and why; with ``CI=true`` little may be left out."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable

import pytest

from engine.bus.conformance.base import NOT_DECLARED

#: How a reason begins that is no lack of anything: whoever runs the tests may not do it, such as make a network.
NOT_ALLOWED = "not allowed here: "
_REASONS = pytest.StashKey[dict[str, list[str]]]()


def reasons(reports: Iterable[pytest.TestReport | pytest.CollectReport]) -> dict[str, list[str]]:
    """Reason → what was skipped for it, in the order met."""
    found: dict[str, list[str]] = defaultdict(list)
    for report in reports:
        words = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "no reason given")
        found[words.removeprefix("Skipped: ")].append(report.nodeid)
    return dict(found)


def undeclared(words: str) -> bool:
    """Whether the kit left a test out because the transport says itself that it cannot: nothing was left undone."""
    return words.startswith(NOT_DECLARED)


def failing(skipped: Iterable[str]) -> bool:
    """Whether a run that left tests out for these reasons has failed."""
    return strict() and any(not words.startswith(NOT_ALLOWED) for words in skipped)


def strict() -> bool:
    """Whether a skip fails the run."""
    return os.environ.get("CI", "").lower() == "true"


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    # Workers of pytest-xdist report to the controller, which alone has the terminal.
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None or hasattr(session.config, "workerinput"):
        return
    skipped = {
        words: tests for words, tests in reasons(reporter.stats.get("skipped", [])).items() if not undeclared(words)
    }
    session.config.stash[_REASONS] = skipped
    if failing(skipped) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    skipped = config.stash.get(_REASONS, {})
    if not skipped:
        return
    terminalreporter.section("Not run here")
    for words, tests in skipped.items():
        terminalreporter.line(f"{len(tests)} × {words}")
        for test in tests[:5]:
            terminalreporter.line(f"    {test}")
        if len(tests) > 5:
            terminalreporter.line(f"    … and {len(tests) - 5} more")
    if failing(skipped):
        terminalreporter.line("FAILED: with CI=true every test has to run.", red=True, bold=True)
