"""What of the alerts needs a person: what fires, channels that reach nobody, and rules that nobody holds against
anything.

What an alert says may stand among the concerns of its feature already. Then its kind says so (``told``), and the alert
has no line; or the feature leaves its own line out for what :func:`firing_on` names.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from django.urls import reverse

from engine.core.subject import Subject
from hbus_console.access.permissions import GLOBAL, allows
from hbus_console.alerts import standing
from hbus_console.alerts.feature import ALERT_CHANNEL
from hbus_console.alerts.kinds import kind_named
from hbus_console.alerts.models import Alert
from hbus_console.ui.concern import MOST_OF_A_KIND, NOTICED_MS, Concern, Look, at
from hbus_console.ui.formats import clock, num


def firing(look: Look) -> Sequence[Alert]:
    """What fires and waits for somebody, the most urgent first."""
    return standing.waiting(look.scopes, look.now_ms)


def firing_on(look: Look, *kinds: str) -> dict[Subject, int]:
    """What an alert of one of ``kinds`` fires on, and since when in epoch milliseconds."""
    return {alert.subject: alert.fired_ms for alert in look.once(firing) if alert.kind in kinds}


def since(fired_ms: int | None) -> str:
    """What a line adds to its note when an alert says the same."""
    return f" · alert since {clock(fired_ms)[:5]}" if fired_ms else ""


def concerns(look: Look) -> list[Concern]:
    """One line a rule; and what keeps alerts from doing their work."""
    return at(30, [*_rules(look.once(firing)), *_channels(look), *_evaluation(look)])


def _rules(alerts: Sequence[Alert]) -> list[Concern]:
    page = reverse("alerts:list")
    rules: dict[str, list[Alert]] = {}
    for alert in alerts:
        if not kind_named(alert.kind).told(alert.value):
            rules.setdefault(alert.rule_name, []).append(alert)
    found = [_rule(name, group, page) for name, group in rules.items()]
    if len(found) > MOST_OF_A_KIND:
        more = Concern("warn", "Further alert rules fire", f"{num(len(found) - MOST_OF_A_KIND)} more", page, "See all")
        found = [*found[:MOST_OF_A_KIND], more]
    return found


def _rule(name: str, group: Sequence[Alert], page: str) -> Concern:
    first = group[0]
    begun = f"since {clock(min(it.fired_ms for it in group))[:5]}"
    if len(group) == 1:
        text, href = f"{name}: {first.target}", reverse("alerts:alert", args=[first.pk])
        note = f"{kind_named(first.kind).said(first.value)} · {begun}"
    else:
        text, href = f"{name}: {num(len(group))} targets", f"{page}?{urlencode({'rule': name})}"
        note = f"{first.target} and others · {begun}"
    return Concern("bad" if first.severity == "critical" else "warn", text, note, href, "Open")


def _channels(look: Look) -> list[Concern]:
    if not allows(look.actor, ALERT_CHANNEL, GLOBAL):
        return []
    return [
        Concern(
            "warn",
            f"Alerts do not reach {row.channel.name}",
            f"{row.answer} · at {clock(row.made_ms)[:5]}",
            reverse("alerts:channel", args=[row.channel_id]),
            "Open channel",
        )
        for row in standing.failing_channels(look.now_ms - NOTICED_MS)[:MOST_OF_A_KIND]
    ]


def _evaluation(look: Look) -> list[Concern]:
    state = standing.health(look.actor, look.now_ms)
    if state.word != "behind" or not state.rules:
        return []
    note = f"last evaluated at {clock(state.state.at_ms)[:5]}; until then nothing new can fire"
    page = reverse("alerts:list")
    return [Concern("warn", "Alert rules are not being evaluated", note, page, "Open alerts")]
