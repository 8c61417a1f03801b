"""The pages of the audits: all of them, one with what it found, two beside each other; and one on its way out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseBase, StreamingHttpResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.decorators.http import require_GET, require_POST

from engine.core.clock import SystemClock, to_rfc3339
from engine.core.errors import BadInput, NotThere
from engine.core.numbers import whole
from engine.pipeline.audit.checks import CHECKS
from engine.pipeline.audit.findings import FindingKind
from hbus_console import checks, cursors
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, allows
from hbus_console.access.web import actor, console_view
from hbus_console.jobs.models import Job, JobRun
from hbus_console.messages.feature import PAYLOAD_READ
from hbus_console.pipelines.audits import exporting, reading
from hbus_console.pipelines.audits.asking import WantedAudit, ask_audit
from hbus_console.pipelines.audits.comparing import compare
from hbus_console.pipelines.audits.curve import curve_of
from hbus_console.pipelines.audits.heat import MOST_ROWS, heat_of
from hbus_console.pipelines.audits.reading import SeenAudit
from hbus_console.pipelines.audits.signing import key_id, public_key
from hbus_console.pipelines.feature import AUDIT_JOB, AUDIT_RUN
from hbus_console.pipelines.models import BusAudit
from hbus_console.pipelines.wrong_audits import WrongNow
from hbus_console.topics.models import Topic
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.pages import back_to, refuse_act, tell_done
from hbus_console.wiring import bus

_clock = SystemClock()
#: Audits of one page, and findings listed at once.
PAGE, MOST_FINDINGS = 50, 200
#: Tiers that are drawn between what was published and what is archived: the least complete.
MOST_TIERS = 10
#: Topics that the form to audit again names; more are all.
MOST_REPEATED = 20
#: Jobs, policies and the like of which a page says what was found, the worst.
MOST_SUBJECTS = 100
#: Audits that one may be compared with.
MOST_OTHERS = 30
#: Of what the samples say where they lie in their topic's log.
_PLACED = (FindingKind.MALFORMED, FindingKind.DUPLICATE, FindingKind.CONFLICTING, FindingKind.REPEATED)


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def audits(request: HttpRequest) -> HttpResponse:
    who, cursor = actor(request), request.GET.get("cursor", "")
    found = reading.listed(who)
    if cursor:
        (last,) = cursors.read(cursor, 1)
        found = found.filter(pk__lt=last)
    rows = list(found[: PAGE + 1])
    context = {
        "nav": "audits",
        "rows": reading.lines(who, rows[:PAGE]),
        "wrong": WrongNow(who, _clock.now_ms()),
        "next_cursor": cursors.written(rows[PAGE - 1].pk) if len(rows) > PAGE else "",
        "job": Job.objects.filter(name=AUDIT_JOB).first() if allows(who, VIEW, AUDIT_JOB) else None,
        "under_way": JobRun.objects.filter(job=AUDIT_JOB, ended_us=None).count(),
        "public_key": (public := public_key()),
        "key_id": key_id(public),
        **_asking(request),
    }
    return render(request, "pipelines/audits/list.html", context)


def _asking(request: HttpRequest, audit: SeenAudit | None = None) -> Mapping[str, Any]:
    """What the sheet that asks for an audit is filled with: as that one was asked for."""
    # What was judged beside topics is, again, where none is named.
    is_named = audit is not None and not audit.subjects and len(audit.rows) <= MOST_REPEATED
    topics = [row.topic for row in audit.rows] if audit is not None and is_named else []
    asked = audit.audit if audit is not None else None
    return {
        "asked_since": to_rfc3339(asked.from_ms) if asked is not None and asked.from_ms is not None else "",
        "asked_until": to_rfc3339(asked.to_ms) if asked is not None and asked.to_ms is not None else "",
        "may_run": allows(actor(request), AUDIT_RUN, SOMEWHERE),
        "asked_topics": " ".join(topics),
        "run_curl": CurlRequest("POST", "/api/v1/audits", {"topics": topics, "reason": "why"}),
    }


@require_POST
@console_view(VIEW, post=AUDIT_RUN, resource=SOMEWHERE)
def run(request: HttpRequest) -> HttpResponse:
    form = request.POST
    wanted = WantedAudit(
        form.get("topics", "").replace(",", " ").split(),
        form.get("since", "").strip(),
        form.get("until", "").strip(),
        form.get("reason", ""),
        form.get("key", ""),
    )
    try:
        made = ask_audit(actor(request), wanted)
    except BadInput as refused:
        return refuse_act(request, refused, "pipelines:audits")
    tell_done(request, f"Run {made.pk} audits it; what comes of it is listed here once it has ended.")
    return back_to(request, "pipelines:audits")


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def audit(request: HttpRequest, audit_id: int) -> HttpResponse:
    who = actor(request)
    it = reading.seen_audit(who, audit_id)
    drawn = [report for _, report in it.reports({row.topic for row in it.rows[:MOST_ROWS]})]
    tiers = it.tiers
    context = {
        "nav": "audits",
        "it": it,
        "tiers": [*tiers[: MOST_TIERS + 1], *tiers[-1:]] if len(tiers) > MOST_TIERS + 2 else tiers,
        "more_tiers": max(0, len(tiers) - MOST_TIERS - 2),
        "heat": heat_of(drawn, it.audit.to_ms),
        "more_rows": len(it.rows) - len(drawn),
        "curve": curve_of(it.settled_after),
        "listed": [each for each in it.subjects if each.findings][:MOST_SUBJECTS],
        "more_subjects": sum(bool(each.findings) for each in it.subjects) - MOST_SUBJECTS,
        "others": reading.lines(who, list(reading.listed(who).exclude(pk=audit_id)[:MOST_OTHERS])),
        "whole": reading.sees_whole(it),
        "tells_all": reading.tells_all(it),
        "sees_job": allows(who, VIEW, AUDIT_JOB),
        **_asking(request, it),
    }
    return render(request, "pipelines/audits/audit.html", context)


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def findings(request: HttpRequest, audit_id: int) -> HttpResponse:
    it = reading.seen_audit(who := actor(request), audit_id)
    name, topic = request.GET.get("check", ""), request.GET.get("topic", "")
    if name:
        checks.choice(name, "check", (each.name for each in CHECKS))
    check = next((each for each in CHECKS if each.name == name), None)
    named = {each for each in (it.found(check) if check else it.summaries) if not topic or each == topic}
    found = [
        (row, finding)
        for row, report in it.reports(named)
        for finding in report.findings
        if check is None or finding.kind in check.kinds
    ]
    context = {
        "nav": "audits",
        "it": it,
        "check": check,
        "checks": CHECKS,
        "topic": topic,
        "found": found[:MOST_FINDINGS],
        "log_read": _logs_read(who, {row.topic for row, each in found[:MOST_FINDINGS] if each.kind in _PLACED}),
        "count": len(found),
    }
    return render(request, "pipelines/audits/findings.html", context)


def _logs_read(who: Actor, names: Collection[str]) -> set[str]:
    """Of these topics, those whose logs ``who`` may look into, and that can be looked into."""
    may = [name for name in names if allows(who, PAYLOAD_READ, name)]
    rows = Topic.objects.filter(name__in=may).values_list("name", "transport")
    return {name for name, transport in rows if bus.transport(transport).capabilities.browse}


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def compared(request: HttpRequest, audit_id: int) -> HttpResponse:
    who = actor(request)
    other = whole(request.GET.get("with", ""))
    if other is None:
        raise BadInput("With which audit?", remedy="Choose one of the list.", field="with")
    after, before = reading.seen_audit(who, max(audit_id, other)), reading.seen_audit(who, min(audit_id, other))
    context = {"nav": "audits", "before": before, "after": after, "it": compare(before, after)}
    return render(request, "pipelines/audits/compare.html", context)


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def export(request: HttpRequest, audit_id: int, form: str) -> HttpResponseBase:
    who = actor(request)
    if form not in _FORMS:
        raise NotThere(f"No audit is exported as {form!r}.", remedy=f"As one of {', '.join(_FORMS)}.")
    it = reading.seen_audit(who, audit_id)
    if form == "parquet" and not reading.tells_all(it):
        raise NotThere("The table holds what you may not see.", remedy="Export it as CSV or JSON.")
    kind, make = _FORMS[form]
    answer = make(it, who)
    answer["Content-Type"] = kind
    answer["Content-Disposition"] = f'attachment; filename="audit-{audit_id}.{form}"'
    return answer


def _html(it: SeenAudit, who: Actor) -> HttpResponse:
    context = {"it": it, "pairs": list(it.reports()), "of": reading.seen_as(who, reading.sees_whole(it))}
    return HttpResponse(render_to_string("pipelines/audits/export.html", context))


def _parquet(it: SeenAudit, _: Actor) -> HttpResponse:
    return HttpResponse(bytes(BusAudit.objects.values_list("findings", flat=True).get(pk=it.audit.pk)))


_FORMS: Mapping[str, tuple[str, Callable[[SeenAudit, Actor], HttpResponseBase]]] = {
    "json": ("application/json", lambda it, who: HttpResponse(exporting.as_json(it, who))),
    "csv": ("text/csv; charset=utf-8", lambda it, _: StreamingHttpResponse(exporting.as_csv(it))),
    "html": ("text/html; charset=utf-8", _html),
    "parquet": ("application/vnd.apache.parquet", _parquet),
}
