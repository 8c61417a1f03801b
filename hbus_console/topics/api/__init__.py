"""Topics over HTTP."""

from hbus_console.topics.api.urls import urlpatterns

__all__ = ["urlpatterns"]
