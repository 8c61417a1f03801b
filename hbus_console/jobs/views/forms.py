"""A new job, and the settings of one, with what its schedule means while it is typed."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from engine.core.errors import BadInput
from engine.cron.exclusions import NONE_AHEAD, compile_exclusions, kept
from engine.cron.expression import BadExpression, UnknownZone, explain
from engine.cron.expression.offsets import zone
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, allows, visible_scopes
from hbus_console.access.web import actor, console_view
from hbus_console.jobs.calendars import left_out, lines_of, read_calendars
from hbus_console.jobs.feature import JOB_EDIT, JOB_GOVERN
from hbus_console.jobs.kinds.elsewhere import DONE_HERE
from hbus_console.jobs.kinds.function import known_functions
from hbus_console.jobs.models import Job
from hbus_console.jobs.preview import Question
from hbus_console.jobs.preview import preview as previewed
from hbus_console.jobs.services import jobs
from hbus_console.jobs.services.draft import GOVERNANCE, SETTINGS, TIMES, TROUBLE, WORK, JobDraft, snapshot
from hbus_console.jobs.services.secrecy import secrecy_of
from hbus_console.jobs.services.secrets import shown_to
from hbus_console.jobs.views.job import frame
from hbus_console.jobs.wall import told_slot
from hbus_console.teams.services import team_names
from hbus_console.ui.forms import lines, revision, text
from hbus_console.ui.pages import clock, form_page
from hbus_console.wiring.spark import spark_standing

#: Slots that the preview tells.
TOLD = 6
_PARTS: dict[str, Any] = {
    "work": SETTINGS.part(WORK),
    "times": SETTINGS.part(TIMES),
    "trouble": SETTINGS.part(TROUBLE),
    "done_here": DONE_HERE,
}


@require_http_methods(["GET", "POST"])
@console_view(JOB_EDIT, resource=SOMEWHERE)
def new(request: HttpRequest) -> HttpResponse:
    who = actor(request)
    scope = visible_scopes(who, JOB_EDIT)[0]
    fresh = JobDraft(scope.removesuffix("*") if scope != "*" else "", "", "function", "", "")
    page: dict[str, Any] = {
        "nav": "jobs",
        **_PARTS,
        "teams": team_names(),
        "functions": known_functions(who),
        "spark": spark_standing(),
        "values": asdict(fresh),
        "may_edit": True,
        "may_govern": True,
    }
    if request.method == "GET":
        return form_page(request, "jobs/form.html", page)
    values = SETTINGS.typed(request.POST, SETTINGS.changeable)
    name = text(request.POST, "name")
    page["values"] = {**page["values"], **values, "name": name, "reason": request.POST.get("reason", "")}
    try:
        made = jobs.create_job(who, JobDraft(**{**values, "name": name}), request.POST.get("reason", ""))
    except BadInput as refused:
        return form_page(request, "jobs/form.html", page, refused)
    messages.success(request, f"{made.name} is made; its slots count from now on.")
    return redirect("jobs:detail", made.name)


@require_http_methods(["GET", "POST"])
@console_view(VIEW, post=JOB_EDIT, resource="{job}")
def settings(request: HttpRequest, job: str) -> HttpResponse:
    who, row = actor(request), jobs.job(job)
    known = snapshot(row)
    page: dict[str, Any] = {
        **frame(who, row),
        **_PARTS,
        "teams": team_names(),
        "functions": known_functions(who),
        "spark": spark_standing(),
        "values": shown_to(who, job, known, secrecy_of(job)),
        "may_govern": allows(who, JOB_GOVERN, job),
        "part": GOVERNANCE,
    }
    if request.method == "GET":
        return form_page(request, "jobs/form.html", page)
    # Who may not choose the owner is not asked for it.
    asked = [name for name in SETTINGS.changeable if name != "owner" or name in request.POST]
    values = SETTINGS.typed(request.POST, asked)
    page["values"] = {**page["values"], **values, "reason": request.POST.get("reason", "")}
    try:
        wanted = _with_secrets(values, row)
        changed = jobs.change_job(who, job, wanted, request.POST.get("reason", ""), version=revision(request.POST))
    except BadInput as refused:
        return form_page(request, "jobs/form.html", page, refused)
    if changed.version == row.version:
        messages.info(request, "Nothing was different, so nothing changed.")
    else:
        messages.success(request, f"{job} is changed: version {changed.version}, from its next slot on.")
    return redirect("jobs:detail", job)


@require_POST
@console_view(VIEW, resource=SOMEWHERE)
def preview(request: HttpRequest) -> HttpResponse:
    """A fragment: what the schedule of the form means, and when it would run next."""
    form = request.POST
    context: dict[str, Any] = {}
    now_ms = clock.now_ms()
    if not text(form, "schedule"):
        return HttpResponse("")
    try:
        question = Question(
            text(form, "schedule"),
            text(form, "zone") or "UTC",
            count=TOLD,
            gap=text(form, "gap") or "end",
            fold=text(form, "fold") or "first",
            job=text(form, "name"),
        )
        found = previewed(question, now_ms // 1_000)
        of_calendars = lines_of(read_calendars(text(form, "calendars")))
        exclusions = compile_exclusions(left_out(lines(form, "excluded"), of_calendars), found.schedule.zone)
        coming = islice(kept(found.schedule, exclusions, found.after), TOLD)
        slots = [told_slot(slot, now_ms * 1_000) for slot in coming]
        none = "never" if not found.slots else NONE_AHEAD
        context = {"words": explain(found.schedule), "slots": slots, "zone": found.schedule.zone, "none": none}
    except BadExpression as error:
        context = {"refused": error.reason, "remedy": error.remedy, "spec": question.spec, "position": error.position}
        context["also"] = _wrong_with_zone(question.tz)
    except BadInput as error:
        context = {"refused": error.what, "remedy": error.remedy}
    return render(request, "jobs/_preview.html", context)


def _wrong_with_zone(name: str) -> UnknownZone | None:
    """A schedule that cannot be read is told of first; the zone may be wrong as well."""
    try:
        zone(name)
    except UnknownZone as error:
        return error
    return None


def _with_secrets(values: dict[str, Any], row: Job) -> dict[str, Any]:
    """What is shown in place of a secret is no value: the secret stays."""
    typed = SETTINGS["parameters"].check(values["parameters"], {})
    return {**values, "parameters": secrecy_of(row.name).still_masked(typed, row.parameters, snapshot(row))}
