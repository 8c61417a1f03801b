"""The Content-Security-Policy of every page: only our own scripts and styles, nothing inline, nothing from outside.
And when its reading began, so that a live page can ask for what changed since.
"""

from __future__ import annotations

from collections.abc import Callable
from time import time_ns

from django.http import HttpRequest, HttpResponse

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; manifest-src 'self'"
)


class ContentSecurityPolicyMiddleware:
    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        response.headers.setdefault("Content-Security-Policy", POLICY)
        response.headers.setdefault("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
        return response


class PageTimeMiddleware:
    """``request.began_ms``: epoch milliseconds before anything was read for the page."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.began_ms = time_ns() // 1_000_000  # type: ignore[attr-defined]
        return self._get_response(request)
