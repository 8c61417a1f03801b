"""The supervisor: starts roles in order, keeps them running, stops them in reverse; one event loop, no threads kept."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import text_of, words_of
from engine.core.errors import ConfigurationError, HbusError
from hbus_console.supervisor import probes, state
from hbus_console.supervisor.console import Console, LogFile
from hbus_console.supervisor.installation import Installation, shown
from hbus_console.supervisor.process import Process
from hbus_console.supervisor.roles import DRAIN_S, SupervisedRole

#: A terminal, a shell and a service manager may all pass on one Ctrl-C.
_SAME_WISH_S = 0.5
#: The exit code of a role that cannot start for a reason that a restart does not mend.
REFUSED = 2


@dataclass(frozen=True)
class Pace:
    """How patient the supervisor is; seconds."""

    #: Between two probes of a starting role: at first, growing by half each time up to the next.
    probe_first_s: float = 0.1
    probe_most_s: float = 1.0
    probe_running_s: float = 3.0
    backoff_first_s: float = 0.5
    backoff_most_s: float = 30.0
    #: Ready for so long, a process has proved itself and its backoff starts over.
    healthy_s: float = 60.0
    #: A process that was ready and is deaf for so long is killed and started again.
    deaf_s: float = 20.0
    #: And one that never was ready: it may have much to import, on a machine that has little time for it.
    deaf_at_start_s: float = 120.0
    #: How long what a killed supervisor left behind may take to end by itself.
    leftover_s: float = 6.0


@dataclass
class _Unit:
    role: SupervisedRole
    slot: int
    seen: state.RoleState
    log: LogFile
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    process: Process | None = None
    #: Why its process was killed, by whom else one would wonder; empty: it was not.
    killed: str = ""

    @property
    def name(self) -> str:
        return self.seen.name


@dataclass(frozen=True)
class _End:
    """How one life of a process ended, and why. ``refused``: why a further one would be no use before it was ready."""

    how: str
    why: str
    refused: str


class Supervisor:
    """Runs ``wanted`` (role, slot) until told to stop. Use once, from the main thread."""

    def __init__(
        self,
        at: Installation,
        wanted: Sequence[tuple[SupervisedRole, int]],
        console: Console,
        *,
        pace: Pace | None = None,
        clock: Clock | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._at = at
        self._console = console
        self._pace = pace or Pace()
        self._clock = clock or SystemClock()
        self._environment = dict(os.environ if environment is None else environment)
        self._started_ms = self._clock.now_ms()
        self._units = [
            _Unit(
                role,
                slot,
                state.RoleState(role.name, slot, address=role.address(at)),
                LogFile(at.state, state.RoleState(role.name, slot).name, console.say),
            )
            for role, slot in wanted
        ]
        self._stop = asyncio.Event()
        self._asked_at = 0.0
        self._failure = ""
        self._notes = state.Notes(at.state, console.say)

    async def run(self) -> int:
        """Start everything, keep it running, and stop it in order on SIGINT, SIGTERM or SIGHUP (twice: at once).

        Returns 0 after an ordered stop, 2 when a role refused to start for a reason that a restart cannot mend.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._asked_to_stop)
        await self._end_leftovers()
        keepers = [
            asyncio.create_task(self._lasting(f"Keeping {unit.name}", partial(self._keep, unit)), name=unit.name)
            for unit in self._units
        ]
        herald = asyncio.create_task(self._announce())
        await self._stop.wait()
        herald.cancel()
        await self._stop_all()
        await asyncio.gather(*keepers)
        self._write()
        for unit in self._units:
            unit.log.close()
        return 2 if self._failure else 0

    @property
    def failure(self) -> str:
        """Why it ended with 2."""
        return self._failure

    def _asked_to_stop(self) -> None:
        now = self._clock.monotonic()
        if not self._stop.is_set():
            self._console.say("Stopping … (once more: at once)")
            self._asked_at = now
            self._stop.set()
        elif now - self._asked_at > _SAME_WISH_S:
            for unit in self._units:
                if unit.process is not None:
                    unit.process.kill()

    async def _announce(self) -> None:
        await asyncio.gather(*(unit.ready.wait() for unit in self._units))
        took_s = (self._clock.now_ms() - self._started_ms) / 1000
        self._console.say(f"All is ready after {took_s:.1f} s.")
        if any(unit.role.name == "web" for unit in self._units):
            self._console.say(f"The console: {self._at.console_url}")

    async def _keep(self, unit: _Unit) -> None:
        await self._unless_stopped(*(need.ready.wait() for need in self._needs(unit)))
        delay_s = self._pace.backoff_first_s
        while not self._stop.is_set():
            end = await self._live(unit)
            if self._stop.is_set():
                break
            healthy_for_ms = self._clock.now_ms() - unit.seen.ready_ms if unit.seen.ready_ms else 0
            self._change(
                unit,
                state.BACKING_OFF,
                pid=0,
                created_s=0.0,
                ready_ms=0,
                reason="",
                last_error=end.why,
                last_error_ms=self._clock.now_ms(),
            )
            if end.refused and not unit.ready.is_set():
                self._failure = end.refused
                self._stop.set()
                break
            if healthy_for_ms >= self._pace.healthy_s * 1000:
                delay_s = self._pace.backoff_first_s
            self._console.say(f"{unit.name} {end.how}: {end.why}. Starting it again in {delay_s:g} s.")
            await self._unless_stopped(asyncio.sleep(delay_s))
            delay_s = min(delay_s * 2, self._pace.backoff_most_s)
            unit.seen.restarts += 1
        self._change(unit, state.STOPPED, pid=0, created_s=0.0)

    async def _live(self, unit: _Unit) -> _End:
        """One life of a process, from its start to its end."""
        try:
            process = await self._start(unit)
        except Exception as error:  # noqa: BLE001 - a configuration not written, no room for a process, a feature's own
            said = error.what.rstrip(".") if isinstance(error, HbusError) else text_of(error)
            return _End("could not be started", said, words_of(error) if isinstance(error, ConfigurationError) else "")
        watch = asyncio.create_task(self._lasting(f"Watching {unit.name}", partial(self._watch, unit, process)))
        try:
            if self._stop.is_set():
                # Who stops them all has not seen this one.
                await self._stop_one(unit)
            code = await process.wait()
        except BaseException:
            process.kill()
            raise
        finally:
            watch.cancel()
            unit.process = None
        ended = f"exit code {code}" if code >= 0 else unit.killed or f"killed by {signal.Signals(-code).name}"
        why = f"{ended}; last said: {process.last_line[:300]}" if process.last_line and code > 0 else ended
        return _End("ended", why, process.last_line if code == REFUSED else "")

    async def _start(self, unit: _Unit) -> Process:
        environment = {
            **self._environment,
            "REDIS_URL": self._at.store_url,
            "STATE": str(self._at.state),
            "HBUS_ROLE": unit.role.name,
            "HBUS_SLOT": str(unit.slot),
            "HBUS_GRACE_S": str(DRAIN_S),
            "HBUS_SUPERVISOR_PID": str(os.getpid()),
            "PROMETHEUS_MULTIPROC_DIR": str(metrics_folder(self._at.state)),
            "PYTHONUNBUFFERED": "1",
        }

        def on_line(line: str) -> None:
            unit.log.write(line)
            self._console.show(unit.name, unit.role.declared.tone, line)

        # Beside the loop: a role's program may have to be built first.
        command = await asyncio.to_thread(unit.role.command, self._at, unit.slot)
        process = await Process.start(command, environment, on_line)
        unit.process, unit.killed = process, ""
        try:
            created_s = psutil.Process(process.pid).create_time()
        except psutil.Error:
            created_s = 0.0
        self._change(
            unit,
            state.STARTING,
            pid=process.pid,
            created_s=created_s,
            started_ms=self._clock.now_ms(),
            ready_ms=0,
            reason="",
        )
        return process

    async def _watch(self, unit: _Unit, process: Process) -> None:
        """Probe until the process ends; kill it when it has been deaf for too long."""
        deaf_since: float | None = None
        pause_s = self._pace.probe_first_s
        while True:
            asked = self._clock.monotonic()
            said = await asyncio.to_thread(unit.role.probe, self._at, unit.slot, process.pid)
            problem = str(said)
            self._notes.retry()
            if not isinstance(said, probes.Deaf):
                deaf_since = None
            elif deaf_since is None:
                deaf_since = asked
            starting = unit.seen.state not in {state.READY, state.NOT_READY}
            patience_s = self._pace.deaf_at_start_s if starting else self._pace.deaf_s
            if not problem:
                self._became_ready(unit)
            elif not starting:
                self._became_unready(unit, problem)
            elif unit.seen.reason != problem:
                self._change(unit, unit.seen.state, reason=problem)
            if deaf_since is not None and self._clock.monotonic() - deaf_since >= patience_s:
                self._console.say(f"{unit.name} has been deaf for {patience_s:g} s and is killed.")
                unit.killed = f"deaf for {patience_s:g} s, and killed for that"
                process.kill()
                return
            if unit.seen.state == state.READY:
                pause_s = self._pace.probe_running_s
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, self._pace.probe_most_s)

    def _became_ready(self, unit: _Unit) -> None:
        if unit.seen.state == state.READY:
            return
        if unit.seen.state == state.NOT_READY:
            self._console.say(f"{unit.name} is ready again.")
        self._change(unit, state.READY, ready_ms=self._clock.now_ms(), reason="")
        unit.ready.set()

    def _became_unready(self, unit: _Unit, problem: str) -> None:
        if unit.seen.state == state.READY:
            self._console.say(f"{unit.name} is not ready: {problem}.")
        if unit.seen.state == state.READY or unit.seen.reason != problem:
            self._change(unit, state.NOT_READY, reason=problem, last_error=problem, last_error_ms=self._clock.now_ms())

    async def _stop_all(self) -> None:
        """Those that nobody needs any more first, and so down to the store."""
        left = [unit for unit in self._units if unit.process is not None]
        while left:
            needed = {name for unit in left for name in unit.role.declared.needs}
            layer = [unit for unit in left if unit.role.name not in needed]
            await asyncio.gather(*(self._stop_one(unit) for unit in layer))
            left = [unit for unit in left if unit not in layer]

    async def _stop_one(self, unit: _Unit) -> None:
        if unit.process is None:
            return
        self._change(unit, state.STOPPING)
        begun = self._clock.monotonic()
        await unit.process.stop(unit.role.declared.grace_s)
        if self._clock.monotonic() - begun >= unit.role.declared.grace_s:
            self._console.say(f"{unit.name} did not stop within {unit.role.declared.grace_s:g} s and was killed.")

    async def _end_leftovers(self) -> None:
        """End what an earlier supervisor of this installation left: two stores on one folder would ruin its log."""
        before = state.read(self._at.state)
        left = [role for role in before.roles if role.process() is not None] if before else []
        if not left:
            return
        self._console.say(f"Waiting for {', '.join(role.name for role in left)} of an earlier start to end …")
        for end in (None, psutil.Process.terminate, psutil.Process.kill):
            for role in left:
                if end is not None and (process := role.process()) is not None:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        end(process)
            give_up = self._clock.monotonic() + self._pace.leftover_s
            while (left := [role for role in left if role.process() is not None]) and self._clock.monotonic() < give_up:
                await asyncio.sleep(0.1)

    def _needs(self, unit: _Unit) -> list[_Unit]:
        return [other for other in self._units if other.role.name in unit.role.declared.needs]

    async def _lasting(self, what: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """``work()`` until it returns. Nobody awaits it meanwhile: should it fail, that is told and it begins again."""
        delay_s = self._pace.backoff_first_s
        while True:
            try:
                await work()
                return
            except Exception as error:  # noqa: BLE001 - whatever it is, a role must not go unattended for it
                if self._stop.is_set():
                    return
                self._console.say(f"{what} failed ({text_of(error)}). Trying again in {delay_s:g} s.")
            await self._unless_stopped(asyncio.sleep(delay_s))
            delay_s = min(delay_s * 2, self._pace.backoff_most_s)

    async def _unless_stopped(self, *waits: Awaitable[object]) -> None:
        """Until all ``waits`` are over, or the supervisor is to stop."""
        if not waits:
            return
        both: list[asyncio.Future[Any]] = [asyncio.gather(*waits), asyncio.ensure_future(self._stop.wait())]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for waiting in both:
            waiting.cancel()
        await asyncio.gather(*both, return_exceptions=True)

    def _change(self, unit: _Unit, word: str, **values: object) -> None:
        unit.seen.state = word
        for name, value in values.items():
            setattr(unit.seen, name, value)
        self._write()

    def _write(self) -> None:
        self._notes.write(
            state.Snapshot(
                pid=os.getpid(),
                started_ms=self._started_ms,
                url=self._at.console_url,
                store=shown(self._at.store_url),
                embedded_store=not self._at.external_store,
                roles=[unit.seen for unit in self._units],
            ),
        )


def metrics_folder(folder: Path) -> Path:
    """Where the processes of one installation share their metrics."""
    return folder / "metrics"
