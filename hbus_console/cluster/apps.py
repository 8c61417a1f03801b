from __future__ import annotations

from django.apps import AppConfig


class ClusterConfig(AppConfig):
    name = "hbus_console.cluster"
    label = "cluster"
