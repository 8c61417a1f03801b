from __future__ import annotations

from django.apps import AppConfig


class TrafficConfig(AppConfig):
    name = "hbus_console.traffic"
    label = "traffic"
