"""Two hotels and their bookings: the example."""

from __future__ import annotations

from hbus_console.registry.declaration import Feature

FEATURE = Feature(
    name="hotel",
    duties=("examples.hotel.loading:LoadDuty",),
)
