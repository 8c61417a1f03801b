from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from hbus_console.supervisor import process as process_module
from hbus_console.supervisor.process import Process

STUBBORN = (
    "import signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
)


async def _start(program: str, on_line: Callable[[str], None] = lambda _: None) -> Process:
    return await Process.start([sys.executable, "-c", program], os.environ, on_line)


def test_both_outputs_arrive_line_by_line_and_the_code_is_told() -> None:
    lines: list[str] = []

    async def scenario() -> int:
        child = await _start("import sys; print('one\\n\\ntwo'); sys.stderr.write('three'); sys.exit(7)", lines.append)
        code = await child.wait()
        assert child.last_line == lines[-1]
        return code

    assert asyncio.run(scenario()) == 7
    assert sorted(lines) == ["one", "three", "two"]


def test_an_endless_line_is_handed_on_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "_LONGEST_LINE", 1000)
    lines: list[str] = []

    async def scenario() -> None:
        await (await _start("print('x' * 200_000)", lines.append)).wait()

    asyncio.run(scenario())
    assert len(lines) > 1
    assert "".join(lines) == "x" * 200_000


def test_a_child_that_does_not_stop_is_killed_after_its_grace() -> None:
    async def scenario() -> int:
        up = asyncio.Event()
        child = await _start(STUBBORN, lambda _: up.set())
        await up.wait()
        return await child.stop(grace_s=0.2)

    assert asyncio.run(scenario()) == -9


def _lives(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_what_a_child_leaves_in_its_group_ends_with_it(tmp_path: Path) -> None:
    program = "import subprocess; print(subprocess.Popen(['sleep', '60']).pid, flush=True)"
    lines: list[str] = []

    async def scenario() -> None:
        await (await _start(program, lines.append)).wait()

    asyncio.run(scenario())
    # The signal is sent; whoever inherits an orphan buries it, in its own time.
    deadline = time.monotonic() + 60
    while _lives(int(lines[0])):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_every_child_leads_a_session_of_its_own() -> None:
    lines: list[str] = []

    async def scenario() -> int:
        child = await _start("import os; print(os.getsid(0))", lines.append)
        await child.wait()
        return child.pid

    assert asyncio.run(scenario()) == int(lines[0])
