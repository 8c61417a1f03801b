from __future__ import annotations

from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "hbus_console.alerts"
    label = "alerts"

    def ready(self) -> None:
        from hbus_console.alerts.delivery import AlertNotifier
        from hbus_console.alerts.evaluation import AlertEvaluator
        from hbus_console.keeper.duties import add_duty

        add_duty(AlertEvaluator)
        add_duty(AlertNotifier)
