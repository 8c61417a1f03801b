"""The least site that a check of a quota can be measured in."""

from __future__ import annotations

from collections.abc import Callable

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.urls import path

Answer = Callable[[HttpRequest], HttpResponse]


def view(_: HttpRequest) -> HttpResponse:
    return HttpResponse("ok")


def plain(get_response: Answer) -> Answer:
    """A middleware that does nothing: what every middleware costs is in neither."""

    def middleware(request: HttpRequest) -> HttpResponse:
        return get_response(request)

    return middleware


def checking(get_response: Answer) -> Answer:
    """The same with one lookup and one check; ``BENCH_LIMITER`` is a node's ``limiter``."""
    # Of quota_request alone.
    limiter = settings.BENCH_LIMITER  # type: ignore[misc]

    def middleware(request: HttpRequest) -> HttpResponse:
        # Who is refused goes on too: the two differ in nothing but the question.
        limiter("console", request.path, request.META["HTTP_X_TENANT"]).allow()
        return get_response(request)

    return middleware


urlpatterns = [path("availability", view, name="availability")]
