"""Every component in every state on one page, for whoever builds a page and for the browser tests."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE
from hbus_console.access.web import console_view

#: A fixed instant, so that photographs of the page can be compared.
_AT_MS = 1_795_183_331_204


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def kit(request: HttpRequest) -> HttpResponse:
    wave = [60 + 30 * math.sin(index / 3) + index % 5 for index in range(40)]
    context: dict[str, Any] = {
        "team": SimpleNamespace(name="Front desk", contact="#front-desk", initials="FD"),
        "at_ms": _AT_MS,
        "wave": wave,
        "step": [0] * 28 + [4, 9, 20, 31, 36, 37, 37, 37, 37, 37, 37, 37],
        "states": [
            "active",
            "paused",
            "dead",
            "redriven",
            "new",
            "anything else",
            "draining",
            "ownerless",
            "silent",
            "settled",
        ],
        "payload": {
            "booking": 48213,
            "hotel": "Resort Hotel",
            "guest": "masked · personal",
            "rooms": ["DBL-SEA", "SGL"],
            "adr": 117.3,
            "paid": True,
            "agent": None,
            "stay": {"arrival": "2026-12-04", "nights": 2, "empty": {}},
        },
        "curl_spec": {"method": "POST", "path": "/api/v1/topics/booking.changed/pause", "body": {"reason": "kit"}},
        "next_cursor": "abc",
        "shown": "1 to 50",
    }
    return render(request, "ui/kit.html", context)


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def kit_chart(request: HttpRequest) -> JsonResponse:
    """The data of the kit's example chart: two waves with a gap, and two marks."""
    start = _AT_MS // 1000 // 60 * 60 - 3 * 3600
    seconds = [start + index * 60 for index in range(180)]
    published = [round(1100 + 420 * math.sin(index / 13) + 130 * math.sin(index / 2.3), 1) for index in range(180)]
    settled: list[float | None] = [
        round(value * (0.55 if 115 < index < 130 else 0.995), 1) for index, value in enumerate(published)
    ]
    settled[60:64] = [None] * 4
    return JsonResponse(
        {
            "t": seconds,
            "unit": "/s",
            "series": [
                {"name": "published", "tone": "accent", "values": published, "area": True},
                {"name": "settled", "tone": "ok", "values": settled},
            ],
            "marks": [
                {"t": seconds[115], "label": "partner-sync paused by ops-lisbon"},
                {"t": seconds[130], "label": "partner-sync resumed"},
            ],
        }
    )
