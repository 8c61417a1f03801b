from __future__ import annotations

from django.apps import AppConfig


class ReplaysConfig(AppConfig):
    name = "hbus_console.replays"
    label = "replays"

    def ready(self) -> None:
        from hbus_console.operations.kinds import register
        from hbus_console.replays.kind import KIND

        register(KIND)
