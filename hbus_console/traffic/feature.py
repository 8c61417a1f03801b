"""Rates, lag and charts."""

from __future__ import annotations

from hbus_console.registry.declaration import Feature, Mount

FEATURE = Feature(
    name="traffic",
    offers=("flow", "lag", "standing"),
    pages=(Mount("", "hbus_console.traffic.urls"),),
    duties=("hbus_console.traffic.duties:lag_sampler",),
    alerts=("hbus_console.traffic.alerts:KINDS",),
    concerns=("hbus_console.traffic.concerns:concerns",),
    live=("hbus_console.traffic.live:cells",),
)
