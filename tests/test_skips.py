"""The end-of-run report, seen from outside: a run of its own over a folder with one skipped test."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hbus_console.state import ROOT
from tests.skips import NOT_ALLOWED

_TESTS = """
import pytest

def test_runs():
    pass

@pytest.mark.skip(reason="no lion in the house")
def test_tames_the_lion():
    pass
"""


def _run(folder: Path, *arguments: str, ci: str, tests: str = _TESTS) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(tests)
    (folder / "pytest.ini").write_text("[pytest]\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV", "DJANGO"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.skips", "-p", "xdist.plugin", *arguments, str(folder)],
        cwd=folder,
        env={**kept, "CI": ci, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["alone", "xdist"])
def test_a_skip_is_told_with_its_reason_at_the_end(tmp_path: Path, workers: list[str]) -> None:
    run = _run(tmp_path, *workers, ci="")
    assert run.returncode == 0, run.stdout + run.stderr
    end = run.stdout[run.stdout.index("Not run here") :]
    assert "1 × no lion in the house" in end
    assert "test_it.py::test_tames_the_lion" in end
    assert "1 passed, 1 skipped" in end


@pytest.mark.parametrize("workers", [[], ["-n", "1"]], ids=["alone", "xdist"])
def test_with_ci_a_skip_fails_the_run(tmp_path: Path, workers: list[str]) -> None:
    run = _run(tmp_path, *workers, ci="true")
    assert run.returncode == 1
    assert "with CI=true every test has to run" in run.stdout


def test_with_ci_what_nobody_may_do_here_is_told_and_fails_nothing(tmp_path: Path) -> None:
    run = _run(tmp_path, ci="true", tests=_TESTS.replace("no lion", f"{NOT_ALLOWED}no lion"))
    assert run.returncode == 0
    assert "1 × not allowed here: no lion in the house" in run.stdout
    assert "has to run" not in run.stdout


def test_with_ci_a_run_without_a_skip_passes(tmp_path: Path) -> None:
    run = _run(tmp_path, ci="true", tests="def test_runs(): pass")
    assert run.returncode == 0
    assert "Not run here" not in run.stdout


def test_a_file_skipped_whole_counts_too(tmp_path: Path) -> None:
    run = _run(tmp_path, ci="true", tests="import pytest\npytest.skip('no lion at all', allow_module_level=True)\n")
    assert run.returncode != 0
    assert "no lion at all" in run.stdout
