"""Every refusal of the API in one form: RFC 9457 ``application/problem+json`` with the field and the remedy."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

import structlog
from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.response import Response

from engine.core.error_text import words_of
from engine.core.errors import HbusError, Unavailable
from hbus_console.access import context
from hbus_console.access.error_answers import answer_to
from hbus_console.access.permissions import Forbidden
from hbus_console.access.refusals import refused
from hbus_console.access.web import actor

CONTENT_TYPE = "application/problem+json"
#: The same for the OpenAPI document.
PROBLEM = {
    "type": "object",
    "description": "RFC 9457 problem details.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "field": {"type": "string", "description": "The input at fault."},
        "remedy": {"type": "string", "description": "What to do about it."},
        "errors": {"type": "array", "items": {"type": "object"}},
        "instance": {"type": "string", "description": "Names the request in logs and in the audit log."},
    },
}
log = structlog.get_logger(__name__)


def problem(
    code: int,
    title: str,
    detail: str = "",
    *,
    field: str = "",
    remedy: str = "",
    errors: list[dict[str, str]] | None = None,
) -> Response:
    """A problem response. ``errors`` lists several faulty fields; ``field`` is the first of them."""
    body: dict[str, Any] = {"type": "about:blank", "title": title, "status": code, "detail": detail or title}
    if field:
        body["field"] = field
    if remedy:
        body["remedy"] = remedy
    if errors:
        body["errors"] = errors
    if request_id := context.current().request_id:
        body["instance"] = f"urn:hbus:request:{request_id}"
    return Response(body, status=code, content_type=CONTENT_TYPE)


def describe(error: HbusError) -> tuple[int, str]:
    """The status code and title of one of our errors."""
    return answer_to(error).status.value, error.title


def handle(error: Exception, where: dict[str, Any]) -> Response | None:
    """DRF's exception handler. ``None`` lets Django log an unforeseen error and answer 500."""
    if isinstance(error, HbusError):
        if isinstance(error, Forbidden):
            refused.send(None, actor=actor(where["request"]._request), error=error)
        return of(error)
    if isinstance(error, exceptions.APIException):
        return _of_framework(error)
    if isinstance(error, Http404):
        return problem(status.HTTP_404_NOT_FOUND, "Not found", words_of(error) or "There is nothing here.")
    if isinstance(error, RequestDataTooBig):
        return problem(
            status.HTTP_413_REQUEST_ENTITY_TOO_LARGE, "Too large", words_of(error), remedy="Send smaller batches."
        )
    if isinstance(error, DatabaseError):
        log.exception("database failed under an API request")
        return problem(
            status.HTTP_503_SERVICE_UNAVAILABLE,
            "Unavailable",
            "The database did not answer.",
            remedy="Try again shortly.",
        )
    return None


def of(error: HbusError) -> Response:
    """The response to one of our own errors."""
    code, title = describe(error)
    response = problem(code, title, error.what, field=error.field, remedy=error.remedy)
    if isinstance(error, Unavailable):
        response["Retry-After"] = "5"
    return response


def _of_framework(error: exceptions.APIException) -> Response:
    if isinstance(error, exceptions.ValidationError):
        errors = _flatten(error.detail)
        return problem(
            status.HTTP_422_UNPROCESSABLE_ENTITY,
            "Refused",
            errors[0]["detail"] if errors else "The request does not fit.",
            field=errors[0]["field"] if errors else "",
            errors=errors,
        )
    response = problem(error.status_code, _title(error), str(error.detail))
    if challenge := getattr(error, "auth_header", None):
        response["WWW-Authenticate"] = challenge
    if wait := getattr(error, "wait", None):
        response["Retry-After"] = str(int(wait))
    return response


def _title(error: exceptions.APIException) -> str:
    general = str(error.default_detail).rstrip(".")
    # Some are templates that only the detail has filled in.
    return HTTPStatus(error.status_code).phrase if "{" in general else general


def _flatten(detail: Any, path: str = "") -> list[dict[str, str]]:
    if isinstance(detail, dict):
        return [
            row for name, inner in detail.items() for row in _flatten(inner, f"{path}.{name}" if path else str(name))
        ]
    if isinstance(detail, list):
        rows: list[dict[str, str]] = []
        for index, inner in enumerate(detail):
            nested = isinstance(inner, (dict, list))
            rows.extend(_flatten(inner, f"{path}[{index}]" if nested else path))
        return rows
    return [{"field": path.removesuffix(".non_field_errors"), "detail": str(detail)}]
