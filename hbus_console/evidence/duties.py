"""What the keeper does for the evidence."""

from __future__ import annotations

from django.conf import settings

from hbus_console.evidence.collector import FactCollector
from hbus_console.evidence.fact_stream import FactReader
from hbus_console.wiring import store


def fact_collector() -> FactCollector:
    return FactCollector(FactReader(store.client(), settings.HBUS_PREFIX), per_message=settings.HBUS_LEDGER)
