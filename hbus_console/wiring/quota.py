"""The quota control plane of this process, as its settings say; see :mod:`.store`. The rules are with the rows."""

from __future__ import annotations

import redis
from django.conf import settings

from engine.core.store import open_client
from engine.quota.planes.grants import GrantMemory
from engine.quota.planes.redis import RedisControlPlane
from engine.quota.planes.seats import RedisSeatPlane
from hbus_console.wiring import store
from hbus_console.wiring.store import Closing, once

#: A control plane that has not answered for so long is away: nodes go by what they may spend alone. In seconds.
ANSWER_S = 1.0


def control_plane() -> RedisControlPlane:
    """The process's control plane. Thread-safe."""
    return once("quota plane", lambda: RedisControlPlane(_client(), settings.HBUS_PREFIX))


def seat_plane() -> RedisSeatPlane:
    """Where the seats are of those who work at once. Thread-safe."""
    return once("quota seats", lambda: RedisSeatPlane(_client(), settings.HBUS_PREFIX))


def grants() -> GrantMemory:
    """What nodes of others were told. Thread-safe."""
    return once("quota grants", lambda: GrantMemory(_client(), settings.HBUS_PREFIX))


def _client() -> redis.Redis:
    """A client of its own: who waits for tokens must know soon that nothing answers."""
    return once(
        "quota client",
        lambda: open_client(store.url(), answer_timeout_s=ANSWER_S, connect_timeout_s=ANSWER_S),
        lambda made, _: made.close(),
        Closing.STORE,
    )
