from __future__ import annotations

from django.apps import AppConfig


class OperationsConfig(AppConfig):
    name = "hbus_console.operations"
    label = "operations"

    def ready(self) -> None:
        from hbus_console.keeper.duties import add_duty
        from hbus_console.operations.runner import OperationRunner

        add_duty(OperationRunner)
