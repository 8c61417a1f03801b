"""Subscriptions over HTTP."""

from hbus_console.subscriptions.api.urls import urlpatterns

__all__ = ["urlpatterns"]
