"""The processes that host subscriptions."""

from __future__ import annotations

from hbus_console.registry.declaration import Feature, ProcessRole

FEATURE = Feature(
    name="consumers",
    concerns=("hbus_console.consumers.concerns:concerns",),
    live=("hbus_console.consumers.live:cells",),
    duties=(
        "hbus_console.consumers.duties:breaker_gauge",
        "hbus_console.consumers.duties:consumer_name_expiry",
    ),
    roles=(
        ProcessRole(
            "consumer",
            "hosts subscriptions",
            "hbus_console.supervisor.probes:node_beats",
            32,
            run="hbus_console.consumers.role:run",
            many=True,
            without="no subscription is read",
            place=20,
        ),
    ),
)
