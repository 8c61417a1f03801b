"""Designed answers to what goes wrong outside our own pages: Django's handler400, 403, 404 and 500."""

from __future__ import annotations

from http import HTTPStatus

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template import loader

from hbus_console.access import context
from hbus_console.access.problem_details import CONTENT_TYPE, problem_details

_PAGES = {
    HTTPStatus.BAD_REQUEST: (
        "That request makes no sense",
        "The address or the form was damaged on its way. Go back and try it again.",
        "outline/question-mark",
    ),
    HTTPStatus.FORBIDDEN: (
        "Not allowed",
        "Your roles do not reach this. An admin can grant one under Access.",
        "outline/lock",
    ),
    HTTPStatus.NOT_FOUND: (
        "Nothing is here",
        "The address is wrong, or the thing was deleted; then the audit log says by whom.",
        "outline/map-off",
    ),
}


def bad_request(request: HttpRequest, exception: Exception | None = None) -> HttpResponseBase:
    return _page(request, HTTPStatus.BAD_REQUEST)


def forbidden(request: HttpRequest, exception: Exception | None = None) -> HttpResponseBase:
    return _page(request, HTTPStatus.FORBIDDEN)


def not_found(request: HttpRequest, exception: Exception | None = None) -> HttpResponseBase:
    return _page(request, HTTPStatus.NOT_FOUND)


def server_error(request: HttpRequest) -> HttpResponseBase:
    """Asks neither the database nor the session: they may be what broke."""
    if _wants_json(request):
        return _problem(
            HTTPStatus.INTERNAL_SERVER_ERROR, "Something broke here", "It was logged; trying again is safe."
        )
    text = loader.get_template("errors/500.html").render({"request_id": context.current().request_id})
    return HttpResponse(text, status=HTTPStatus.INTERNAL_SERVER_ERROR)


def _page(request: HttpRequest, status: HTTPStatus) -> HttpResponseBase:
    heading, text, symbol = _PAGES[status]
    if _wants_json(request):
        return _problem(status, heading, text)
    about = {
        "code": status.value,
        "heading": heading,
        "text": text,
        "symbol": symbol,
        "request_id": context.current().request_id,
    }
    return render(request, "errors/base.html", about, status=status)


def _wants_json(request: HttpRequest) -> bool:
    return request.path.startswith("/api/")


def _problem(status: HTTPStatus, title: str, detail: str) -> JsonResponse:
    return JsonResponse(problem_details(status, title, detail), status=status, content_type=CONTENT_TYPE)
