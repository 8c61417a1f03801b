from __future__ import annotations

from django.apps import AppConfig


class OutboxConfig(AppConfig):
    name = "hbus_console.outbox"
    label = "outbox"
