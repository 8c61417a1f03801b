"""The only place that builds engine objects out of settings and database rows.

One set per process, made on first use by whichever thread comes first; a forked child makes its own. :func:`close`
drains and frees it.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, cast

import redis
from django.conf import settings

from engine.bus.config import BusConfig
from engine.bus.registry import BUILT_IN, open_transport
from engine.bus.transport import Admin, Transport
from engine.core.errors import ConfigurationError
from engine.core.facts import Emitter, FactLog, NullFacts

if TYPE_CHECKING:
    from engine.bus.breaker_board import RedisBreakers
    from engine.bus.catalog import TopicCatalog
    from engine.bus.consumer import Consumer
    from engine.bus.delays import RedisDelays
    from engine.bus.inbox import Inbox, Positions
    from engine.bus.producer import Producer
    from engine.core.leases import Ownership
    from hbus_console.consumers.pair import Pair
    from hbus_console.subscriptions.models import Subscription

T = TypeVar("T")

#: How long a lease lasts without renewal: how soon another process takes over from one that died.
LEASE_S = 10.0

_lock = threading.RLock()
_made: dict[str, Any] = {}


def _once(name: str, make: Callable[[], T]) -> T:
    try:
        return cast(T, _made[name])
    except KeyError:
        with _lock:
            if name not in _made:
                _made[name] = make()
            return cast(T, _made[name])


def _forget() -> None:
    """In a forked child: sockets and threads of the parent are not ours to use, nor to close."""
    global _lock  # noqa: PLW0603 - another thread of the parent may have held it during the fork
    _lock = threading.RLock()
    _made.clear()


os.register_at_fork(after_in_child=_forget)


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


def store() -> redis.Redis:
    """This process's client for evidence and coordination (not for the bus's own traffic)."""
    return _once(
        "store",
        lambda: redis.Redis.from_url(
            redis_url(), socket_timeout=10, socket_connect_timeout=5, health_check_interval=30
        ),
    )


def bus_config(transport: str = "") -> BusConfig:
    """The configuration of a transport; the installation's default when unnamed."""
    options = {
        "nsqd": ",".join(settings.NSQD_URL),
        "nsqlookupd": ",".join(settings.NSQLOOKUPD_URL),
        "max_bytes": str(settings.NSQD_MAX_BYTES),
    }
    name = transport or settings.HBUS_TRANSPORT
    # Ours know the store; a stranger's may have another.
    url = (name not in BUILT_IN and settings.HBUS_TRANSPORT_URL) or redis_url()
    return BusConfig(type=name, url=url, prefix=settings.HBUS_PREFIX, options=options)


def transport(name: str = "") -> Transport:
    """The process's transport of that name. Thread-safe."""
    name = name or settings.HBUS_TRANSPORT
    return _once(f"transport {name}", lambda: open_transport(bus_config(name)))


def admin(name: str = "") -> Admin:
    """The admin side of a transport."""
    return transport(name).admin


def facts() -> Emitter:
    """The process's fact log, written to the store's fact stream, from where the keeper books it."""
    return _once("facts", _open_facts)


def catalog() -> TopicCatalog:
    """The topics of the database, cached for a moment."""
    from hbus_console.topics.catalog import DjangoCatalog

    return _once("catalog", DjangoCatalog)


def delays() -> RedisDelays:
    """The path of messages that are due later."""
    from engine.bus.delays import RedisDelays

    return _once("delays", lambda: RedisDelays(store(), settings.HBUS_PREFIX))


def producer() -> Producer:
    """The process's producer. Thread-safe."""
    from engine.bus.producer import Producer

    return _once(
        "producer",
        lambda: Producer(
            transport, catalog(), source=settings.HBUS_SOURCE, facts=facts(), delays=delays(), node=node_name()
        ),
    )


def inbox() -> Inbox:
    """The inbox of transactional subscriptions, in the default database."""
    from hbus_console.outbox.inbox import DjangoInbox

    return _once("inbox", DjangoInbox)


def positions() -> Positions:
    """Where subscriptions go on after the store has lost them, as the database remembers."""
    from hbus_console.consumers.positions import DjangoPositions

    return _once("positions", DjangoPositions)


def breakers() -> RedisBreakers:
    """Where all consumers of a subscription share its breaker, whatever transport carries the topic."""
    from engine.bus.breaker_board import RedisBreakers

    return _once("breakers", lambda: RedisBreakers(store(), settings.HBUS_PREFIX))


def lease(name: str) -> Ownership:
    """A new lease on ``name`` for this process; duties run under them."""
    from engine.core.leases import Lease

    return Lease(store(), settings.HBUS_PREFIX, name, owner=node_name(), ttl_s=LEASE_S)


def consumer_for(subscription: Subscription) -> Consumer | Pair:
    """A consumer for one row, not started; its topic must be loaded.

    Raises ``ConfigurationError`` when the row's handler is code that this process has not registered.
    """
    from engine.bus.consumer import Consumer
    from hbus_console.consumers.pair import Pair
    from hbus_console.consumers.policies import handler_of, policy_of

    policy = policy_of(subscription)
    handler = handler_of(subscription)

    def on(name: str) -> Consumer:
        return Consumer(
            transport(name),
            policy,
            handler.call,
            name=node_name(),
            facts=facts(),
            inbox=inbox() if policy.transactional else None,
            positions=positions(),
            handler_name=handler.name,
            breakers=breakers(),
        )

    topic = subscription.topic
    return Pair(on(topic.transport), on(topic.leaving)) if topic.leaving else on(topic.transport)


def close(drain_s: float = 5.0) -> None:
    """Let running publishes end, flush the facts and close the connections; the next use makes new ones.

    Stop consumers and duties first. Each of the two waits lasts at most ``drain_s`` seconds.
    """
    with _lock:
        made = dict(_made)
        _made.clear()
    if "producer" in made:
        made["producer"].close(drain_s)
    if isinstance(log := made.get("facts"), FactLog):
        log.close(drain_s)
    for name, thing in made.items():
        if name.startswith("transport "):
            thing.close()
    if "store" in made:
        made["store"].close()


def _open_facts() -> Emitter:
    if not settings.HBUS_FACTS:
        return NullFacts()
    from hbus_console.evidence.fact_stream import FactStream
    from hbus_console.logs import LoggingSink
    from hbus_console.metrics import CountingSink

    stream = FactStream(store(), settings.HBUS_PREFIX)
    return FactLog(CountingSink(LoggingSink(stream, everything=settings.LOG_FACTS == "all")))
