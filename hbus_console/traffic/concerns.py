"""What of the flow needs a person: subscriptions that fall behind."""

from __future__ import annotations

from django.urls import reverse

from hbus_console.access.scopes import scopes_q
from hbus_console.alerts.concerns import firing_on
from hbus_console.subscriptions.models import Subscription
from hbus_console.traffic.flow import LagNow
from hbus_console.traffic.standing import lag
from hbus_console.ui.concern import Concern, Incident, Look, at, spell
from hbus_console.ui.formats import duration, num

#: A message that waits longer than this behind a subscription that is not paused means somebody should look.
WAITS_TOO_LONG_MS = 5 * 60 * 1000


def concerns(look: Look) -> list[Concern]:
    """The longest wait first. What an alert says already is not said twice."""
    said = firing_on(look, "lag", "oldest")
    late = [
        line
        for line in look.once(lag)
        if line.oldest_ms and (line.unsettled or 0) and look.now_ms - line.oldest_ms > WAITS_TOO_LONG_MS
        if line.subject not in said
    ]
    if not late:
        return []
    held = set(
        Subscription.objects.filter(scopes_q(look.scopes, "topic__name"), paused=True).values_list(
            "topic__name", "group"
        )
    )
    late = [line for line in late if (line.topic, line.subscription) not in held]
    late.sort(key=lambda line: line.oldest_ms or 0)
    return at(130, spell(late, lambda line: _line(line, look.now_ms)))


def _line(line: LagNow, now_ms: int) -> Concern:
    waited_us = (now_ms - (line.oldest_ms or 0)) * 1000
    waits = f"{num(line.unsettled)} unsettled, the oldest for {duration(waited_us)}"
    return Concern(
        "warn",
        f"{line.subscription} on {line.topic} falls behind",
        waits,
        reverse("subscriptions:detail", args=[line.topic, line.subscription]),
        "Open",
        incident=Incident(line.subject),
        aside=waits,
    )
