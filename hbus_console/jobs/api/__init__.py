"""Jobs and their runs over HTTP."""

from hbus_console.jobs.api.urls import urlpatterns

__all__ = ["urlpatterns"]
