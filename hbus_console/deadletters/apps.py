from __future__ import annotations

from django.apps import AppConfig


class DeadlettersConfig(AppConfig):
    name = "hbus_console.deadletters"
    label = "deadletters"

    def ready(self) -> None:
        from hbus_console.deadletters.bulk import DISCARD, REDRIVE
        from hbus_console.operations.kinds import register

        register(REDRIVE)
        register(DISCARD)
