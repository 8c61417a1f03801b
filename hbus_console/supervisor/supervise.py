"""The process that stays: ``manage.py up`` has prepared everything, and becomes this one.

It imports neither Django nor what roles run, for it lives as long as they do and only starts, watches and ends them.
"""

from __future__ import annotations

import asyncio
import os
import sys
from typing import IO, NoReturn

import msgspec

from engine.core.prepared import prepared
from hbus_console.state import ROOT
from hbus_console.supervisor.console import Console
from hbus_console.supervisor.installation import Installation
from hbus_console.supervisor.roles import SupervisedRole, find
from hbus_console.supervisor.supervisor import Supervisor


class _Order(msgspec.Struct):
    """What the process that prepared tells the one that stays. It may hold a password, so it goes through a pipe."""

    at: Installation
    #: Names of roles and their slots, in starting order.
    wanted: list[tuple[str, int]]
    #: The descriptor that holds the installation's lock.
    lock: int


def become(at: Installation, wanted: list[tuple[SupervisedRole, int]], lock: IO[str]) -> NoReturn:
    """Turn this process into the supervisor of ``wanted``; process id and lock stay."""
    order = _Order(at, [(role.name, slot) for role, slot in wanted], lock.fileno())
    reading, writing = os.pipe()
    # Less than a pipe holds, so nobody has to read meanwhile.
    os.write(writing, msgspec.json.encode(order, enc_hook=str))
    os.close(writing)
    for descriptor in (reading, lock.fileno()):
        os.set_inheritable(descriptor, True)
    sys.stdout.flush()
    sys.stderr.flush()
    command = [sys.executable, str(ROOT / "manage.py"), "supervise", str(reading)]
    os.execv(command[0], command)  # noqa: S606 - no shell on purpose


def main(descriptor: int) -> int:
    """Run what stands in the pipe until told to stop; returns the exit code."""
    with os.fdopen(descriptor, "rb") as pipe:
        order = msgspec.json.decode(
            pipe.read(), type=prepared(_Order), dec_hook=lambda expected, given: expected(given)
        )
    # A child that kept it open would keep the installation locked.
    os.set_inheritable(order.lock, False)
    wanted = [(find(name), slot) for name, slot in order.wanted]
    supervisor = Supervisor(order.at, wanted, Console())
    code = asyncio.run(supervisor.run())
    if code:
        print(supervisor.failure, file=sys.stderr)
    return code
