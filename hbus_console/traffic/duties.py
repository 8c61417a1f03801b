"""What the keeper does for rates and lag."""

from __future__ import annotations

from hbus_console.traffic.sampler import LagSampler
from hbus_console.wiring import bus, store
from hbus_console.wiring.facts import emitter


def lag_sampler() -> LagSampler:
    return LagSampler(bus.admin, emitter(), node=store.node_name())
