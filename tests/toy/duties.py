from __future__ import annotations

from django.db.models import F

from hbus_console.database import fresh_connections
from tests.toy.models import Lamp


class LampTimer:
    """A keeper duty: looks at every lamp."""

    name = "lamp-timer"
    interval_s = 0.2

    def tick(self) -> None:
        with fresh_connections():
            Lamp.objects.update(looks=F("looks") + 1)
