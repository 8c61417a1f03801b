"""The list of alerts, and one alert with its history."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET, require_POST

from engine.core.errors import BadInput
from engine.core.numbers import whole
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, Actor, allows, visible_scopes
from hbus_console.access.web import actor, console_view
from hbus_console.alerts import history, services, standing
from hbus_console.alerts.feature import ALERT_CHANNEL, ALERT_EDIT, ALERT_OPERATE
from hbus_console.alerts.kinds import URGENCY
from hbus_console.alerts.models import Alert
from hbus_console.alerts.standing import AlertFilters
from hbus_console.registry import subjects
from hbus_console.ui.curl import CurlRequest
from hbus_console.ui.pages import act, clock

#: How long a silence may last, in minutes, as the page offers it.
SPANS = ((30, "30 minutes"), (60, "1 hour"), (240, "4 hours"), (1_440, "1 day"), (10_080, "1 week"))


def frame(who: Actor, tab: str, now_ms: int) -> dict[str, Any]:
    """What all pages of the alerts show."""
    return {
        "nav": "alerts",
        "tab": tab,
        "health": standing.health(who, now_ms),
        "may_edit": allows(who, ALERT_EDIT, SOMEWHERE),
        "may_channel": allows(who, ALERT_CHANNEL),
    }


#: No form's number is larger; how long a silence may last says the service.
_MOST_MINUTES = 999_999
#: Silences on the page; the API pages through all.
_SILENCES = 100


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def alerts(request: HttpRequest) -> HttpResponse:
    who, now_ms, filters = actor(request), clock.now_ms(), AlertFilters.read(request.GET.dict())
    rows, next_cursor = standing.listed(who, filters, request.GET.get("cursor", ""), now_ms)
    silences = standing.silences(who, now_ms)
    context = {
        **frame(who, "alerts", now_ms),
        "rows": rows,
        "filters": filters,
        "states": standing.STATES,
        "severities": list(URGENCY),
        "next_cursor": next_cursor,
        "firing": AlertFilters("firing").rows(who).count(),
        "pending": AlertFilters("pending").rows(who).count(),
        "needed": standing.count(visible_scopes(who), now_ms),
        "silences": silences[:_SILENCES],
        "silences_held": silences.count(),
        "may_operate": allows(who, ALERT_OPERATE, SOMEWHERE),
    }
    return render(request, "alerts/list.html", context)


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def alert(request: HttpRequest, alert_id: int) -> HttpResponse:
    who, now_ms = actor(request), clock.now_ms()
    row = services.alert(who, alert_id)
    path = f"/api/v1/alerts/{row.pk}"
    context = {
        **frame(who, "alerts", now_ms),
        "row": standing.shown([row], now_ms)[0],
        "alert": row,
        "about": {"words": subjects.kind_named(row.subject_kind).words, "address": subjects.address(row.subject)},
        "moments": history.moments(row),
        "may_operate": allows(who, ALERT_OPERATE, row.namespace),
        "open": row.state != Alert.State.RESOLVED,
        "spans": SPANS,
        "acknowledge_curl": CurlRequest("POST", f"{path}/acknowledge", {"note": "why"}, idempotent=True),
        "silence_curl": CurlRequest("POST", f"{path}/silence", {"minutes": 60, "reason": "why"}, idempotent=True),
    }
    return render(request, "alerts/alert.html", context)


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def chart(request: HttpRequest, alert_id: int) -> JsonResponse:
    """The measured value and the threshold, for charts.js."""
    return JsonResponse(history.chart(services.alert(actor(request), alert_id)))


@require_POST
@console_view(VIEW, post=ALERT_OPERATE, resource=SOMEWHERE)
def acknowledge(request: HttpRequest, alert_id: int) -> HttpResponse:
    who, note = actor(request), request.POST.get("note", "")
    services.alert(who, alert_id)
    said = "You look at it: it waits for nobody else any more."
    return act(request, said, lambda: services.acknowledge(who, alert_id, note), "alerts:alert", alert_id)


@require_POST
@console_view(VIEW, post=ALERT_OPERATE, resource=SOMEWHERE)
def silence(request: HttpRequest, alert_id: int) -> HttpResponse:
    who = actor(request)
    services.alert(who, alert_id)

    def do() -> None:
        services.silence(
            who,
            alert_id,
            until_ms=clock.now_ms() + _minutes(request.POST.get("minutes", "")) * 60_000,
            reason=request.POST.get("reason", ""),
            every_rule="every_rule" in request.POST,
        )

    return act(request, "Silenced: nobody is told of it until then.", do, "alerts:alert", alert_id)


@require_POST
@console_view(VIEW, post=ALERT_OPERATE, resource=SOMEWHERE)
def end_silence(request: HttpRequest, silence_id: int) -> HttpResponse:
    who = actor(request)
    services.silence_of(who, silence_id)
    said = "The silence is over; what fires is told with the next evaluation."
    return act(request, said, lambda: services.end_silence(who, silence_id), "alerts:list")


def _minutes(text: str) -> int:
    number = whole(text)
    if number is None or number > _MOST_MINUTES:
        raise BadInput("A silence lasts a number of minutes.", remedy="Choose one of the list.", field="minutes")
    return number
