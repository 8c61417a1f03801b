"""Which machines have workers of jobs, as these say themselves in the store."""

from __future__ import annotations

import redis

from engine.core.clock import SystemClock
from engine.core.store.answered import answered
from engine.cron.slots.parts import host_of
from hbus_console.nodes.stamps import of_role, read_nodes


def working_nodes(client: redis.Redis, prefix: str) -> tuple[str, ...]:
    """The names of those that live, in order. Raises ``Unavailable``."""
    with answered():
        found = read_nodes(client, prefix, SystemClock())
    return tuple(sorted({host_of(node.name) for node in of_role(found, "jobs")}))
