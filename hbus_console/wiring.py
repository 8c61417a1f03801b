"""The only place that builds engine objects out of settings and database rows.

One set per process, made on first use; :func:`close` drains and frees it.
"""

from __future__ import annotations

import os
import socket
import threading
from functools import cache

import redis
from django.conf import settings

from engine.bus.config import BusConfig
from engine.bus.registry import open_transport
from engine.bus.transport import Admin, Transport
from engine.core.errors import ConfigurationError
from engine.core.facts import Emitter, FactLog, NullFacts

_lock = threading.RLock()
_transports: dict[str, Transport] = {}


def node_name() -> str:
    """The stable name of this process among consumers and in evidence: host, role and slot."""
    host = settings.HBUS_NODE or socket.gethostname()
    return f"{host}:{os.environ.get('HBUS_ROLE', 'shell')}:{os.environ.get('HBUS_SLOT', '0')}"


def redis_url() -> str:
    """Where the store is; raises ``ConfigurationError`` when nobody said."""
    if not settings.REDIS_URL:
        raise ConfigurationError(
            "There is no store: REDIS_URL is not set.",
            remedy="Start with `make run`, or point REDIS_URL at a Redis or Valkey.",
            field="REDIS_URL",
        )
    return str(settings.REDIS_URL)


@cache
def store() -> redis.Redis:
    """This process's client for evidence and coordination (not for the bus's own traffic)."""
    return redis.Redis.from_url(redis_url(), socket_timeout=10, socket_connect_timeout=5, health_check_interval=30)


def bus_config(transport: str = "") -> BusConfig:
    """The configuration of a transport; the installation's default when unnamed."""
    return BusConfig(type=transport or settings.HBUS_TRANSPORT, url=redis_url(), prefix=settings.HBUS_PREFIX)


def transport(name: str = "") -> Transport:
    """The process's transport of that name. Thread-safe."""
    name = name or settings.HBUS_TRANSPORT
    with _lock:
        if name not in _transports:
            _transports[name] = open_transport(bus_config(name))
        return _transports[name]


def admin(name: str = "") -> Admin:
    """The admin side of a transport."""
    return transport(name).admin


@cache
def facts() -> Emitter:
    """The process's fact log, written to the store's fact stream, from where the keeper books it."""
    if not settings.HBUS_FACTS:
        return NullFacts()
    from hbus_console.ledger.fact_stream import FactStream

    return FactLog(FactStream(store(), settings.HBUS_PREFIX))
