"""``--owed``, seen from outside: runs of its own over a folder whose tests fail as long as a file lies there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hbus_console.state import ROOT

_TESTS = """
import os
import pathlib
import pytest

HERE = pathlib.Path(__file__).parent

def ran(name):
    with (HERE / "ran").open("a") as file:
        file.write(name + "\\n")

def test_passes():
    ran("passes")

@pytest.mark.xdist_group("lions")
@pytest.mark.parametrize("of", ["a@b", "c"])
def test_passes_in_a_group(of):
    ran("group")

@pytest.mark.skip(reason="no lion in the house")
def test_is_skipped():
    pass

def test_fails_at_first():
    ran("fails")
    assert not (HERE / "trouble").exists()

@pytest.fixture
def leaves_trouble():
    yield
    assert not (HERE / "trouble").exists()

def test_whose_end_fails_at_first(leaves_trouble):
    ran("end")

@pytest.mark.xdist_group("last")
def test_breaks_off_at_first():
    ran("breaks")
    if (HERE / "break").exists():
        pytest.exit("the lion came", returncode=3)

@pytest.mark.xdist_group("last")
def test_after_the_break():
    ran("after")
"""


class Runs:
    """Runs over one folder; :attr:`ran` is what the last one executed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "test_it.py").write_text(_TESTS)
        (folder / "pytest.ini").write_text("[pytest]\n")

    def run(self, *arguments: str, ci: str = "") -> subprocess.CompletedProcess[str]:
        (self.folder / "ran").write_text("")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV", "DJANGO"))}
        plugins = ["-p", "tests.owed", "-p", "tests.skips", "-p", "xdist.plugin"]
        return subprocess.run(
            [sys.executable, "-m", "pytest", *plugins, *arguments, "."],
            cwd=self.folder,
            env={**kept, "CI": ci, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    @property
    def ran(self) -> list[str]:
        return sorted((self.folder / "ran").read_text().split())

    def trouble(self, name: str = "trouble", *, is_there: bool = True) -> None:
        (self.folder / name).touch() if is_there else (self.folder / name).unlink()


@pytest.fixture
def runs(tmp_path: Path) -> Runs:
    return Runs(tmp_path)


WORKERS = pytest.mark.parametrize("workers", [[], ["-n", "1", "--dist", "loadgroup"]], ids=["alone", "xdist"])


@WORKERS
def test_only_what_failed_runs_again_and_the_whole_is_told(runs: Runs, workers: list[str]) -> None:
    runs.trouble()
    assert runs.run(*workers).returncode == 1
    assert len(runs.ran) == 7
    runs.trouble(is_there=False)

    again = runs.run("--owed")

    assert again.returncode == 0, again.stdout
    assert runs.ran == ["end", "fails"]
    assert "7 passed, 1 skipped" in again.stdout


def test_what_fails_again_fails_the_run_and_is_still_owed(runs: Runs) -> None:
    runs.trouble()
    runs.run()
    assert runs.run("--owed").returncode == 1
    assert runs.ran == ["end", "fails"]
    runs.trouble(is_there=False)
    assert runs.run("--owed").returncode == 0
    assert runs.ran == ["end", "fails"]


def test_what_a_broken_run_never_reached_is_owed(runs: Runs) -> None:
    runs.trouble("break")
    assert runs.run().returncode != 0
    assert "after" not in runs.ran
    runs.trouble("break", is_there=False)

    again = runs.run("--owed")

    assert again.returncode == 0, again.stdout
    assert runs.ran == ["after", "breaks"]
    assert "7 passed, 1 skipped" in again.stdout


def test_without_a_failed_run_everything_is_owed(runs: Runs) -> None:
    assert runs.run("--owed").returncode == 0
    assert len(runs.ran) == 7
    assert runs.run("--owed").returncode == 0
    assert len(runs.ran) == 7


def test_a_skip_of_the_first_run_is_not_forgotten(runs: Runs) -> None:
    """With ``CI=true`` it fails the second too."""
    runs.trouble()
    runs.run(ci="true")
    runs.trouble(is_there=False)
    again = runs.run("--owed", ci="true")
    assert again.returncode == 1
    assert "no lion in the house" in again.stdout
