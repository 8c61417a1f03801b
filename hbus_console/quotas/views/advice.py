"""What the last day's traffic advises for one policy."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from engine.quota.advising import TOLERATED
from hbus_console.access.acts import VIEW
from hbus_console.access.permissions import SOMEWHERE, visible_scopes
from hbus_console.access.web import actor, console_view
from hbus_console.quotas.advising import advice_for
from hbus_console.quotas.services.draft import snapshot
from hbus_console.quotas.sight import policy_seen
from hbus_console.quotas.views.policy import frame
from hbus_console.ui.pages import clock


@require_GET
@console_view(VIEW, resource=SOMEWHERE)
def advice(request: HttpRequest, policy: str) -> HttpResponse:
    who = actor(request)
    row = policy_seen(who, policy)
    found = advice_for(snapshot(row), clock.now_ms(), visible_scopes(who, VIEW))
    points = found.rates.curve if found.rates else ()
    context = {
        **frame(who, row),
        "advice": found,
        "best": found.rates.recommended if found.rates else None,
        "curve": [
            {
                "it": each,
                "least": 100 * each.least,
                "most": 100 * each.most,
                "enough": each.most < TOLERATED,
            }
            for each in points
        ],
    }
    return render(request, "quotas/advice.html", context)
