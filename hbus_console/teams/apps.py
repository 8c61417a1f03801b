from __future__ import annotations

from django.apps import AppConfig


class TeamsConfig(AppConfig):
    name = "hbus_console.teams"
    label = "teams"
