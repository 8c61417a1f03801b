"""The Makefile's refusals: what a newcomer sees when the machine lacks something."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hbus_console.state import ROOT


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    requirements = [f"requirements{part}.txt" for part in ("", "-dev", "-spark")]
    for name in ("Makefile", *requirements, "constraints.txt", "package.json", "package-lock.json"):
        shutil.copy(ROOT / name, tmp_path / name)
    return tmp_path


def _make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["make", "--no-print-directory", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_machine_without_a_new_python_is_told_so(folder: Path) -> None:
    made = _make(folder, "run", "PYTHON=")
    assert made.returncode != 0
    assert "hbus: Python 3.11 or newer was not found" in made.stderr
    assert not (folder / ".venv").exists()


def test_a_python_without_venv_is_told_how_to_get_it_and_leaves_nothing_half_made(folder: Path) -> None:
    crippled = folder / "python3"
    crippled.write_text(
        '#!/bin/sh\ncase "$*" in --version) echo Python 3.11.0;; *venv*) mkdir -p .venv/bin; exit 1;; esac\n'
    )
    crippled.chmod(0o755)
    made = _make(folder, "run", f"PYTHON={crippled}")
    assert made.returncode != 0
    assert "apt install python3-venv" in made.stderr
    assert not (folder / ".venv").exists()


@pytest.mark.parametrize("npm_answers", [1, 0], ids=["offline", "online"])
def test_assets_that_cannot_be_fetched_stop_the_start_with_one_sentence(folder: Path, npm_answers: int) -> None:
    """With stand-ins for pip and npm: the network is not what is tested here."""
    tools = folder / ".venv" / "bin"
    tools.mkdir(parents=True)
    (tools / "python").write_text("#!/bin/sh\nexit 0\n")
    (tools / "npm").write_text(f"#!/bin/sh\nmkdir -p node_modules\nexit {npm_answers}\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    made = _make(folder, "assets", "SHELL=/bin/sh", f"PATH={tools}:/usr/bin:/bin")
    stamps = list(folder.glob("node_modules/.fetched-*"))
    if npm_answers:
        assert made.returncode != 0
        assert "hbus: the pages' assets could not be fetched" in made.stderr
        assert stamps == []
    else:
        assert made.returncode == 0, made.stderr
        assert len(stamps) == 1


@pytest.mark.parametrize(
    ("named", "told"),
    [("", "no free-threaded Python was named"), (sys.executable, "is no Python without a GIL")],
    ids=["none", "with a GIL"],
)
def test_without_a_free_threaded_python_it_is_told_how_to_name_one(folder: Path, named: str, told: str) -> None:
    made = _make(folder, "test-free-threaded", f"FREE_PYTHON={named}")
    assert made.returncode != 0
    assert told in made.stderr
    assert not (folder / "var").exists()


@pytest.mark.parametrize(
    ("arguments", "installed", "fetches"),
    [((), False, True), (("SPARK=yes",), False, True), (("SPARK=no",), False, False), ((), True, False)],
)
def test_a_run_fetches_spark_beside_it_unless_it_is_there_or_told_not_to(
    folder: Path, arguments: tuple[str, ...], installed: bool, fetches: bool
) -> None:
    if installed:
        needs = b"".join((folder / name).read_bytes() for name in ("requirements-spark.txt", "constraints.txt"))
        (folder / ".venv").mkdir()
        summed = subprocess.run(["cksum"], input=needs, capture_output=True, check=True).stdout.decode()
        (folder / ".venv" / f".spark-{'-'.join(summed.split())}").touch()
    told = _make(folder, "--dry-run", "run", *arguments).stdout
    assert ("hbus_console.spark_fetch" in told) == fetches
    assert "exec .venv/bin/python manage.py up" in told


@pytest.mark.parametrize(
    "target",
    [
        *("run", "demo", "test", "coverage", "lint", "bench", "walls", "soak", "assets", "spark", "setup", "clean"),
        *("kit", "chaos", "mutants", "test-postgresql", "test-redis", "test-free-threaded"),
    ],
)
def test_every_target_that_the_readme_may_name_exists(folder: Path, target: str) -> None:
    assert _make(folder, "--dry-run", target).returncode == 0
