from __future__ import annotations

from django.apps import AppConfig


class OverviewConfig(AppConfig):
    name = "hbus_console.overview"
    label = "overview"
