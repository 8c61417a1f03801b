"""Quotas over HTTP."""

from hbus_console.quotas.api.urls import urlpatterns

__all__ = ["urlpatterns"]
