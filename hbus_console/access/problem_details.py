"""What a refusal says to a program: RFC 9457 problem details."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Any

from hbus_console.access import context

CONTENT_TYPE = "application/problem+json"


def problem_details(
    status: int,
    title: str = "",
    detail: str = "",
    *,
    field: str = "",
    remedy: str = "",
    errors: list[dict[str, str]] | None = None,
) -> dict[str, Any]:
    """The members of a problem. Without a ``title`` it is nothing more than its status, and named as that.

    ``errors`` lists several faulty fields; ``field`` is the first of them.
    """
    said = title or HTTPStatus(status).phrase
    body: dict[str, Any] = {"type": type_of(title), "title": said, "status": status, "detail": detail or said}
    if field:
        body["field"] = field
    if remedy:
        body["remedy"] = remedy
    if errors:
        body["errors"] = errors
    if request_id := context.current().request_id:
        body["instance"] = f"urn:hbus:request:{request_id}"
    return body


def type_of(title: str) -> str:
    """The URI of a kind of problem; the same title is the same kind."""
    return f"urn:hbus:problem:{re.sub(r'[^a-z]+', '-', title.lower())}" if title else "about:blank"
