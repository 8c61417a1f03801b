"""The bus of this process: transports, producer, topics, delays, inbox, positions, breakers; see :mod:`.store`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

from engine.bus.config import BusConfig
from engine.bus.registry import BUILT_IN, known_transports, open_transport
from engine.bus.transport import Admin, Replicating, Transport
from engine.core.errors import ConfigurationError
from engine.core.store import StoreAddress
from hbus_console.wiring import store
from hbus_console.wiring.store import Closing, once

if TYPE_CHECKING:
    from engine.bus.breaker_board import RedisBreakers
    from engine.bus.catalog import TopicCatalog
    from engine.bus.delays import RedisDelays
    from engine.bus.inbox import Inbox, Positions
    from engine.bus.producer import Producer

# Each of the imports inside functions below is of what one kind of process needs: a page asks transports and has no
# producer, a keeper has no inbox.


def config(transport: str = "") -> BusConfig:
    """The configuration of a transport; the installation's default when unnamed.

    ``redis_stream@busy`` is the one on the store that ``HBUS_STORES`` calls busy.
    """
    options = {
        "nsqd": ",".join(settings.NSQD_URL),
        "nsqlookupd": ",".join(settings.NSQLOOKUPD_URL),
        "max_bytes": str(settings.NSQD_MAX_BYTES),
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


def catalog() -> TopicCatalog:
    """The topics of the database, cached for a moment."""
    from hbus_console.topics.catalog import DjangoCatalog

    return once("catalog", DjangoCatalog)


def delays() -> RedisDelays:
    """The path of messages that are due later."""
    from engine.bus.delays import RedisDelays

    replicas = StoreAddress.parse(store.url()).replicas
    return once("delays", lambda: RedisDelays(store.client(), settings.HBUS_PREFIX, replicas=replicas))


def producer() -> Producer:
    """The process's producer. Thread-safe."""
    from engine.bus.producer import Producer
    from hbus_console.wiring.facts import emitter

    return once(
        "producer",
        lambda: Producer(
            transport,
            catalog(),
            source=settings.HBUS_SOURCE,
            facts=emitter(),
            delays=delays(),
            node=store.node_name(),
        ),
        lambda made, drain_s: made.close(drain_s),
        Closing.WORK,
    )


def inbox() -> Inbox:
    """The inbox of transactional subscriptions, in the default database."""
    from hbus_console.outbox.inbox import DjangoInbox

    return once("inbox", DjangoInbox)


def positions() -> Positions:
    """Where subscriptions go on after the store has lost them, as the database remembers."""
    from hbus_console.consumers.positions import DjangoPositions

    return once("positions", DjangoPositions)


def breakers() -> RedisBreakers:
    """Where all consumers of a subscription share its breaker, whatever transport carries the topic."""
    from engine.bus.breaker_board import RedisBreakers

    return once("breakers", lambda: RedisBreakers(store.client(), settings.HBUS_PREFIX))
