from __future__ import annotations

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "hbus_console.operations"
    label = "operations"
