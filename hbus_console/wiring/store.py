"""What every process stands on: its name, the store, its leases.

One set per process, made on first use by whichever thread comes first; a forked child makes its own. :func:`close`
drains and frees it, and what the files beside this one have added.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from django.conf import settings

from engine.core.errors import ConfigurationError
from engine.core.store import open_client

if TYPE_CHECKING:
    import redis

    from engine.core.leases import Ownership

T = TypeVar("T")

#: How long a lease lasts without renewal: how soon another process takes over from one that died.
LEASE_S = 10.0


class Closing(IntEnum):
    """When an object is closed, the smallest first: what still emits facts comes before the fact log, and so on."""

    WORK = 0
    FACTS = 1
    CONNECTION = 2
    STORE = 3


class _Made(NamedTuple):
    thing: Any
    closing: Closing
    #: ``close(drain_s)``.
    close: Callable[[float], object] | None


_lock = threading.RLock()
_made: dict[str, _Made] = {}


def once(
    name: str,
    make: Callable[[], T],
    close: Callable[[T, float], object] | None = None,
    closing: Closing = Closing.CONNECTION,
) -> T:
    """The process's object of that name, made now if it is not there yet. Thread-safe.

    ``close(thing, drain_s)`` is called by :func:`close`, in the order of ``closing``.
    """
    found: T
    # Asked with each request: cast() would cost as much as all this.
    try:
        found = _made[name].thing
    except KeyError:
        with _lock:
            if name not in _made:
                thing = make()
                _made[name] = _Made(thing, closing, None if close is None else lambda drain_s: close(thing, drain_s))
            found = _made[name].thing
    return found


def _forget() -> None:
    """In a forked child: sockets and threads of the parent are not ours to use, nor to close."""
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it during the fork
    _lock = threading.RLock()
    _made.clear()


os.register_at_fork(after_in_child=_forget)


def close(drain_s: float = 5.0) -> None:
    """Let running publishes end, flush the facts and close the connections; the next use makes new ones.

    Stop consumers and duties first. Each of the two waits lasts at most ``drain_s`` seconds.
    """
    with _lock:
        made = sorted(_made.values(), key=lambda one: one.closing)
        _made.clear()
    for one in made:
        if one.close is not None:
            one.close(drain_s)


def node_name() -> str:
    """The stable name of this process among consumers and in evidence: host, role and slot."""
    host = settings.HBUS_NODE or socket.gethostname()
    return f"{host}:{os.environ.get('HBUS_ROLE', 'shell')}:{os.environ.get('HBUS_SLOT', '0')}"


def url() -> str:
    """Where the store is; raises ``ConfigurationError`` when nobody said."""
    if not settings.REDIS_URL:
        raise ConfigurationError(
            "There is no store: REDIS_URL is not set.",
            remedy="Start with `make run`, or point REDIS_URL at a Redis or Valkey.",
            field="REDIS_URL",
        )
    return str(settings.REDIS_URL)


def named_url(name: str) -> str:
    """Where the store is that ``HBUS_STORES`` calls so; raises ``ConfigurationError`` when it names none."""
    try:
        return str(settings.HBUS_STORES[name])
    except KeyError:
        raise ConfigurationError(
            f"There is no store called {name!r}.", remedy=f"Name it: HBUS_STORES={name}=redis://…", field="HBUS_STORES"
        ) from None


def client() -> redis.Redis:
    """This process's client for evidence and coordination (not for the bus's own traffic)."""
    return once(
        "store",
        lambda: open_client(url(), health_check_interval=30),
        lambda made, _: made.close(),
        Closing.STORE,
    )


def lease(name: str) -> Ownership:
    """A new lease on ``name`` for this process; duties run under them."""
    # Scripts and keys of leases are loaded by who holds one: the keeper, and no page or command.
    from engine.core.leases import Lease

    return Lease(client(), settings.HBUS_PREFIX, name, owner=node_name(), ttl_s=LEASE_S)
