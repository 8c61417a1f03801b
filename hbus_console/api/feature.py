"""What all endpoints share."""

from __future__ import annotations

from hbus_console.registry.declaration import Feature

FEATURE = Feature(
    name="api",
    api=("hbus_console.api.reference",),
    duties=("hbus_console.api.housekeeping:IdempotencyExpiry",),
)
