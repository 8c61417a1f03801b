from __future__ import annotations

from django.apps import AppConfig


class HotelConfig(AppConfig):
    name = "examples.hotel"
    label = "hotel"

    def ready(self) -> None:
        from examples.hotel import console

        console.offer()
