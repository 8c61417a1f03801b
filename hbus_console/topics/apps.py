from __future__ import annotations

from django.apps import AppConfig


class TopicsConfig(AppConfig):
    name = "hbus_console.topics"
    label = "topics"

    def ready(self) -> None:
        from hbus_console.operations.kinds import register
        from hbus_console.topics.move import Move

        register(Move())
