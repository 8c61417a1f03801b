"""The pages of the audit log."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from engine.core.errors import BadInput
from hbus_console import checks
from hbus_console.access.permissions import GLOBAL, allows, visible_scopes
from hbus_console.access.web import actor, console_view
from hbus_console.audit import export as exports
from hbus_console.audit import links, trail
from hbus_console.audit.diff import diff
from hbus_console.audit.feature import AUDIT_EXPORT, AUDIT_READ
from hbus_console.audit.sides import shown
from hbus_console.audit.state import chain_state, verify_for_a_person
from hbus_console.audit.telling import tell, tell_all
from hbus_console.ui.pages import back_to, refuse_act
from hbus_console.ui.timerange import PARAMETERS, TimeRange, named_in, read_range, time_range


def asked_range(request: HttpRequest) -> TimeRange | None:
    """The time range when the address names one; the log is otherwise shown from its beginning.

    A log of a few acts a day would be empty in the last hour, which is every other page's default.
    """
    return time_range(request) if named_in(request) else None


@require_GET
@console_view(AUDIT_READ)
def listing(request: HttpRequest) -> HttpResponse:
    who = actor(request)
    wanted = trail.read_filter(request.GET.dict())
    span = asked_range(request)
    start, end = trail.span(span.start_ms, span.end_ms) if span else (None, None)
    seen = trail.visible(who)
    rows, scan = trail.search(seen, wanted, start, end)
    found = trail.page(rows, request.GET.get("cursor", ""), scan=scan)
    actors, actions = trail.suggestions(seen)
    scopes = visible_scopes(who, AUDIT_READ)
    return render(
        request,
        "audit/list.html",
        {
            "nav": "audit",
            "chain": chain_state(),
            "wanted": wanted,
            "span": span,
            "all_times": span is None,
            "by": [("", "Everything"), *trail.BY.items()],
            "narrowed": any(wanted.as_dict().values()) or span is not None,
            "told": tell_all(found.entries),
            "newer": found.newer,
            "older": found.older,
            "actors": actors,
            "actions": actions,
            # How much is done in namespaces that the reader may not see is none of their business.
            "whole": GLOBAL in scopes,
            "scopes": () if GLOBAL in scopes else scopes,
            "shown": _shown(found),
            "looked_to": found.looked_to,
            "scan": trail.SCAN,
            # The bar's range is not part of this form; a search must not lose it.
            "range_parameters": [(name, request.GET.get(name, "")) for name in PARAMETERS],
            "may_export": allows(who, AUDIT_EXPORT),
        },
    )


def _shown(found: trail.EntryPage) -> str:
    if not found.entries:
        return ""
    return f"entries {found.entries[0].seq:,} to {found.entries[-1].seq:,}"


@require_GET
@console_view(AUDIT_READ)
def entry(request: HttpRequest, seq: int) -> HttpResponse:
    who = actor(request)
    seen = trail.visible(who)
    found = seen.filter(seq=seq).first()
    if found is None:
        raise Http404(f"There is no audit entry {seq}, or it lies outside your scope.")
    (sides,) = shown([found])
    changes = diff(sides.before, sides.after)
    related = links.related(who, found)
    return render(
        request,
        "audit/entry.html",
        {
            "nav": "audit",
            "told": tell(found),
            "entry": found,
            "changes": [change for change in changes if change.kind in ("changed", "added", "removed")],
            "noted": [change for change in changes if change.kind.startswith("noted")],
            "same": [change for change in changes if change.kind == "same"],
            "untold": [change for change in changes if change.kind == "untold"],
            "related": related,
            "others": tell_all(related.entries),
            "newer": seen.filter(seq__gt=seq).order_by("seq").values_list("seq", flat=True).first(),
            "older": seen.filter(seq__lt=seq).order_by("-seq").values_list("seq", flat=True).first(),
            "chain": chain_state(),
        },
    )


@require_POST
@console_view(AUDIT_READ)
def verify(request: HttpRequest) -> HttpResponse:
    verdict = verify_for_a_person()
    say = messages.success if verdict.holds else messages.error
    say(request, verdict.sentence() if trail.sees_all(actor(request)) else verdict.outcome)
    return back_to(request, "audit:list")


@require_POST
@console_view(AUDIT_READ, post=AUDIT_EXPORT)
def export(request: HttpRequest) -> HttpResponseBase:
    wanted = trail.read_filter(request.POST.dict())
    # A malformed range is refused: nobody would see in the file that it holds another.
    span = read_range(request) if named_in(request) else None
    start, end = trail.span(span.start_ms, span.end_ms) if span else (None, None)
    try:
        reason = checks.reason(request.POST.get("reason", ""))
        begun = exports.export(actor(request), request.POST.get("as", ""), wanted, start, end, reason=reason)
    except BadInput as refused:
        return refuse_act(request, refused, "audit:list")
    return exports.streamed(request, begun)
