"""Calendars of jobs: the days that several leave out together, and which do."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from engine.core.errors import BadInput
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, allows
from hbus_console.access.web import actor, console_view
from hbus_console.jobs.feature import JOB_CALENDAR
from hbus_console.jobs.services import calendars as kept
from hbus_console.ui.forms import lines, revision, text
from hbus_console.ui.pages import form_page, refuse_act, tell_done

#: Jobs that the page of a calendar lists.
MOST_LISTED = 200


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def calendars(request: HttpRequest) -> HttpResponse:
    who = actor(request)
    context = {"nav": "jobs", "calendars": kept.standing_calendars(who), "may_keep": allows(who, JOB_CALENDAR)}
    return render(request, "jobs/calendars.html", context)


@require_http_methods(["GET", "POST"])
@console_view(JOB_CALENDAR)
def new(request: HttpRequest) -> HttpResponse:
    page: dict[str, Any] = {"nav": "jobs", "may_keep": True, "values": {}}
    if request.method == "GET":
        return form_page(request, "jobs/calendar.html", page)
    page["values"] = _typed(request) | {"name": text(request.POST, "name")}
    try:
        made = kept.create_calendar(actor(request), **page["values"])
    except BadInput as refused:
        return form_page(request, "jobs/calendar.html", page, refused)
    messages.success(request, f"Calendar {made.name} is made. Jobs have it once their settings name it.")
    return redirect("jobs:calendar", made.name)


@require_http_methods(["GET", "POST"])
@console_view(VIEW, post=JOB_CALENDAR, resource=SOMEWHERE)
def calendar(request: HttpRequest, calendar: str) -> HttpResponse:
    who, row = actor(request), kept.calendar(calendar)
    standing = kept.standing_calendar(who, row)
    page: dict[str, Any] = {
        "nav": "jobs",
        "calendar": standing,
        "listed": standing.jobs[:MOST_LISTED],
        "may_keep": allows(who, JOB_CALENDAR),
        "values": {"lines": row.lines, "description": row.description},
    }
    if request.method == "GET":
        return form_page(request, "jobs/calendar.html", page)
    page["values"] = _typed(request)
    try:
        changed = kept.change_calendar(who, calendar, **page["values"], version=revision(request.POST))
    except BadInput as refused:
        return form_page(request, "jobs/calendar.html", page, refused)
    if changed.row.version == row.version:
        messages.info(request, "Nothing was different, so nothing changed.")
    else:
        messages.success(request, kept.words_of_change(changed))
    return redirect("jobs:calendar", calendar)


@require_POST
@console_view(VIEW, post=JOB_CALENDAR)
def delete(request: HttpRequest, calendar: str) -> HttpResponse:
    form = request.POST
    try:
        kept.delete_calendar(actor(request), calendar, form.get("typed_name", ""), form.get("reason", ""))
    except BadInput as refused:
        return refuse_act(request, refused, "jobs:calendar", calendar)
    tell_done(request, f"Calendar {calendar} is deleted.")
    return redirect("jobs:calendars")


def _typed(request: HttpRequest) -> dict[str, str]:
    form = request.POST
    return {
        "lines": lines(form, "lines"),
        "description": text(form, "description"),
        "reason": form.get("reason", ""),
    }
