"""Two hotels and their bookings: the example."""

from __future__ import annotations

from hbus_console.registry.declaration import Feature

FEATURE = Feature(
    name="hotel",
    examples=("examples.hotel.console:EXAMPLE",),
    audit_words={
        "hotel.load": "began to play the bookings of",
        "hotel.partner_room_add": "added to the partner's catalogue the room category",
    },
    duties=("examples.hotel.loading:LoadDuty",),
)
