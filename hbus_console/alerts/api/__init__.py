"""Alerts, rules, channels and silences over HTTP."""

from hbus_console.alerts.api.urls import urlpatterns

__all__ = ["urlpatterns"]
