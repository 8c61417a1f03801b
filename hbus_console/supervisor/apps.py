from __future__ import annotations

from django.apps import AppConfig


class SupervisorConfig(AppConfig):
    name = "hbus_console.supervisor"
    label = "supervisor"
