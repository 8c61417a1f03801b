"""One job: when it runs, what became of its slots, what it was before, and the acts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from engine.core.errors import BadInput, HbusError
from engine.cron.expression import explain
from engine.cron.slots.steps import RunState
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import Actor, allows
from hbus_console.access.web import actor, console_view
from hbus_console.audit.feature import AUDIT_READ
from hbus_console.audit.models import AuditEntry
from hbus_console.audit.subjects import about
from hbus_console.audit.telling import tell_all
from hbus_console.audit.trail import visible
from hbus_console.jobs.feature import JOB_DELETE, JOB_EDIT, JOB_PAUSE, JOB_RUN
from hbus_console.jobs.following import followers_seen, read_after
from hbus_console.jobs.kinds.elsewhere import DONE_HERE, LABELS
from hbus_console.jobs.kinds.names import WorkName
from hbus_console.jobs.known import schedule_of
from hbus_console.jobs.models import Job, JobRun, PingAddress
from hbus_console.jobs.narrowing import narrowed
from hbus_console.jobs.rights import words_of_identity
from hbus_console.jobs.services import jobs
from hbus_console.jobs.services.draft import KIND_WORDS, SETTINGS, TIMES, TROUBLE, WORK, snapshot
from hbus_console.jobs.services.secrecy import Secrecy, secrecy_of
from hbus_console.jobs.services.secrets import schema_for, shown_to, target_for
from hbus_console.jobs.standing import job_rows, next_slots
from hbus_console.jobs.told_runs import told_runs
from hbus_console.jobs.unseen import ANOTHER, name_for
from hbus_console.jobs.views.lists import page_of_runs
from hbus_console.jobs.views.trigger_sheet import trigger_sheet
from hbus_console.jobs.wall import told_slot
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.pages import act, clock, reason_act, refuse_act, tell_done
from hbus_console.wiring.spark import spark_standing

#: Slots to come, versions and audit entries that the page shows.
SLOTS, VERSIONS, ENTRIES = 6, 20, 6


def frame(who: Actor, row: Job) -> dict[str, Any]:
    """What all pages of a job show."""
    path = f"/api/v1/jobs/{row.name}"
    return {
        "nav": "jobs",
        "job": row,
        "kind_words": KIND_WORDS.get(row.kind, row.kind),
        "words": _words(row),
        "acts_as": words_of_identity(row.acts_as),
        "where": target_for(who, row.name, snapshot(row)),
        "may_run": allows(who, JOB_RUN, row.name) and not row.elsewhere,
        "may_pause": allows(who, JOB_PAUSE, row.name),
        "may_edit": allows(who, JOB_EDIT, row.name),
        "may_delete": allows(who, JOB_DELETE, row.name),
        "may_audit": allows(who, AUDIT_READ, row.name),
        "pause_curl": CurlRequest("POST", f"{path}/pause", {"reason": "why"}, idempotent=True),
        "resume_curl": CurlRequest("POST", f"{path}/resume", {"reason": "why"}, idempotent=True),
        "delete_curl": CurlRequest("DELETE", path, {"typed_name": row.name, "reason": "why"}),
        "change_curl": CurlRequest("PATCH", path, {"timeout_s": row.timeout_s, "reason": "why"}),
    }


@require_GET
@console_view(VIEW, resource="{job}")
def detail(request: HttpRequest, job: str) -> HttpResponse:
    who, row, now_ms = actor(request), jobs.job(job), clock.now_ms()
    state = request.GET.get("state", "")
    found = narrowed(JobRun.objects.all(), job=job, state=state)
    runs, more = page_of_runs(found, request.GET.get("cursor", ""))
    (standing,) = job_rows([row], now_ms * 1_000)
    secrecy = secrecy_of(job)
    context = {
        **frame(who, row),
        **trigger_sheet(row, secrecy, row.parameters),
        "standing": standing,
        "slots": [told_slot(slot, now_ms * 1_000) for slot in next_slots(row, now_ms // 1_000, SLOTS)],
        "before": [(name_for(who, each), each.ended) for each in read_after(row.after)],
        "another": ANOTHER,
        "behind": followers_seen(who, row.name),
        "runs": told_runs(who, runs, now_ms * 1_000),
        "next_cursor": more,
        "state": state,
        "states": [each.value for each in RunState],
        "told_settings": _told(who, row, secrecy),
        "schema": schema_for(who, job, snapshot(row), secrecy),
        "ping": PingAddress.objects.filter(job=row).first(),
        "spark": spark_standing() if row.kind == WorkName.SPARK else "",
    }
    if context["may_audit"]:
        entries = visible(who).filter(about(row.subject)).order_by("-seq")
        context["told"] = tell_all(entries[:ENTRIES])
    return render(request, "jobs/job.html", context)


@require_GET
@console_view(VIEW, resource="{job}")
def versions(request: HttpRequest, job: str) -> HttpResponse:
    who, row, secrecy = actor(request), jobs.job(job), secrecy_of(job)
    found = list(row.versions.all()[: VERSIONS + 1])
    shown = [shown_to(who, job, each.settings, secrecy) for each in found]
    entries = AuditEntry.objects.in_bulk([each.audit_seq for each in found], field_name="seq")
    context = {
        **frame(who, row),
        "versions": [
            {
                "version": each,
                "entry": entries.get(each.audit_seq),
                "differs": _difference(shown[place + 1], shown[place]) if place + 1 < len(found) else [],
                "first": each.number == 1,
                "sheet": f"restore-{each.number}",
                "title": f"Restore version {each.number}",
            }
            for place, each in enumerate(found[:VERSIONS])
        ],
        "more": len(found) > VERSIONS,
    }
    return render(request, "jobs/versions.html", context)


@require_POST
@console_view(VIEW, post=JOB_EDIT, resource="{job}")
def restore(request: HttpRequest, job: str, version: int) -> HttpResponse:
    def do() -> object:
        return jobs.restore_version(actor(request), job, version, request.POST.get("reason", ""))

    return act(request, f"{job} is again what it was in version {version}.", do, "jobs:versions", job)


@require_POST
@console_view(VIEW, post=JOB_DELETE, resource="{job}")
def delete(request: HttpRequest, job: str) -> HttpResponse:
    try:
        jobs.delete_job(actor(request), job, request.POST.get("typed_name", ""), request.POST.get("reason", ""))
    except BadInput as refused:
        return refuse_act(request, refused, "jobs:settings", job)
    tell_done(request, f"{job} is deleted. What runs goes on; its runs stay as evidence.")
    return redirect("jobs:list")


pause = reason_act(
    jobs.pause_job,
    said="{job} is paused: each of its slots is skipped, with a row that says so. What runs goes on.",
    needs=JOB_PAUSE,
    of="job",
    back="jobs:detail",
)
resume = reason_act(
    jobs.resume_job,
    said="{job} runs again, from its next slot on.",
    needs=JOB_PAUSE,
    of="job",
    back="jobs:detail",
)


def _words(row: Job) -> str:
    try:
        return explain(schedule_of(row))
    except HbusError as error:
        return error.what


def _told(who: Actor, row: Job, secrecy: Secrecy) -> list[tuple[str, str]]:
    """Label and value of what the job is set to, as the page lists it."""
    values = shown_to(who, row.name, snapshot(row), secrecy)
    told = []
    # The page shows the schema apart: it may be long.
    left_out = DONE_HERE if row.elsewhere else ("parameters_schema",)
    labels = LABELS if row.elsewhere else {}
    for part in (WORK, TIMES, TROUBLE):
        for each in SETTINGS.part(part):
            if each.name in left_out:
                continue
            value = values[each.name]
            meant = dict(getattr(each, "options", ())).get(value) if isinstance(value, str) else None
            shown = each.reads(value) or meant or each.shown(value)
            if each.name == "target" and value != row.target and row.kind == WorkName.COMMAND:
                shown = f"{shown} (its arguments are for who may change what it runs)"
            told.append((labels.get(each.name, each.label), "" if shown in (None, "") else str(shown)))
    return told


def _difference(was: Mapping[str, Any], now: Mapping[str, Any]) -> list[tuple[str, object, object]]:
    """What a version changed, as it may be shown: setting, what it was, what it is; without what is secret."""
    return [
        (name, was.get(name), now.get(name))
        for name in dict.fromkeys([*was, *now])
        if was.get(name) != now.get(name) and name != "acts_as"
    ]
