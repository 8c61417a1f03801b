"""The OpenAPI document and its offline reference."""

from __future__ import annotations

from django.urls import path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from hbus_console.api import openapi  # noqa: F401 - registers the authentication schemes


class Reference(SpectacularSwaggerSplitView):
    """Swagger UI from the sidecar package: nothing is fetched from outside."""

    template_name = "api/reference.html"
    url_name = "v1:schema"
    url_self = None


urlpatterns = [
    path("schema", SpectacularAPIView.as_view(), name="schema"),
    path("docs/", Reference.as_view(), name="docs"),
]
