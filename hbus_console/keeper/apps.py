from __future__ import annotations

from django.apps import AppConfig


class KeeperConfig(AppConfig):
    name = "hbus_console.keeper"
    label = "keeper"
