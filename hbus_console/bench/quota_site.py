"""The least site that the quotas of requests can be measured in: one page, and who is signed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import path

Answer = Callable[[HttpRequest], HttpResponse]


@dataclass(frozen=True)
class MeasuredTenant:
    """As much of an actor as the middleware looks at."""

    name: str
    is_authenticated: bool = True


def view(_: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


class IdleMiddleware:
    """A middleware that does nothing with a request, nor with its view: what every such costs is in neither."""

    def __init__(self, get_response: Answer) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_view(
        self, request: HttpRequest, view: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> HttpResponse | None:
        return None


urlpatterns = [path("availability", view, name="availability")]
