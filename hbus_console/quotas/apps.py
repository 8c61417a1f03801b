from __future__ import annotations

from django.apps import AppConfig


class QuotasConfig(AppConfig):
    name = "hbus_console.quotas"
    label = "quotas"
