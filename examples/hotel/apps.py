from __future__ import annotations

from django.apps import AppConfig


class HotelConfig(AppConfig):
    name = "examples.hotel"
    label = "hotel"
