"""The producer of this process: on the transports of the settings, by the rules of the topics' rows."""

from __future__ import annotations

from django.conf import settings

from engine.bus.producer import Producer
from hbus_console.topics.catalog import shared_catalog
from hbus_console.wiring import bus, store
from hbus_console.wiring.facts import emitter
from hbus_console.wiring.store import Closing, once


def shared_producer() -> Producer:
    """The one that everything in this process publishes with. Thread-safe."""
    return once("producer", _open, lambda made, drain_s: made.close(drain_s), Closing.WORK)


def _open() -> Producer:
    return Producer(
        bus.transport,
        shared_catalog(),
        source=settings.HBUS_SOURCE,
        facts=emitter(),
        delays=bus.delays(),
        node=store.node_name(),
    )
