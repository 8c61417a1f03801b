"""Where ``celery -A hbus_console.celery`` finds the application."""

from __future__ import annotations

import os

from django.conf import settings

from hbus_console.metric_files import share

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "hbus_console.settings")
share(settings.PROMETHEUS_MULTIPROC_DIR)

from hbus_console.consumers.celery_app import app  # noqa: E402 - the client of Prometheus looks once, when imported

__all__ = ["app"]
