"""Quota policies, and tokens for whoever asks for them, over HTTP."""

from hbus_console.quotas.api.urls import urlpatterns

__all__ = ["urlpatterns"]
