"""Nothing outlives its supervisor: real parents are killed and their children must go."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import psutil
import pytest

_START = """
import subprocess, sys, time
from hbus_console.supervisor import leash
import os
child = subprocess.Popen([sys.executable, "-c", {child!r}, str(os.getpid())], start_new_session=True{tie})
print(child.pid, flush=True)
time.sleep(60)
"""
_TIED = ", preexec_fn=leash.tie_to_parent(os.getpid())"
_SLEEPER = "import time; time.sleep(60)"
_DEAF = """
import signal, sys, time
from hbus_console.supervisor import leash
signal.signal(signal.SIGTERM, signal.SIG_IGN)
leash.watch_parent(int(sys.argv[1]), 0.2)
time.sleep(60)
"""


def _ends_within(pid: int, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def _orphan(child: str, tie: str) -> int:
    """Start a parent that starts ``child``, kill the parent, and return the child's process id."""
    program = _START.format(child=child, tie=tie)
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert psutil.pid_exists(pid)
        parent.kill()
    return pid


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's; elsewhere the leash polls")
def test_the_kernel_ends_a_tied_child() -> None:
    assert _ends_within(_orphan(_SLEEPER, _TIED), 5)


def test_a_role_that_ignores_the_first_sign_is_killed_with_its_group() -> None:
    assert _ends_within(_orphan(_DEAF, _TIED), 5)


def test_a_program_that_is_not_ours_ends_on_the_polling_leash() -> None:
    on_leash = (
        "import sys; from hbus_console.supervisor import leash; "
        f"leash.run_on_leash(int(sys.argv[1]), [sys.executable, '-c', {_SLEEPER!r}])"
    )
    pid = _orphan(on_leash, "")
    family = [pid, *(child.pid for child in _children(pid))]
    assert all(_ends_within(member, 5) for member in family)


def test_the_leash_hands_on_signals_and_the_exit_code() -> None:
    command = [sys.executable, "-m", "hbus_console.supervisor.leash", str(psutil.Process().pid)]
    assert subprocess.run([*command, sys.executable, "-c", "raise SystemExit(5)"], check=False).returncode == 5
    with subprocess.Popen([*command, sys.executable, "-c", _SLEEPER]) as leash:
        assert _becomes(lambda: bool(_children(leash.pid)))
        leash.terminate()
        assert leash.wait(timeout=5) != 0
        assert not _children(leash.pid)


def _children(pid: int) -> list[psutil.Process]:
    try:
        return psutil.Process(pid).children()
    except psutil.NoSuchProcess:
        return []


def _becomes(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
