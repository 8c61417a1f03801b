"""Tests of one group share a worker: what they start (an installation, a browser) is started once and runs alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

_TESTS = """
import time
import pytest

@pytest.mark.xdist_group("house")
@pytest.mark.parametrize("n", range(6))
def test_together(n):
    time.sleep(0.02)

@pytest.mark.parametrize("n", range(6))
def test_anywhere(n):
    time.sleep(0.02)
"""


def test_a_group_is_kept_on_one_worker(tmp_path: Path) -> None:
    """It silently is not where pytest and pytest-xdist do not fit each other, as 9.2 and 3.8."""
    (tmp_path / "test_it.py").write_text(_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV", "DJANGO"))}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist.plugin", "-n", "2", "--dist", "loadgroup", "-v", "."],
        cwd=tmp_path,
        env={**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    workers = re.findall(r"^\[(gw\d)\].*PASSED.*test_together", ran.stdout, re.MULTILINE)
    assert len(workers) == 6
    assert len(set(workers)) == 1
