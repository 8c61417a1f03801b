"""What one role process does: its checks, then its work, in this process and in the foreground."""

from __future__ import annotations

import os
from pathlib import Path

from django.conf import settings

from engine.core.env import Env
from engine.core.errors import BadInput
from hbus_console.supervisor import checks, leash, state
from hbus_console.supervisor.closing import close
from hbus_console.supervisor.installation import Installation
from hbus_console.supervisor.roles import SupervisedRole
from hbus_console.wiring import store

#: Between the end of the grace and the end of a process whose supervisor has gone.
_CLOSING_S = 2


def run(role: SupervisedRole, slot: int) -> None:
    """Run ``role`` until it is told to stop.

    Raises ``ConfigurationError`` or ``Unavailable`` before anything starts when what it stands on will not do.
    """
    if slot and not role.declared.many:
        raise BadInput(f"Only one {role.name} runs on one machine.", remedy="Use slot 0.", field="slot")
    os.environ["HBUS_ROLE"] = role.name
    os.environ["HBUS_SLOT"] = str(slot)
    supervisor = Env().integer("HBUS_SUPERVISOR_PID", 0, least=0, most=2**31)
    if role.embedded:
        _run_embedded(role)
        return
    if supervisor:
        leash.watch_parent(supervisor, settings.HBUS_GRACE_S + _CLOSING_S)
    if not supervisor:
        close(settings.STATE, _print)
    checks.check_databases()
    if not supervisor:
        store.url()
        for warning in checks.check_stores(_print):
            _print(f"Warning: {warning}")
        checks.check_migrated()
    role.run(slot)


def _print(line: str) -> None:
    print(line, flush=True)


def _run_embedded(role: SupervisedRole) -> None:
    if state.is_running(Path(settings.STATE)):
        raise BadInput(
            f"The {role.name} of {settings.STATE} already runs under its supervisor.",
            remedy="Stop that one, or name another STATE.",
            field="STATE",
        )
    at = Installation.from_settings(starting_store=role.name == "store", starting_nsqd=role.name == "nsqd")
    command = role.command(at, 0)
    os.execv(command[0], command)  # noqa: S606 - no shell on purpose
