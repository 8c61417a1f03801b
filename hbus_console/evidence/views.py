"""The page of what engines without a ledger of their own told."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE
from hbus_console.access.web import actor, console_view, field_errors
from hbus_console.evidence import reading
from hbus_console.evidence.kinds import tone_of, words_of
from hbus_console.ui.curl import CurlRequest


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def evidence(request: HttpRequest) -> HttpResponse:
    """What was told of a subject or under a correlation id; its first page moves with what is booked."""
    cursor = request.GET.get("cursor", "")
    context: dict[str, Any] = {
        "asked": {name: request.GET.get(name, "").strip() for name in ("subject", "correlation")},
        "since_ms": reading.since_ms(),
        "ledger_on": settings.HBUS_LEDGER,
        "moving": not cursor,
        "errors": {},
    }
    status = 200
    if any(context["asked"].values()):
        try:
            found = reading.search(actor(request), reading.EvidenceQuery.read(request.GET.dict()), cursor)
        except BadInput as error:
            status, context["errors"] = 400, field_errors(error)
        else:
            context |= {
                "rows": [(row, words_of(row.kind), tone_of(row.kind)) for row in found.rows],
                "next_cursor": found.next_cursor,
                "curl_spec": CurlRequest("GET", f"/api/v1/evidence?{request.GET.urlencode()}"),
            }
    return render(request, "evidence/list.html", context, status=status)
