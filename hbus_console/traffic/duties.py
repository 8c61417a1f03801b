"""What the keeper does for rates and lag."""

from __future__ import annotations

from hbus_console.traffic.sampler import LagSampler
from hbus_console.wiring import bus, store


def lag_sampler() -> LagSampler:
    return LagSampler(bus.admin, store.facts(), node=store.node_name())
