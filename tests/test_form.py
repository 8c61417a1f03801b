"""What is marked ``whole`` is left to ``make chaos``, seen from outside."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hbus_console.state import ROOT

_TESTS = """
import pytest

@pytest.mark.whole
def test_whole():
    pass

def test_short():
    pass
"""


@pytest.mark.parametrize(("form", "said"), [("", "1 passed, 1 deselected"), ("whole", "2 passed")])
def test_it_runs_there_alone(tmp_path: Path, form: str, said: str) -> None:
    (tmp_path / "test_it.py").write_text(_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers =\n    whole\n")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV", "DJANGO"))}
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.form", str(tmp_path)],
        cwd=ROOT,
        env={**kept, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HBUS_CHAOS": form},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert said in ended.stdout, ended.stdout + ended.stderr
