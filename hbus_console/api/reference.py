"""The OpenAPI document, and the pages on which a person reads it."""

from __future__ import annotations

from functools import cache, partial
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_GET
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request
from rest_framework.response import Response

from hbus_console.api import (
    openapi,  # noqa: F401 - registers the authentication schemes
    reference_page,
)

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


#: Asked for once per process, as the document is.
_operations = cache(reference_page.read)


@require_GET
def index(request: HttpRequest) -> HttpResponse:
    """All operations by what they are about: for whoever asks, as the document is."""
    return render(request, "api/reference.html", {"groups": _operations("v1")})


@require_GET
def about(request: HttpRequest, tag: str) -> HttpResponse:
    """The operations of one tag, each with its fields."""
    found = _operations("v1")
    if tag not in found:
        raise Http404(f"The API has no operations about {tag}.")
    return render(request, "api/operations.html", {"groups": found, "tag": tag, "operations": found[tag]})


urlpatterns = [
    path("schema", Document.as_view(), name="openapi"),
    path("docs/", index, name="docs"),
    path("docs/<str:tag>/", about, name="docs-about"),
]
