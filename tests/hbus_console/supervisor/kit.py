"""A supervisor under test, with real processes in the place of the roles."""

from __future__ import annotations

import asyncio
import io
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.core.clock import Clock
from hbus_console.registry.declaration import ProcessRole
from hbus_console.supervisor import state
from hbus_console.supervisor.console import Console
from hbus_console.supervisor.installation import Installation
from hbus_console.supervisor.roles import SupervisedRole
from hbus_console.supervisor.supervisor import Pace, Supervisor

FAST = Pace(
    probe_first_s=0.02,
    probe_most_s=0.05,
    probe_running_s=0.05,
    backoff_first_s=0.05,
    backoff_most_s=0.2,
    healthy_s=0.3,
    deaf_s=0.2,
    leftover_s=2.0,
)
Probe = Callable[[Installation, int, int], str]
RUN = "import time; print('up', flush=True); time.sleep(60)"


def _yes(at: Installation, slot: int, pid: int) -> str:
    return ""


def _nothing() -> None:
    return


@dataclass(frozen=True)
class Scripted(SupervisedRole):
    """A role that runs a Python program given as text."""

    program: str = RUN
    ask: Probe = _yes
    #: Called before each start; may raise.
    prepare: Callable[[], object] = _nothing

    def command(self, at: Installation, slot: int) -> list[str]:
        self.prepare()
        return [sys.executable, "-c", self.program]

    def probe(self, at: Installation, slot: int, pid: int) -> str:
        return self.ask(at, slot, pid)


def role(
    name: str,
    program: str = RUN,
    *,
    needs: tuple[str, ...] = (),
    probe: Probe = _yes,
    grace_s: float = 2.0,
    prepare: Callable[[], object] = _nothing,
) -> SupervisedRole:
    return Scripted(ProcessRole(name, name, "", needs=needs, grace_s=grace_s, tone=36), program, probe, prepare)


def deaf_role(bench: Bench, *, grace_s: float) -> SupervisedRole:
    """Ready as soon as it no longer hears SIGTERM."""
    deafened = bench.state / "deafened"
    program = (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open({str(deafened)!r}, 'w').close()\n"
        "time.sleep(60)\n"
    )
    return role("one", program, grace_s=grace_s, probe=lambda *_: "" if deafened.exists() else "starting")


@dataclass
class Bench:
    """One supervisor under test, in a folder of its own."""

    state: Path
    said: io.StringIO = field(default_factory=io.StringIO)

    def at(self) -> Installation:
        return Installation(self.state, "127.0.0.1", 8119, "t", "localhost", "redis://127.0.0.1:1/0", 0)

    def run(
        self,
        roles: list[SupervisedRole],
        scenario: Callable[[Bench], Awaitable[None]],
        pace: Pace = FAST,
        clock: Clock | None = None,
    ) -> tuple[int, Supervisor]:
        """Run ``roles``, play ``scenario`` beside them, ask for the end, and return the exit code."""

        async def both() -> tuple[int, Supervisor]:
            wanted = [(one, 0) for one in roles]
            supervisor = Supervisor(self.at(), wanted, Console(self.said), pace=pace, clock=clock)
            running = asyncio.create_task(supervisor.run())
            try:
                await asyncio.wait_for(scenario(self), 90)
            finally:
                if not running.done():
                    os.kill(os.getpid(), signal.SIGTERM)
                code = await asyncio.wait_for(running, 90)
            return code, supervisor

        return asyncio.run(both())

    def seen(self, name: str) -> state.RoleState:
        snapshot = state.read(self.state)
        return next((one for one in snapshot.roles if one.role == name), _UNKNOWN) if snapshot else _UNKNOWN

    async def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, self.said.getvalue()
            await asyncio.sleep(0.01)

    async def until_ready(self, *names: str) -> None:
        await self.until(lambda: all(self.seen(name).state == state.READY for name in names))


_UNKNOWN = state.RoleState("?", 0, state="?")
