"""What the keeper does for rates and lag."""

from __future__ import annotations

from hbus_console.traffic.sampler import LagSampler
from hbus_console.wiring import bus, fact_log, store


def lag_sampler() -> LagSampler:
    return LagSampler(bus.admin, fact_log.emitter(), node=store.node_name())
