from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.conf import settings

from hbus_console.metric_files import share

#: What measures hbus counts nothing of an installation.
MEASURING = "hbus_console.bench"


class ClusterConfig(AppConfig):
    """However a process is started, Django makes this one before it loads what counts."""

    name = "hbus_console.cluster"
    label = "cluster"

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        if MEASURING not in settings.INSTALLED_APPS:
            share(settings.PROMETHEUS_MULTIPROC_DIR)
