"""What the keeper does for the API."""

from __future__ import annotations

from hbus_console.api import idempotency


class IdempotencyExpiry:
    """Forgets the API's idempotency keys once they are older than the API promises to remember them."""

    name = "idempotency-expiry"
    interval_s = 600.0

    def tick(self) -> None:
        idempotency.expire()
