"""``make test-free-threaded`` says nothing where the GIL is on, and says that it does."""

from __future__ import annotations

import os
import subprocess
import sys

from hbus_console.state import ROOT


def test_with_the_gil_each_test_fails() -> None:
    asked = ["-c", "tests/free_threaded.ini", "--rootdir", ".", "tests/engine/quota/test_demand.py"]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHON_GIL": "1"}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pytest_timeout", "-p", "no:cacheprovider", *asked],
        cwd=ROOT,
        env=alone,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout
    assert "The GIL is on" in ran.stdout
    assert " passed" not in ran.stdout
