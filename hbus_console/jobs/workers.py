"""Which machines have workers of jobs, as these say themselves in the store."""

from __future__ import annotations

import redis

from engine.core.clock import SystemClock
from engine.core.scripts import UNREACHABLE, away
from hbus_console.nodes.stamps import read_nodes


def working_nodes(client: redis.Redis, prefix: str) -> tuple[str, ...]:
    """The names of those that live, in order. Raises ``Unavailable``."""
    try:
        found = read_nodes(client, prefix, SystemClock())
    except UNREACHABLE as error:
        raise away(error) from error
    # A process is called HOST:ROLE:SLOT.
    return tuple(sorted({node.name.rsplit(":", 2)[0] for node in found if node.role == "jobs" and not node.silent}))
