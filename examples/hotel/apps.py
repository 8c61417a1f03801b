from __future__ import annotations

from django.apps import AppConfig


class HotelConfig(AppConfig):
    name = "examples.hotel"
    label = "hotel"

    def ready(self) -> None:
        from examples.hotel import console
        from examples.hotel.loading import LoadDuty
        from hbus_console.keeper.duties import add_duty

        add_duty(LoadDuty)
        console.offer()
