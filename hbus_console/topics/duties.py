"""What the keeper does for topics."""

from __future__ import annotations

from hbus_console.topics.trimmer import StreamRetention
from hbus_console.wiring import bus, fact_log, store


def stream_retention() -> StreamRetention:
    return StreamRetention(bus.admin, fact_log.emitter(), node=store.node_name())
