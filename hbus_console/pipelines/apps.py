from __future__ import annotations

from django.apps import AppConfig


class PipelinesConfig(AppConfig):
    name = "hbus_console.pipelines"
    label = "pipelines"
