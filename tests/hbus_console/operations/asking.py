"""Whether stores are asked while a transaction of the database is open, which makes every other writer wait."""

from __future__ import annotations

import pytest
from django.db import connection

from engine.bus.transport import Admin
from hbus_console.wiring import bus


def asked_in_transaction(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """From now on one entry each time a store's admin side is asked for; for tests that run in no transaction."""
    asked: list[bool] = []
    real = bus.admin

    def admin(name: str = "") -> Admin:
        asked.append(connection.in_atomic_block)
        return real(name)

    monkeypatch.setattr(bus, "admin", admin)
    return asked
