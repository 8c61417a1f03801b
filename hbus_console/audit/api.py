"""The audit log over HTTP."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.http.response import HttpResponseBase
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from engine.core.clock import to_rfc3339
from engine.core.errors import NotThere
from hbus_console.access.permissions import require
from hbus_console.access.problem_details import CONTENT_TYPE
from hbus_console.api.answers import PAGES, page_of
from hbus_console.api.pagination import CursorPages, next_page
from hbus_console.api.problems import PROBLEM
from hbus_console.api.views import ApiView
from hbus_console.audit import export as exports
from hbus_console.audit import trail
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.sides import shown
from hbus_console.audit.state import ChainState, chain_state, verify_for_a_person
from hbus_console.ui.timerange import named_in, read_range

_FILTERS = [
    OpenApiParameter("actor", description="Who acted: a user, or user/token."),
    OpenApiParameter("action", description="An action such as topic.pause, or a family: topic.*"),
    OpenApiParameter("target", description="A topic (everything in it), or the exact name of another target."),
    OpenApiParameter("correlation", description="A correlation id."),
    OpenApiParameter("q", description="Text in the target, the reason, or what was before or after."),
    OpenApiParameter("by", enum=list(trail.BY), description="Who acted: people, programs, hbus; or what was refused."),
    OpenApiParameter("range", description="15m, 1h, 3h, 24h or 7d. Without a range: from the first entry on."),
    OpenApiParameter("from", OpenApiTypes.STR, description="RFC 3339 or epoch milliseconds."),
    OpenApiParameter("to", OpenApiTypes.STR, description="RFC 3339 or epoch milliseconds, exclusive."),
]
_ENTRY = {
    "type": "object",
    "description": "One entry. Everything but `subject` and the two hashes is what `hash` covers. `subject` says what "
    "`target_type`, `target` and `topic` (the namespace, whatever it is) say together, as a single text.",
    "properties": {
        "seq": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        **{
            name: {"type": "string"}
            for name in (
                "actor",
                "actor_kind",
                "action",
                "target_type",
                "target",
                "topic",
                "subject",
                "reason",
                "request_id",
                "correlation_id",
                "address",
                "previous_hash",
                "hash",
            )
        },
        "before": {"type": ["object", "null"]},
        "after": {"type": ["object", "null"]},
    },
}
_PAGE = page_of(
    _ENTRY,
    looked_to={
        "type": ["integer", "null"],
        "description": "The entry at which a search that no index serves stopped for now; `next` looks further.",
    },
)
_CHAIN = {
    "type": "object",
    "properties": {
        "entries": {"type": ["integer", "null"]},
        "state": {"enum": ["unbroken", "broken", "not verified", "not known"]},
        "anchored": {"type": ["object", "null"]},
        "verified": {"type": ["object", "null"]},
    },
}
_VERDICT = {
    "type": "object",
    "properties": {
        "holds": {"type": "boolean"},
        "entries": {"type": "integer"},
        "findings_total": {"type": ["integer", "null"]},
        "findings": {"type": "array", "items": {"type": "object"}},
    },
    "additionalProperties": True,
}
_REFUSED = {(403, CONTENT_TYPE): PROBLEM, (422, CONTENT_TYPE): PROBLEM}


def _asked(request: Request) -> tuple[trail.Filter, datetime | None, datetime | None]:
    """The filter and the times of a request; raises ``BadInput`` for what is malformed."""
    wanted = trail.read_filter(request.GET.dict())
    if not named_in(request._request):
        return wanted, None, None
    span = read_range(request._request, zoned=True)
    return wanted, *trail.span(span.start_ms, span.end_ms)


class Entries(ApiView):
    @extend_schema(
        operation_id="audit_list",
        summary="Audit entries, newest first",
        description="A search for text, for a kind of actor or for a family of actions looks at a part of a big log "
        "at a time: a page may be short or empty and yet have a `next`.",
        tags=["audit"],
        parameters=[
            *_FILTERS,
            *PAGES,
        ],
        responses={(200, "application/json"): _PAGE, **_REFUSED},
    )
    def get(self, request: Request) -> Response:
        wanted, start, end = _asked(request)
        size = CursorPages().get_page_size(request) or CursorPages.page_size
        rows, scan = trail.search(trail.visible(self.actor), wanted, start, end)
        found = trail.page(rows, request.GET.get("cursor", ""), size, scan)
        return Response(
            {
                "next": next_page(request, found.older),
                "previous": next_page(request, found.newer),
                "looked_to": found.looked_to or None,
                "results": [_entry(entry) for entry in shown(found.entries)],
            }
        )


class OneEntry(ApiView):
    @extend_schema(
        operation_id="audit_entry",
        summary="One audit entry",
        tags=["audit"],
        responses={(200, "application/json"): _ENTRY, (404, CONTENT_TYPE): PROBLEM, **_REFUSED},
    )
    def get(self, request: Request, seq: int) -> Response:
        found = trail.visible(self.actor).filter(seq=seq).first()
        if found is None:
            raise NotThere(f"There is no audit entry {seq} that you may see.", field="seq")
        return Response(_entry(shown([found])[0]))


class Chain(ApiView):
    @extend_schema(
        operation_id="audit_chain",
        summary="How the hash chain stands, without walking it",
        description="Numbers of entries are told to who may read every entry, and are null for others. It is not known "
        "while the store does not answer, which would tell whether a verification did not hold.",
        tags=["audit"],
        responses={(200, "application/json"): _CHAIN, **_REFUSED},
    )
    def get(self, request: Request) -> Response:
        require(self.actor, AUDIT_READ)
        return Response(_chain(chain_state(), whole=trail.sees_all(self.actor)))


class Verify(ApiView):
    @extend_schema(
        operation_id="audit_verify",
        summary="Verify the chain now",
        description="A big log is verified from where it held last; `audit verify` on the host walks all of it. What "
        "was counted and found is told to who may read every entry; others learn whether it holds.",
        tags=["audit"],
        request=None,
        responses={(200, "application/json"): _VERDICT, (409, CONTENT_TYPE): PROBLEM, **_REFUSED},
    )
    def post(self, request: Request) -> Response:
        require(self.actor, AUDIT_READ)
        verdict = verify_for_a_person()
        whole = trail.sees_all(self.actor)
        return Response(verdict.as_dict() if whole else {"holds": verdict.holds, "findings_total": None})


class ExportEntries(ApiView):
    @extend_schema(
        operation_id="audit_export",
        summary="The audit log as a file, oldest entry first",
        description="The export itself becomes an audit entry.",
        tags=["audit"],
        parameters=[
            OpenApiParameter("as", enum=list(exports.FORMATS), required=True),
            OpenApiParameter("reason", description="Why; stands in the audit log. May be left out."),
            *_FILTERS,
        ],
        responses={(200, "text/csv"): OpenApiTypes.STR, (200, "application/jsonl"): OpenApiTypes.STR, **_REFUSED},
    )
    def get(self, request: Request) -> HttpResponseBase:
        wanted, start, end = _asked(request)
        form, reason = request.GET.get("as", ""), request.GET.get("reason", "")
        begun = exports.export(self.actor, form, wanted, start, end, reason=reason)
        return exports.streamed(request._request, begun)


def _entry(entry: AuditEntry) -> dict[str, Any]:
    return {**exports.as_json(entry), "subject": str(entry.subject)}


def _chain(state: ChainState, *, whole: bool) -> dict[str, Any]:
    """``whole``: with the numbers and with the head, which tell how much is done, and when, in namespaces that not
    everybody may see."""
    anchor, verified = state.anchor, state.verified
    return {
        "entries": state.entries if whole else None,
        "state": state.word,
        "anchored": anchor
        and {
            "seq": anchor.seq if whole else None,
            "hash": anchor.hash if whole else None,
            "at": to_rfc3339(anchor.at_ms) if whole else None,
        },
        "verified": verified
        and {
            "holds": verified.holds,
            "seq": verified.seq if whole else None,
            "at": to_rfc3339(verified.at_ms),
            "from_first_entry_at": to_rfc3339(verified.full_at_ms) if verified.full_at_ms else None,
            "findings_total": verified.findings_total if whole else None,
        },
    }


urlpatterns = [
    path("audit/entries", Entries.as_view(), name="audit-entries"),
    path("audit/entries/<int:seq>", OneEntry.as_view(), name="audit-entry"),
    path("audit/chain", Chain.as_view(), name="audit-chain"),
    path("audit/verify", Verify.as_view(), name="audit-verify"),
    path("audit/export", ExportEntries.as_view(), name="audit-export"),
]
