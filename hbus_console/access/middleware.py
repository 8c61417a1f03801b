"""Gives every request its ids and sends them back, and every answer to the one who asked alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from time import time_ns

from django.http import HttpRequest, HttpResponse

from engine.core.ids import new_id
from hbus_console.access.context import RequestContext, bound

_SAFE_ID = re.compile(r"[A-Za-z0-9._:/-]{1,128}")


class RequestContextMiddleware:
    """``X-Correlation-ID`` is taken over when it is well formed; ``X-Request-ID`` is always ours."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request_id = f"req-{new_id(time_ns() // 1_000_000)}"
        offered = request.headers.get("X-Correlation-ID", "")
        correlation_id = offered if _SAFE_ID.fullmatch(offered) else request_id
        address = str(request.META.get("REMOTE_ADDR", ""))
        with bound(RequestContext(request_id, correlation_id, address)):
            response = self._get_response(request)
        response["X-Request-ID"] = request_id
        response["X-Correlation-ID"] = correlation_id
        return response


class PrivateMiddleware:
    """What was answered to one person is kept by no proxy, and by no browser for who sits there next.

    Every answer but a static file, which never comes here; a view that says something of its own about it is left.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        response.headers.setdefault("Cache-Control", "private, no-store")
        return response
