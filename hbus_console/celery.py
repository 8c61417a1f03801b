"""Where ``celery -A hbus_console.celery`` finds the application."""

from __future__ import annotations

from hbus_console.consumers.celery_app import app

__all__ = ["app"]
