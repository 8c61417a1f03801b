"""What one role process does: its checks, then its work, in this process and in the foreground."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.core.management import call_command

from engine.core.env import Env
from engine.core.errors import BadInput
from hbus_console.supervisor import checks, leash, state
from hbus_console.supervisor.installation import Installation
from hbus_console.supervisor.roles import EMBEDDED, Role

#: Between the end of the grace and the end of a process whose supervisor has gone.
_CLOSING_S = 2


def run(role: Role, slot: int) -> None:
    """Run ``role`` until it is told to stop.

    Raises ``ConfigurationError`` or ``Unavailable`` before anything starts when what it stands on will not do.
    """
    if slot and not role.many:
        raise BadInput(f"Only one {role.name} runs on one machine.", remedy="Use slot 0.", field="slot")
    os.environ["HBUS_ROLE"] = role.name
    os.environ["HBUS_SLOT"] = str(slot)
    supervisor = Env().integer("HBUS_SUPERVISOR_PID", 0, least=0, most=2**31)
    if role.name in EMBEDDED:
        _run_embedded(role.name)
        return
    if supervisor:
        leash.watch_parent(supervisor, settings.HBUS_GRACE_S + _CLOSING_S)
    checks.check_databases()
    if not supervisor:
        from hbus_console.wiring import store

        store.url()
        for warning in checks.check_stores(_print):
            _print(f"Warning: {warning}")
        checks.check_migrated()
    _MAIN[role.name](slot)


def _print(line: str) -> None:
    print(line, flush=True)


def _run_embedded(name: str) -> None:
    if state.is_running(Path(settings.STATE)):
        raise BadInput(
            f"The {name} of {settings.STATE} already runs under its supervisor.",
            remedy="Stop that one, or name another STATE.",
            field="STATE",
        )
    at = Installation.from_settings(starting_store=name == "store", starting_nsqd=name == "nsqd")
    command = EMBEDDED[name](at)
    os.execv(command[0], command)  # noqa: S606 - no shell on purpose


def _run_web(_: int) -> None:
    from hbus_console.supervisor.web import serve

    serve(settings.BIND, settings.PORT, settings.HBUS_GRACE_S)


def _run_consumer(slot: int) -> None:
    from celery.bin.celery import celery as command_line

    from hbus_console.celery import app

    # What Celery fears of root is pickle, and nothing here reads it.
    warnings.filterwarnings("ignore", message="You're running the worker with superuser privileges")
    arguments = [
        "--quiet",
        "worker",
        "--pool=threads",
        "--concurrency=1",
        "--without-gossip",
        "--without-mingle",
        f"--hostname=consumer-{slot}@%h",
    ]
    # `app.worker_main` would do the same and keep to itself how the worker ended.
    command_line.params[0].default = app
    sys.exit(command_line.main(args=arguments, standalone_mode=False) or 0)


def _run_keeper(_: int) -> None:
    call_command("keeper")


_MAIN: dict[str, Callable[[int], None]] = {"web": _run_web, "consumer": _run_consumer, "keeper": _run_keeper}
