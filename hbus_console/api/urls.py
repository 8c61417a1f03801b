"""Everything under /api/v1: each app brings its own endpoints."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from hbus_console.api import publish, reference

app_name = "api"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", include(publish.urlpatterns)),
    path("", include(reference.urlpatterns)),
]
