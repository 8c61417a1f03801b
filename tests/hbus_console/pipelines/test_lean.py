"""Roles that archive nothing do without what archiving needs: pyarrow takes a hundred megabytes."""

from __future__ import annotations

import subprocess
import sys

from hbus_console.state import ROOT

_CODE = """
import sys, django
django.setup()
from django.core.management import call_command
call_command("migrate", "pipelines", verbosity=0)
import hbus_console.urls, hbus_console.pipelines.live, hbus_console.pipelines.job_functions
import hbus_console.operations.runner, hbus_console.replays.kind
import hbus_console.pipelines.queries.working, hbus_console.pipelines.spool_filling
from engine.pipeline.replay.span import ReplaySpan
from hbus_console.pipelines.replaying import messages_in, open_span, reach_of
from hbus_console.wiring.lake import lake
lake().version(), reach_of("t"), messages_in(ReplaySpan("t", 0, 1))
print(sorted(name for name in sys.modules if name in ("pyarrow", "numpy", "pandas", "pyspark", "duckdb")))
"""


def test_pages_marks_and_the_list_of_functions_load_no_pyarrow() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _CODE],
        cwd=ROOT,
        env={"DJANGO_SETTINGS_MODULE": "tests.settings", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split("\n")[-2] == "[]"
