"""The producer of this process: on the transports of the settings, by the rules of the topics' rows."""

from __future__ import annotations

from django.conf import settings

from engine.bus.producer import Producer
from hbus_console.topics import catalog
from hbus_console.wiring import bus, fact_log, store
from hbus_console.wiring.store import Closing, once


def shared_producer() -> Producer:
    """The one that everything in this process publishes with. Thread-safe."""
    return once("producer", _open, lambda made, drain_s: made.close(drain_s), Closing.WORK)


def incarnation_of(topic: str) -> str:
    """Which topic of this name there is now; see :meth:`Producer.send`. Raises ``UnknownTopic``."""
    return catalog.shared().topic(topic).incarnation


def _open() -> Producer:
    return Producer(
        bus.transport,
        catalog.shared(),
        source=settings.HBUS_SOURCE,
        facts=fact_log.emitter(),
        delays=bus.delays(),
        node=store.node_name(),
    )
