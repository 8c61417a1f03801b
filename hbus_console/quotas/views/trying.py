"""The bench: traffic of a shape is played against a limit that nobody is held to."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.http import require_GET

from engine.core.errors import BadInput
from engine.quota import OnLoss
from engine.quota.trial import Trial, TrialPart
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE
from hbus_console.access.web import actor, console_view
from hbus_console.quotas.suggesting import policies_like
from hbus_console.quotas.trying import SHAPES, USUAL, read_asked
from hbus_console.quotas.wording import ON_LOSS, amount_words
from hbus_console.ui.pages import clock, form_page

#: Lines of the table beneath the chart: each tells of so many slots.
_LINES = 12


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def bench(request: HttpRequest) -> HttpResponse:
    values = _values(request)
    page: dict[str, Any] = {
        "nav": "quotas",
        "values": values,
        "shapes": SHAPES.items(),
        "losses": [(each.value, ON_LOSS[each.value]) for each in OnLoss],
        "suggested": policies_like(actor(request), values["policy"]),
    }
    try:
        asked = read_asked(values, clock.now_ms(), actor(request))
        trial = asked.play()
    except BadInput as refused:
        return form_page(request, "quotas/try.html", page, refused)
    rule, total = asked.rule, trial.total
    page |= {
        "trial": trial,
        "total": total,
        "share": 100 * total.admitted / total.asked if total.asked else None,
        "limit": amount_words(rule.limit, rule.burst, rule.period.value),
        "lines": _lines(trial),
        "chart_url": f"{reverse('quotas:try-chart')}?{urlencode(values)}",
        "cut": asked.cut,
    }
    return form_page(request, "quotas/try.html", page)


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def chart(request: HttpRequest) -> JsonResponse:
    """What charts.js draws of the same, by seconds from its beginning."""
    asked = read_asked(_values(request), clock.now_ms(), actor(request))
    trial = asked.play()
    slot_s = trial.slot_s

    def a_second(name: str) -> list[float]:
        return [round(getattr(slot, name) / slot_s, 2) for slot in trial.slots]

    series = [
        {"name": "admitted", "tone": "accent", "values": a_second("admitted"), "area": True},
        {"name": "delayed", "tone": "warn", "values": a_second("delayed")},
        {"name": "refused", "tone": "bad", "values": a_second("refused")},
        {"name": "asked", "tone": "neutral", "values": a_second("asked"), "steps": True},
    ]
    marks = [
        {"t": second, "label": label}
        for second, label in zip(asked.cut or (), ("cut off", "back again"), strict=False)
        if second < asked.traffic.seconds
    ]
    times = [round(number * slot_s, 3) for number in range(len(trial.slots))]
    return JsonResponse({"t": times, "from_start": True, "unit": "/s", "series": series, "marks": marks})


def _values(request: HttpRequest) -> dict[str, str]:
    return {name: request.GET.get(name, usual).strip() for name, usual in USUAL.items()}


def _lines(trial: Trial) -> list[tuple[float, float, TrialPart]]:
    """From when to when, and what came of the calls of that time."""
    each = len(trial.slots) // _LINES
    found = []
    for number in range(_LINES):
        part = trial.slots[number * each : (number + 1) * each]
        told = Trial(trial.traffic, trial.slot_s, trial.allowed, part).total
        found.append((number * each * trial.slot_s, (number + 1) * each * trial.slot_s, told))
    return found
