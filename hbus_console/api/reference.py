"""The OpenAPI document and its offline reference."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.http import HttpResponse
from django.http.response import HttpResponseBase
from django.urls import path
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.api import openapi  # noqa: F401 - registers the authentication schemes

#: Media type and version → the answer. Both come from short lists of our own, so it stays small.
_made: dict[tuple[str, str | None], tuple[bytes, dict[str, str]]] = {}


class Document(SpectacularAPIView):
    """Made once per process and media type: it is the same for whoever asks, and takes half a second."""

    @extend_schema(exclude=True)
    def get(self, request: Request, *args: Any, **kwargs: Any) -> HttpResponseBase:
        key = request.accepted_renderer.media_type, request.version
        # With parameters of their own ("indent=4") somebody wants it otherwise.
        usual = request.accepted_media_type == key[0]
        if usual and key in _made:
            content, headers = _made[key]
            return HttpResponse(content, headers=headers)
        answer: Response = super().get(request, *args, **kwargs)  # type: ignore[no-untyped-call]
        if usual:
            answer.add_post_render_callback(partial(_keep, key))
        return answer


def _keep(key: tuple[str, str | None], answer: Response) -> None:
    _made[key] = answer.content, {name: answer.headers[name] for name in ("Content-Type", "Content-Disposition")}


class Reference(SpectacularSwaggerSplitView):
    """Swagger UI from the sidecar package: nothing is fetched from outside."""

    template_name = "api/reference.html"
    url_name = "v1:openapi"
    url_self = None


urlpatterns = [
    path("schema", Document.as_view(), name="openapi"),
    path("docs/", Reference.as_view(), name="docs"),
]
