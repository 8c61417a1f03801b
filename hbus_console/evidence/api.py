"""The evidence of engines without a ledger of their own, over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.clock import to_rfc3339
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, require
from hbus_console.api.answers import FORWARD_PAGES, REFUSED, described, page_of
from hbus_console.api.pagination import forward_page, page_size
from hbus_console.api.views import ApiView
from hbus_console.evidence import reading
from hbus_console.evidence.models import Evidence


class EvidenceOut(msgspec.Struct):
    """One fact. ``fields`` are those that its engine declares; ``subject`` is empty for the installation as such."""

    at: datetime
    kind: str
    subject: str
    namespace: str
    detail: str
    node: str
    correlation_id: str
    fields: dict[str, Any]


_PAGE = page_of(
    described(EvidenceOut),
    since={
        "type": ["string", "null"],
        "format": "date-time",
        "description": "How far back the evidence reaches; null while there is none.",
    },
)


class EvidenceList(ApiView):
    @extend_schema(
        operation_id="evidence_search",
        summary="What was told of a subject, or under a correlation id, newest first",
        description="The facts of an engine that keeps a ledger of its own are in that ledger.",
        tags=["evidence"],
        parameters=[
            OpenApiParameter("subject", description="Its text, such as `job:close-of-day`."),
            OpenApiParameter("correlation", description="A correlation id. One of the two must be there."),
            *FORWARD_PAGES,
        ],
        responses={(200, "application/json"): _PAGE, **REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, VIEW, SOMEWHERE)
        query = reading.EvidenceQuery.read(request.GET.dict())
        size = page_size(request, reading.PAGE, reading.MOST)
        found = reading.search(self.actor, query, request.GET.get("cursor", ""), size)
        since_ms = reading.since_ms()
        since = None if since_ms is None else to_rfc3339(since_ms)
        return forward_page(request, found.next_cursor, [_row(row) for row in found.rows], since=since)


def _row(row: Evidence) -> dict[str, Any]:
    about = row.about
    return {
        "at": to_rfc3339(row.at_ms),
        "kind": row.kind,
        "subject": row.subject,
        "namespace": about.namespace if about else "",
        "detail": row.detail,
        "node": row.node,
        "correlation_id": row.correlation_id,
        "fields": row.fields,
    }


urlpatterns = [path("evidence", EvidenceList.as_view(), name="evidence")]
