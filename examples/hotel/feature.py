"""Two hotels and their bookings: the example."""

from __future__ import annotations

from hbus_console.registry.declaration import Feature

FEATURE = Feature(
    name="hotel",
    examples=("examples.hotel.console:EXAMPLE",),
    duties=("examples.hotel.loading:LoadDuty",),
)
