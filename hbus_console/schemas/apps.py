from __future__ import annotations

from django.apps import AppConfig


class SchemasConfig(AppConfig):
    name = "hbus_console.schemas"
    label = "schemas"
