"""Nodes and limiters by how they stand, as gauges. Which tenant of which node it is, its pages and facts say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from prometheus_client import Gauge

from engine.quota import Source
from hbus_console.metrics import was_set
from hbus_console.quotas.standing import NodeNow

_STATES = ("reached", "cut_off", "silent")
_NODES = Gauge(
    "hbus_quota_nodes",
    "Processes that hold to limits: those that reach their control plane, are cut off from it, or have fallen silent.",
    ("state",),
    multiprocess_mode="mostrecent",
)
_LIMITERS = Gauge(
    "hbus_quota_limiters",
    "Limiters that nodes told of, by where their tokens come from.",
    ("source",),
    multiprocess_mode="mostrecent",
)


def show_nodes(nodes: Iterable[NodeNow], now_ms: int) -> None:
    """Set the gauges from all that told within the hour; limiters of silent ones count no more."""
    states, sources = Counter[str](), Counter[str]()
    for node in nodes:
        states["silent" if node.silent else "cut_off" if node.cut_off else "reached"] += 1
        if not node.silent:
            sources.update(limiter.source.value for limiter in node.report.limiters)
    for state in _STATES:
        _NODES.labels(state).set(states[state])
    for source in Source:
        _LIMITERS.labels(source.value).set(sources[source.value])
    was_set((_NODES, _LIMITERS), now_ms)
