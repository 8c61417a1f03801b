from __future__ import annotations

from django.apps import AppConfig


class DeadlettersConfig(AppConfig):
    name = "hbus_console.deadletters"
    label = "deadletters"
