"""Every refusal of the API in one form: RFC 9457 ``application/problem+json`` with the field and the remedy."""

from __future__ import annotations

from typing import Any

import structlog
from django.core.exceptions import RequestDataTooBig
from django.db import DatabaseError, DataError
from django.http import Http404
from rest_framework import exceptions, status
from rest_framework.response import Response

from engine.core.error_text import words_of
from engine.core.errors import HbusError, Outdated, QuotaExceeded, Unavailable
from hbus_console.access.error_answers import answer_to, not_kept
from hbus_console.access.permissions import Forbidden
from hbus_console.access.problem_details import CONTENT_TYPE, problem_details
from hbus_console.access.refusals import refused
from hbus_console.access.web import actor
from hbus_console.api.idempotency import StillAtWork
from hbus_console.faults import ManyFaults

#: A problem for the OpenAPI document.
PROBLEM = {
    "type": "object",
    "description": "RFC 9457 problem details.",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {
            "type": "string",
            "description": "The kind, as `urn:hbus:problem:refused`; `about:blank`: nothing more than its status.",
        },
        "title": {"type": "string", "description": "The same kind in words."},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What happened, to what."},
        "field": {"type": "string", "description": "The input at fault."},
        "remedy": {"type": "string", "description": "What to do about it."},
        "errors": {"type": "array", "items": {"type": "object"}},
        "violated-policies": {
            "type": "array",
            "items": {"type": "string"},
            "description": "Quota policies that were reached, the narrowest first.",
        },
        "instance": {"type": "string", "description": "Names the request in logs and in the audit log."},
    },
}
#: The header that makes a change conditional.
IF_MATCH = "If-Match"
log = structlog.get_logger(__name__)


def problem(
    code: int,
    title: str = "",
    detail: str = "",
    *,
    field: str = "",
    remedy: str = "",
    errors: list[dict[str, str]] | None = None,
) -> Response:
    """A problem response; see :func:`problem_details`."""
    body = problem_details(code, title, detail, field=field, remedy=remedy, errors=errors)
    return Response(body, status=code, content_type=CONTENT_TYPE)


def describe(error: HbusError) -> tuple[int, str]:
    """The status code and title of one of our errors."""
    return answer_to(error).status.value, error.title


def handle(error: Exception, where: dict[str, Any]) -> Response | None:
    """DRF's exception handler. ``None`` lets Django log an unforeseen error and answer 500."""
    if isinstance(error, HbusError):
        if isinstance(error, Forbidden):
            refused.send(None, actor=actor(where["request"]._request), error=error)
        unmatched = isinstance(error, Outdated) and IF_MATCH in where["request"].headers
        return of(error, status.HTTP_412_PRECONDITION_FAILED if unmatched else 0)
    if isinstance(error, exceptions.APIException):
        return _of_framework(error)
    if isinstance(error, Http404):
        return problem(status.HTTP_404_NOT_FOUND, "Not found", words_of(error) or "There is nothing here.")
    if isinstance(error, RequestDataTooBig):
        return problem(
            status.HTTP_413_REQUEST_ENTITY_TOO_LARGE, "Too large", words_of(error), remedy="Send smaller batches."
        )
    return _of_database(error) if isinstance(error, DatabaseError) else None


def of(error: HbusError, code: int = 0) -> Response:
    """The response to one of our own errors, under its own status unless a ``code`` is given."""
    usual, title = describe(error)
    errors = None
    if isinstance(error, ManyFaults):
        errors = [{"field": each.field, "detail": each.what, "remedy": each.remedy} for each in error.each]
    response = problem(code or usual, title, error.what, field=error.field, remedy=error.remedy, errors=errors)
    if isinstance(error, Unavailable):
        response["Retry-After"] = "5"
    if isinstance(error, (QuotaExceeded, StillAtWork)):
        response["Retry-After"] = str(error.again_s)
    if isinstance(error, QuotaExceeded):
        response.data["violated-policies"] = list(error.policies)
    return response


def _of_database(error: DatabaseError) -> Response:
    log.exception("database failed under an API request")
    if isinstance(error, DataError):
        # It will never take this, however often it is sent.
        return of(not_kept())
    return problem(
        status.HTTP_503_SERVICE_UNAVAILABLE, "Unavailable", "The database did not answer.", remedy="Try again shortly."
    )


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
    response = problem(error.status_code, detail=str(error.detail))
    if challenge := getattr(error, "auth_header", None):
        response["WWW-Authenticate"] = challenge
    if wait := getattr(error, "wait", None):
        response["Retry-After"] = str(int(wait))
    return response


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
