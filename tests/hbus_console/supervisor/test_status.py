"""``manage.py status``: what is, told apart from what was."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from engine.core.clock import ManualClock, SystemClock
from hbus_console.nodes.stamps import Node
from hbus_console.supervisor import state
from hbus_console.supervisor.status import being_started, collect, without_the_dead

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


@pytest.mark.parametrize(
    ("word", "comes"),
    [(state.WAITING, True), (state.STARTING, True), (state.BACKING_OFF, True), (state.READY, False),
     (state.NOT_READY, False), (state.STOPPED, False)],
)  # fmt: skip
def test_a_role_on_its_way_up_need_not_be_started_by_hand(tmp_path: Path, word: str, comes: bool) -> None:
    assert not being_started(tmp_path, "web")
    stood(tmp_path, 0, state=word)
    assert not being_started(tmp_path, "web"), "no supervisor runs"
    held = state.hold(tmp_path)
    assert held is not None
    with held:
        assert (being_started(tmp_path, "web"), being_started(tmp_path, "cron")) == (comes, False)


def stamp(pid: int, started_ms: int, *, host: str = "", role: str = "web", silent: bool = False) -> Node:
    return Node(f"h:{role}:0", role, "0", host or socket.gethostname(), pid, started_ms, started_ms, silent)


@pytest.fixture
def dead() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    return ended.pid


def test_what_died_here_is_silent_while_its_stamp_is_fresh(tmp_path: Path, dead: int) -> None:
    stood(tmp_path, 0)
    now_ms = SystemClock().now_ms()
    lives = stamp(os.getpid(), now_ms)
    elsewhere = stamp(dead, now_ms, host="elsewhere")
    not_ours = stamp(dead, now_ms, role="cron")
    told = without_the_dead(tmp_path, [stamp(dead, now_ms), lives, elsewhere, not_ours])
    assert [node.silent for node in told] == [True, False, False, False]


def test_of_what_is_started_anew_only_the_supervisor_tells(tmp_path: Path, dead: int) -> None:
    stood(tmp_path, 0, state=state.STARTING)
    held = state.hold(tmp_path)
    assert held is not None
    with held:
        nodes = [stamp(dead, 1, silent=True), stamp(dead, 1, silent=True, host="elsewhere")]
        lines = collect(tmp_path, nodes, ManualClock(), clock_alarm_ms=1_000).lines
    assert [(line.role, line.host, line.state) for line in lines] == [
        ("supervisor", "", "ready"),
        ("web", "", "starting"),
        ("web", "elsewhere", "silent"),
    ]
