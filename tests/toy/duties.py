from __future__ import annotations

from django.db.models import F

from tests.toy.models import Lamp


class LampTimer:
    """A keeper duty: looks at every lamp."""

    name = "lamp-timer"
    interval_s = 0.2

    def tick(self) -> None:
        Lamp.objects.update(looks=F("looks") + 1)
