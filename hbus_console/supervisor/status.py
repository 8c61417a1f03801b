"""What runs, for ``manage.py status`` and the cluster page: the supervisor's record, the kernel's word, the stamps."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import psutil

from engine.core.clock import Clock
from hbus_console.nodes.clocks import ClockDifference
from hbus_console.nodes.stamps import Node
from hbus_console.supervisor import state

#: A process the supervisor says it has and the kernel does not know.
GONE = "gone"
#: Words of a process that is as it should be.
_FINE = {state.READY, "beating"}
#: And of one that is on its way up.
_COMING = {state.WAITING, state.STARTING, state.BACKING_OFF}


@dataclass(frozen=True)
class ProcessLine:
    """One process. Times in epoch milliseconds and seconds, memory in bytes; 0 where it is not known."""

    role: str
    slot: str
    state: str
    pid: int
    host: str
    uptime_s: int
    restarts: int
    memory: int
    address: str
    #: Why it is not ready now, else what it last died of.
    last_error: str
    #: How long ago that was; 0 while it is so.
    last_error_age_s: int = 0
    #: How far its clock is from the store's, as it last stamped.
    clock: ClockDifference | None = None
    #: Whether that is more than it may be.
    clock_wrong: bool = False


@dataclass(frozen=True)
class Status:
    """The whole installation at one instant."""

    running: bool
    url: str
    store: str
    lines: list[ProcessLine]

    @property
    def healthy(self) -> bool:
        """Whether everything that should run does."""
        return bool(self.lines) and all(line.state in _FINE for line in self.lines)

    @property
    def memory(self) -> int:
        """Resident bytes of all processes on this machine."""
        return sum(line.memory for line in self.lines)

    def as_dict(self) -> dict[str, Any]:
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return {**plain, "healthy": self.healthy, "memory": self.memory}


def being_started(folder: Path, role: str) -> bool:
    """Whether the supervisor of ``folder`` has a process of that role on its way up, for the first time or anew."""
    snapshot = state.read(folder)
    if snapshot is None or not state.is_running(folder):
        return False
    return any(each.role == role and each.state in _COMING for each in snapshot.roles)


def collect(folder: Path, nodes: Sequence[Node], clock: Clock, *, clock_alarm_ms: int) -> Status:
    """Bring together the supervisor of ``folder`` and the ``nodes``: each is a line, once.

    A clock that is further from the store's than ``clock_alarm_ms`` is marked.
    """
    snapshot = state.read(folder)
    running = state.is_running(folder)
    now_ms = clock.now_ms()
    lines = []
    if snapshot is not None and running:
        lines.append(
            ProcessLine(
                role="supervisor",
                slot="0",
                state=state.READY,
                pid=snapshot.pid,
                host="",
                uptime_s=(now_ms - snapshot.started_ms) // 1000,
                restarts=0,
                memory=snapshot.memory(),
                address="",
                last_error="",
            )
        )
    own, slots = set(), _slots_here(snapshot)
    for role in snapshot.roles if snapshot is not None else ():
        own.add(role.pid)
        line = _own_line(role, running, now_ms)
        stamped = next((node for node in nodes if (node.pid, node.role) == (role.pid, role.role)), None)
        lines.append(_with_clock(line, stamped, clock_alarm_ms))
    lines.extend(
        _with_clock(_line_of_node(node, now_ms), node, clock_alarm_ms)
        for node in nodes
        if node.pid not in own
        # Of what the supervisor has started anew it tells itself.
        and not (node.silent and running and (node.host, node.role, node.slot) in slots)
    )
    return Status(
        running=running,
        url=snapshot.url if snapshot is not None else "",
        store=snapshot.store if snapshot is not None else "",
        lines=lines,
    )


def without_the_dead(folder: Path, nodes: Sequence[Node]) -> list[Node]:
    """``nodes``, silent where the kernel knows of no such process any more: a stamp looks fresh for seconds after that.

    Only of what the supervisor of ``folder`` starts: of another machine, or a container, this kernel knows nothing.
    """
    slots = _slots_here(state.read(folder))
    return [
        replace(node, silent=True)
        if not node.silent and (node.host, node.role, node.slot) in slots and _is_dead(node)
        else node
        for node in nodes
    ]


def _slots_here(snapshot: state.Snapshot | None) -> set[tuple[str, str, str]]:
    """What the supervisor starts on this machine: host, role and slot, as their stamps tell them."""
    here = socket.gethostname()
    return {(here, role.role, str(role.slot)) for role in snapshot.roles} if snapshot is not None else set()


def _is_dead(node: Node) -> bool:
    # That its number belongs to another already is not looked for: a clock that was set would make that up.
    try:
        return psutil.Process(node.pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def _own_line(role: state.RoleState, running: bool, now_ms: int) -> ProcessLine:
    alive = role.process() is not None
    word = role.state
    if not running and not alive:
        word = state.STOPPED
    elif role.pid and not alive:
        word = GONE
    return ProcessLine(
        role=role.role,
        slot=str(role.slot),
        state=word,
        pid=role.pid if alive else 0,
        host="",
        uptime_s=(now_ms - role.started_ms) // 1000 if alive else 0,
        restarts=role.restarts,
        memory=role.memory(),
        address=role.address,
        last_error=role.reason or role.last_error,
        last_error_age_s=(now_ms - role.last_error_ms) // 1000 if role.last_error and not role.reason else 0,
    )


def _with_clock(line: ProcessLine, node: Node | None, alarm_ms: int) -> ProcessLine:
    if node is None or node.clock is None:
        return line
    return replace(line, clock=node.clock, clock_wrong=node.clock.beyond(alarm_ms))


def _line_of_node(node: Node, now_ms: int) -> ProcessLine:
    return ProcessLine(
        role=node.role,
        slot=node.slot,
        state="silent" if node.silent else "beating",
        pid=node.pid,
        host=node.host,
        # Its clock may be ahead of this one. Of what has fallen silent nobody knows whether it is up.
        uptime_s=0 if node.silent else max(0, now_ms - node.started_ms) // 1000,
        restarts=0,
        memory=0,
        address="",
        last_error=f"last stamped {(now_ms - node.stamp_ms) // 1000} s ago" if node.silent else "",
    )
