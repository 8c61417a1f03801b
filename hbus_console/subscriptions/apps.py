from __future__ import annotations

from django.apps import AppConfig


class SubscriptionsConfig(AppConfig):
    name = "hbus_console.subscriptions"
    label = "subscriptions"
