"""What the keeper does for publishing."""

from __future__ import annotations

from engine.bus.delay_mover import DelayMover
from hbus_console.publishing.producer import shared_producer
from hbus_console.wiring import bus


def delay_mover() -> DelayMover:
    return DelayMover(bus.delays(), shared_producer)
