"""Both ends of the way of facts: the log of this process, counted, logged and written to the store's fact stream, and
the duty that books from there; see :mod:`.store`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

from engine.core.fact_log import FactLog
from engine.core.facts import Emitter, NullFacts
from hbus_console.evidence.fact_stream import FactReader, FactStream
from hbus_console.logs import LoggingSink
from hbus_console.metrics import CountingSink, count
from hbus_console.wiring import store
from hbus_console.wiring.store import Closing, once

if TYPE_CHECKING:
    from hbus_console.evidence.collector import FactCollector


def emitter() -> Emitter:
    """The process's fact log; the keeper books from the stream it writes to. Thread-safe."""
    return once("facts", _open, _close, Closing.FACTS)


def fact_collector() -> FactCollector:
    """The duty of the keeper."""
    # Whoever emits facts needs no database for it.
    from hbus_console.evidence.collector import FactCollector

    reader = FactReader(store.client(), settings.HBUS_PREFIX)
    return FactCollector(reader, per_message=settings.HBUS_LEDGER, count=count)


def _open() -> Emitter:
    if not settings.HBUS_FACTS:
        return NullFacts()
    stream = FactStream(store.client(), settings.HBUS_PREFIX)
    return FactLog(CountingSink(LoggingSink(stream, everything=settings.LOG_FACTS == "all")))


def _close(log: Emitter, drain_s: float) -> None:
    if isinstance(log, FactLog):
        log.close(drain_s)
