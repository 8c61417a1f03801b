"""The bus of this process as its settings say: transports, delays, breakers; see :mod:`.store`.

It knows no feature. What stands on rows is made where these are: the producer by who publishes, consumers by who runs
them.
"""

from __future__ import annotations

from django.conf import settings

from engine.bus.breaker_board import RedisBreakers
from engine.bus.config import BusConfig
from engine.bus.delays import RedisDelays
from engine.bus.optional import Replicating
from engine.bus.registry import BUILT_IN, known_transports, open_transport
from engine.bus.transport import Admin, Transport
from engine.core.errors import ConfigurationError
from engine.core.store import StoreAddress
from hbus_console.wiring import store
from hbus_console.wiring.store import once


def config(transport: str = "") -> BusConfig:
    """The configuration of a transport; the installation's default when unnamed.

    ``redis_stream@busy`` is the one on the store that ``HBUS_STORES`` calls busy.
    """
    options = {
        "nsqd": ",".join(settings.NSQD_URL),
        "nsqlookupd": ",".join(settings.NSQLOOKUPD_URL),
        "max_bytes": str(settings.NSQD_MAX_BYTES),
        "keep": settings.NSQ_KEEP,
    }
    name, _, store_name = (transport or settings.HBUS_TRANSPORT).partition("@")
    if store_name:
        url = store.named_url(store_name)
    else:
        # Ours know the store; a stranger's may have another.
        url = (name not in BUILT_IN and settings.HBUS_TRANSPORT_URL) or store.url()
    return BusConfig(type=name, url=url, prefix=settings.HBUS_PREFIX, options=options)


def carriers() -> list[str]:
    """What a topic may name as its transport: every one there is, and Redis Streams on each store with a name."""
    return sorted([*known_transports(), *(f"redis_stream@{name}" for name in settings.HBUS_STORES)])


def replicas_of(name: str) -> int:
    """How many replicas a publish through the transport of that name waits for, by the address of its store."""
    try:
        if isinstance(transport(name), Replicating):
            return StoreAddress.parse(config(name).url).replicas
    except ConfigurationError:
        # It cannot be opened at all: the publish itself says so.
        pass
    return 0


def transport(name: str = "") -> Transport:
    """The process's transport of that name. Thread-safe."""
    name = name or settings.HBUS_TRANSPORT
    return once(f"transport {name}", lambda: open_transport(config(name)), lambda made, _: made.close())


def admin(name: str = "") -> Admin:
    """The admin side of a transport."""
    return transport(name).admin


def delays() -> RedisDelays:
    """The path of messages that are due later."""
    replicas = StoreAddress.parse(store.url()).replicas
    return once("delays", lambda: RedisDelays(store.client(), settings.HBUS_PREFIX, replicas=replicas))


def breakers() -> RedisBreakers:
    """Where all consumers of a subscription share its breaker, whatever transport carries the topic."""
    return once("breakers", lambda: RedisBreakers(store.client(), settings.HBUS_PREFIX))
