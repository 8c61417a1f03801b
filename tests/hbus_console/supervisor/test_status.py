"""``manage.py status``: what is, told apart from what was."""

from __future__ import annotations

import os
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from engine.core.clock import ManualClock, SystemClock
from hbus_console.supervisor import state
from hbus_console.supervisor.status import collect

FIVE_MINUTES_MS = 300_000


def stood(tmp_path: Path, now_ms: int, **role: Any) -> None:
    told = state.RoleState("web", 0, last_error="does not answer", last_error_ms=now_ms - FIVE_MINUTES_MS, **role)
    state.write(
        tmp_path,
        state.Snapshot(pid=os.getpid(), started_ms=1, url="", store="", embedded_store=True, roles=[told]),
    )


@pytest.mark.parametrize(("reason", "age_s"), [("", 300), ("does not answer", 0)])
def test_an_error_that_is_over_has_an_age(tmp_path: Path, reason: str, age_s: int) -> None:
    clock = ManualClock()
    stood(tmp_path, clock.now_ms(), reason=reason)
    (line,) = collect(tmp_path, [], clock, clock_alarm_ms=1_000).lines
    assert (line.last_error, line.last_error_age_s) == ("does not answer", age_s)


def test_the_table_says_how_long_ago_it_was(tmp_path: Path, settings: Any) -> None:
    stood(tmp_path, SystemClock().now_ms())
    settings.STATE = str(tmp_path)
    out = StringIO()
    with pytest.raises(SystemExit):
        call_command("status", stdout=out)
    assert "does not answer (5 m 0" in out.getvalue()
