"""A pytest plugin: ``pytest --hbus-transport my.module:factory`` runs the whole kit on a transport.

``factory`` is what the entry point ``hbus.transports`` names: a function of a :class:`~engine.bus.config.BusConfig` and
a clock (``None``: the store's own). Loaded by itself where hbus is installed, else with
``-p engine.bus.conformance.plugin``.
"""

from __future__ import annotations

from pathlib import Path
from pkgutil import resolve_name

import pytest

from engine.bus.conformance.matrix import SECTION, Matrix, columns_of
from engine.bus.registry import Factory
from engine.core.sections import replaced

#: What ``--hbus-transport`` named.
FACTORY = pytest.StashKey[Factory]()
#: Names of the properties by which a test tells the matrix about itself.
CAPABILITIES = "hbus capabilities"
KEEPS = "hbus keeps"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("hbus", "hbus: conformance of a transport")
    group.addoption("--hbus-transport", metavar="MODULE:FACTORY", default="", help="run the kit on this transport")
    group.addoption("--hbus-url", metavar="URL", default="", help="address of the store it shall use")
    group.addoption(
        "--hbus-option", metavar="NAME=VALUE", action="append", default=[], help="what only this transport knows"
    )
    group.addoption(
        "--hbus-real-time", action="store_true", help="it takes no clock: let time pass by waiting, with short leases"
    )
    group.addoption("--hbus-matrix", metavar="FILE", default="", help="write the capability matrix into this document")
    group.addoption("--hbus-matrix-check", metavar="FILE", default="", help="fail if this document's matrix is another")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "keeps(*numbers): promises of the conformance kit that the test checks")
    config.addinivalue_line("markers", "needs(*capabilities): skipped where a transport does not declare them")
    config.pluginmanager.register(MatrixKeeper(config), "hbus-matrix")
    if target := config.getoption("--hbus-transport"):
        config.stash[FACTORY] = factory_of(target)
        config.args[:] = [str(Path(__file__).with_name("suite.py"))]


def factory_of(target: str) -> Factory:
    """What ``module:function`` names. Raises ``pytest.UsageError`` with the remedy for what is no transport."""
    try:
        found = resolve_name(target)
    except (ImportError, AttributeError, ValueError) as error:
        raise pytest.UsageError(f"--hbus-transport {target}: {error}. Write module:function.") from error
    if not callable(found):
        raise pytest.UsageError(f"--hbus-transport {target} is no function. Write module:function.")
    made: Factory = found
    return made


class MatrixKeeper:
    """Collects a session's reports; those of pytest-xdist's workers come to the controller, which alone reports."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._matrix = Matrix()
        self._complaint = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        properties = dict(report.user_properties)
        capabilities, numbers = properties.get(CAPABILITIES), properties.get(KEEPS)
        if not isinstance(capabilities, dict) or not isinstance(numbers, list):
            return
        name = capabilities["name"]
        self._matrix.declared(name, capabilities)
        if report.failed:
            self._matrix.add(name, numbers, "failed")
        elif report.skipped:
            why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
            self._matrix.add(name, numbers, "skipped", why.removeprefix("Skipped: "))
        elif report.when == "call":
            self._matrix.add(name, numbers, "passed")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(self._config, "workerinput") or not self._matrix or session.exitstatus != pytest.ExitCode.OK:
            return
        if target := self._config.getoption("--hbus-matrix"):
            document = Path(target)
            text = replaced(document.read_text(encoding="utf-8"), SECTION, self._matrix.markdown())
            document.write_text(text, encoding="utf-8")
        if target := self._config.getoption("--hbus-matrix-check"):
            text = Path(target).read_text(encoding="utf-8")
            # A run of a part proves nothing about the whole.
            whole = self._matrix.transports == columns_of(text) and not self._config.getoption("keyword")
            if whole and replaced(text, SECTION, self._matrix.markdown()) != text:
                self._complaint = f"{target}: its conformance matrix is not what this run has shown; run: make kit"
                session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self._matrix:
            return
        terminalreporter.section("Promises kept")
        for line in self._matrix.text():
            terminalreporter.line(line)
        if self._complaint:
            terminalreporter.line(self._complaint, red=True, bold=True)
