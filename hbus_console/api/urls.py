"""Everything under /api/v1: each feature brings its own endpoints."""

from __future__ import annotations

from django.urls import URLPattern, URLResolver, include, path

from hbus_console.registry.loading import features

app_name = "api"
urlpatterns: list[URLPattern | URLResolver] = [
    path("", include(module)) for feature in features() for module in feature.api
]
