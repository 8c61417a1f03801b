"""An installation to run the demonstration on: the one that runs already, else one for its duration."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import redis
from django.conf import settings

from engine.core.errors import ConfigurationError, Unavailable
from hbus_console import remembered
from hbus_console.cluster.services import nodes
from hbus_console.state import ROOT
from hbus_console.supervisor import state
from hbus_console.wiring import store

#: What has to run besides the store.
NEEDED = frozenset({"consumer", "keeper"})
#: Seconds until a started installation must be ready, and until it must have ended.
READY_S, END_S = 90.0, 15.0

Say = Callable[[str], None]


@contextmanager
def installation(say: Say) -> Iterator[None]:
    """Within the block consumer and keeper run on this STATE. Raises ``ConfigurationError`` or ``Unavailable``."""
    if state.is_running(settings.STATE):
        _await_roles(say)
        yield
        return
    if settings.REDIS_URL and _beating() >= NEEDED:
        yield
        return
    say("Nothing runs on this STATE yet: starting consumer and keeper for the duration of the demo.")
    # On the very first start this prints the administrator's password, here and nowhere else.
    _run("prepare")
    log = settings.STATE / "run" / "demo.log"
    with log.open("ab") as output:
        supervisor = subprocess.Popen(
            [sys.executable, str(ROOT / "manage.py"), "up", "--roles", ",".join(sorted(NEEDED))],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _await_ready(supervisor, log)
        yield
    finally:
        store.close()
        supervisor.terminate()
        supervisor.wait(END_S)


def console_url() -> str:
    """Where the console is, or will be once ``make run`` has started it."""
    snapshot = state.read(settings.STATE)
    return snapshot.url if snapshot else f"http://{settings.BIND}:{settings.PORT}"


def _run(command: str) -> None:
    ended = subprocess.run([sys.executable, str(ROOT / "manage.py"), command], check=False)
    if ended.returncode:
        raise ConfigurationError(f"manage.py {command} ended with {ended.returncode}.", remedy="Its words are above.")


def _await_ready(supervisor: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + READY_S
    while not _own_ready(supervisor.pid):
        if supervisor.poll() is not None or time.monotonic() > deadline:
            raise Unavailable("The installation did not become ready.", remedy=f"Its words are in {log}.")
        time.sleep(0.2)
    # The first start has only now chosen the ports of the embedded store and nsqd.
    settings.REDIS_URL = settings.REDIS_URL or remembered.store_url(settings.STATE)
    if not settings.NSQLOOKUPD_URL:
        settings.NSQD_URL = settings.NSQD_URL or remembered.nsqd_urls(settings.STATE)


def _own_ready(pid: int) -> bool:
    snapshot = state.read(settings.STATE)
    return snapshot is not None and snapshot.pid == pid and all(role.state == state.READY for role in snapshot.roles)


def _await_roles(say: Say) -> None:
    """The installation that runs may be starting still; or it runs without what the demonstration needs."""
    deadline = time.monotonic() + READY_S
    while missing := NEEDED - _beating():
        if time.monotonic() > deadline:
            raise ConfigurationError(
                f"The installation on {settings.STATE} runs without {' and '.join(sorted(missing))}.",
                remedy="Start it with all roles: make run.",
                field="ROLES",
            )
        say(f"Waiting for {' and '.join(sorted(missing))} …")
        time.sleep(2)


def _beating() -> set[str]:
    try:
        return {node.role for node in nodes() if not node.silent}
    except (redis.RedisError, ConfigurationError):
        return set()
