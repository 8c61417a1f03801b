"""``--owed``: runs what the last run still owes, and judges both as one run.

Owed is every test that was collected and not seen to pass: those that failed, and those that were never reached because
the run broke off. What had passed is not run again, but it counts: the skips, the kit's table and the summary are told
as if all of it had run now. Without the record of a failed run everything is owed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

_RECORD = "hbus/passed"
#: What pytest-xdist appends to the id of a test that is kept on one worker.
_GROUP = re.compile(r"@[^\]@]*$")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--owed", action="store_true", help="run what the last run owes: what failed or was not reached")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Owed(config), "hbus-owed")


def name_of(nodeid: str) -> str:
    """The same with workers and without."""
    return _GROUP.sub("", nodeid)


class Owed:
    """Keeps the reports of a session that failed; workers of pytest-xdist leave that to their controller."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._controls = not hasattr(config, "workerinput")
        self._before: dict[str, list[dict[str, Any]]] = {}
        if config.getoption("--owed"):
            self._before = config.cache.get(_RECORD, None) or {}
        self._reports: dict[str, list[pytest.TestReport]] = {}

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        passed = [item for item in items if name_of(item.nodeid) in self._before]
        items[:] = [item for item in items if name_of(item.nodeid) not in self._before]
        config.hook.pytest_deselected(items=passed)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._reports.setdefault(name_of(report.nodeid), []).append(report)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        if self._controls:
            self._tell_again(session)
        yield
        if self._controls and self._config.pluginmanager.hasplugin("cacheprovider"):
            self._keep(session)

    def _tell_again(self, session: pytest.Session) -> None:
        """Report what had passed to whoever counts; the terminal counts it without a line each."""
        reporter = self._config.pluginmanager.get_plugin("terminalreporter")
        tell = self._config.pluginmanager.subset_hook_caller("pytest_runtest_logreport", [reporter, self])
        for data in (each for kept in self._before.values() for each in kept):
            report = self._config.hook.pytest_report_from_serializable(config=self._config, data=data)
            if isinstance(report.longrepr, list):
                report.longrepr = tuple(report.longrepr)
            tell(report=report)
            if reporter is not None:
                reporter.stats.setdefault(report.outcome, []).append(report)
        if self._before and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
            session.exitstatus = pytest.ExitCode.OK

    def _keep(self, session: pytest.Session) -> None:
        record = None
        if session.exitstatus != pytest.ExitCode.OK:
            now = {name: self._kept(reports) for name, reports in self._reports.items() if _ended_well(reports)}
            record = {**self._before, **now}
        self._config.cache.set(_RECORD, record)

    def _kept(self, reports: list[pytest.TestReport]) -> list[dict[str, Any]]:
        serializable = self._config.hook.pytest_report_to_serializable
        told = [report for report in reports if report.skipped or report.when == "call"]
        made = [serializable(config=self._config, report=report) for report in told]
        # What was printed is not needed again, nor by what words it could be chosen; the worker that pytest-xdist notes
        # is no data.
        return [
            {name: value for name, value in data.items() if name != "node"} | {"sections": [], "keywords": {}}
            for data in made
        ]


def _ended_well(reports: list[pytest.TestReport]) -> bool:
    return reports[-1].when == "teardown" and not any(report.failed for report in reports)
