"""``--touching``, seen from outside: a run of its own over a folder with tests of each kind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import tests.conftest
from hbus_console.state import ROOT
from tests.touching import SERVERS, STORE

_STANDS_ON = """
import pytest

@pytest.fixture
def {name}():
    pass

@pytest.fixture
def deeper({name}):
    pass

def test_reaches_it(deeper):
    pass

def test_beside_it():
    pass
"""
_STARTS_ONE = """
from hbus_console.supervisor.standalone import StandaloneStore

def test_starts_its_own():
    pass
"""
_MARKED = """
import pytest

@pytest.mark.django_db
def test_is_marked():
    pass

@pytest.mark.django_db
@pytest.mark.sqlite
def test_is_about_sqlite():
    pass

@pytest.mark.django_db
@pytest.mark.above_database
def test_judges_what_is_above():
    pass
"""
_PURE = """
def test_is_pure():
    pass
"""
_MANY = """
import pytest

class TestOfAKind:
    @pytest.mark.parametrize("case", "abc")
    def test_many(self, case):
        pass

@pytest.mark.parametrize("case", "ab")
def test_many(case):
    pass
"""
_INI = """
[pytest]
markers =
    django_db
    above_database
    sqlite
"""


def _run(folder: Path, *arguments: str) -> str:
    (folder / "test_database.py").write_text(_STANDS_ON.format(name="db"))
    (folder / "test_store.py").write_text(_STANDS_ON.format(name="redis_url"))
    (folder / "test_starts.py").write_text(_STARTS_ONE)
    (folder / "test_marked.py").write_text(_MARKED)
    (folder / "test_pure.py").write_text(_PURE)
    (folder / "pytest.ini").write_text(_INI)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV", "DJANGO"))}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "tests.touching", "-p", "xdist.plugin", *arguments, str(folder)],
        cwd=ROOT,
        env={**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def _ran(output: str) -> set[str]:
    lines = [line for line in output.splitlines() if "PASSED" in line]
    return {word.split("::")[1] for line in lines for word in line.split() if "::" in word}


@pytest.mark.parametrize("workers", [(), ("-n", "1")], ids=["alone", "workers"])
def test_a_run_on_another_database_has_those_that_reach_one(tmp_path: Path, workers: tuple[str, ...]) -> None:
    said = _run(tmp_path, "--touching", "database", *workers)
    assert _ran(said) == {"test_reaches_it", "test_is_marked", "test_is_about_sqlite"}
    assert "test_store.py" not in said
    assert "6 tests reach no database and were left out" in said


def test_a_run_on_another_store_has_the_files_that_reach_one(tmp_path: Path) -> None:
    said = _run(tmp_path, "--touching", "store")
    assert _ran(said) == {"test_reaches_it", "test_beside_it", "test_starts_its_own"}
    assert "test_database.py" not in said
    assert "6 tests reach no store and were left out" in said


def test_the_first_case_of_each_test_is_what_runs_of_it(tmp_path: Path) -> None:
    (tmp_path / "test_many.py").write_text(_MANY)
    said = _run(tmp_path, "--first-cases", "-n", "1")
    assert "11 passed" in said
    assert "test_many.py::test_many[a]" in said
    assert "TestOfAKind::test_many[a]" in said
    assert "3 tests are further cases of tests whose first was run, and were left out" in said


def test_without_it_everything_runs(tmp_path: Path) -> None:
    said = _run(tmp_path)
    assert "9 passed" in said
    assert "left out" not in said


def test_a_run_on_postgresql_has_nothing_that_happens_on_sqlite_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HBUS_TEST_DATABASE", "postgresql")
    assert _ran(_run(tmp_path, "--touching", "database")) == {"test_reaches_it", "test_is_marked"}
    said = _run(tmp_path)
    assert "8 passed, 1 deselected" in said
    assert "skipped" not in said


def test_every_fixture_that_starts_a_store_is_known() -> None:
    servers = {name for name, value in vars(tests.conftest).items() if getattr(value, "__module__", "") in SERVERS}
    starting = {
        name
        for name, value in vars(tests.conftest).items()
        if any(server in str(getattr(value, "__annotations__", {}).get("return", "")) for server in servers)
    }
    assert starting == STORE - {"redis_url"}
