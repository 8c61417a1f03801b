"""What an installation that runs has of jobs, asked of it from outside."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from tests.installation import RunningInstallation

_RUNS = """
import json
from hbus_console.jobs.models import JobRun, LogPiece
print(json.dumps([
    {"id": run.pk, "job": run.job, "kind": run.kind, "part": run.part, "slot": run.slot, "state": run.state,
     "reason": run.reason, "why": run.asked_why, "node": run.node,
     "log": "".join(LogPiece.objects.filter(run=run.pk).order_by("seq").values_list("text", flat=True))}
    for run in JobRun.objects.order_by("pk")
]))
"""


def shell(installation: RunningInstallation, code: str) -> str:
    """What this prints there."""
    done = installation.manage("shell", "--no-imports", "-c", code)
    assert done.returncode == 0, done.stderr
    return done.stdout


def until(installation: RunningInstallation, fits: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """Its runs, once they are so."""
    deadline = time.monotonic() + 120
    while not fits(found := json.loads(shell(installation, _RUNS))):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    return found
