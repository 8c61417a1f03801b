"""What goes wrong in the demonstration on purpose: the consumer is killed while it has messages in hand."""

from __future__ import annotations

import psutil
from django.conf import settings

from hbus_console.supervisor import state


def kill_consumer() -> bool:
    """SIGKILL to the processes of the role ``consumer`` on this STATE, and all below them; ``False`` where a supervisor
    that would start them again does not run here."""
    snapshot = state.read(settings.STATE) if state.is_running(settings.STATE) else None
    found = [role.process() for role in snapshot.roles if role.role == "consumer"] if snapshot else []
    killed = False
    for process in filter(None, found):
        try:
            for each in [*process.children(recursive=True), process]:
                each.kill()
                killed = True
        except psutil.NoSuchProcess:
            continue
    return killed
