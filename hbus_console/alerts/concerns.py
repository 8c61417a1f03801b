"""What of the alerts needs a person: what fires, channels that reach nobody, and rules that nobody holds against
anything.

What an alert says may stand among the concerns of its feature already. Then its kind says so (``told``), and the alert
has no line; or the feature leaves its own line out for what :func:`firing_on` names. Any other alert joins the incident
of its target, when there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import urlencode

from django.urls import reverse

from engine.core.subject import Subject
from hbus_console.access.permissions import GLOBAL, allows
from hbus_console.alerts import standing
from hbus_console.alerts.feature import ALERT_CHANNEL
from hbus_console.alerts.kinds import kind_named
from hbus_console.alerts.models import Alert
from hbus_console.alerts.wording import standing_of
from hbus_console.ui.concern import MOST_OF_A_KIND, NOTICED_MS, Concern, Incident, Kin, Look, at, spell
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
    """Up to one line a rule; and what keeps alerts from doing their work."""
    return at(30, [*_rules(look.once(firing)), *_channels(look), *_evaluation(look)])


def _rules(alerts: Sequence[Alert]) -> list[Concern]:
    """A line for each; those that no incident takes are one line a rule."""
    page = reverse("alerts:list")
    # The most urgent are among those that were read, and of the others perhaps not all.
    least = "at least " if len(alerts) >= standing.MOST_WAITING else ""
    # A rule has one open alert on a target, so no two say the same.
    by_text = {_said(alert): alert for alert in alerts if not kind_named(alert.kind).told(alert.value)}

    def say(lines: list[Concern]) -> list[Concern]:
        rules: dict[str, list[Concern]] = {}
        for line in lines:
            rules.setdefault(by_text[line.text].rule_name, []).append(line)
        found = [
            group[0] if len(group) == 1 else _rule([by_text[line.text] for line in group], group[0], page, least)
            for group in rules.values()
        ]
        if len(found) <= MOST_OF_A_KIND:
            return found
        further = f"{num(len(found) - MOST_OF_A_KIND)} more"
        more = Concern("warn", "Further alert rules fire", further, page, "See all", place=found[0].place)
        return [*found[:MOST_OF_A_KIND], more]

    kin = Kin(say)
    return [replace(_line(alert), kin=kin) for alert in by_text.values()]


def _said(alert: Alert) -> str:
    return f"{alert.rule_name}: {alert.target}"


def _line(alert: Alert) -> Concern:
    kind = kind_named(alert.kind)
    said, begun = standing_of(alert), f"since {clock(alert.fired_ms)[:5]}"
    return Concern(
        "bad" if alert.severity == "critical" else "warn",
        _said(alert),
        f"{said} · {begun}",
        reverse("alerts:alert", args=[alert.pk]),
        "Open",
        incident=Incident(alert.subject) if kind.follows else None,
        aside=f"alert {alert.rule_name} ({said}) {begun}",
        echo=True,
    )


def _rule(group: Sequence[Alert], first: Concern, page: str, least: str) -> Concern:
    name, begun = group[0].rule_name, f"since {clock(min(it.fired_ms for it in group))[:5]}"
    return replace(
        first,
        text=f"{name}: {least}{num(len(group))} targets",
        note=f"{group[0].target} and others · {begun}",
        href=f"{page}?{urlencode({'rule': name})}",
    )


def _channels(look: Look) -> list[Concern]:
    if not allows(look.actor, ALERT_CHANNEL, GLOBAL):
        return []
    return spell(
        standing.failing_channels(look.now_ms - NOTICED_MS),
        lambda row: Concern(
            "warn",
            f"Alerts do not reach {row.channel.name}",
            f"{row.answer} · at {clock(row.made_ms)[:5]}",
            reverse("alerts:channel", args=[row.channel_id]),
            "Open channel",
        ),
        Concern("warn", "Alerts do not reach further channels", "", reverse("alerts:channels"), "See channels"),
    )


def _evaluation(look: Look) -> list[Concern]:
    state = standing.health(look.actor, look.now_ms)
    if state.word != "behind" or not state.rules:
        return []
    note = f"last evaluated at {clock(state.state.at_ms)[:5]}; until then nothing new can fire"
    page = reverse("alerts:list")
    return [Concern("warn", "Alert rules are not being evaluated", note, page, "Open alerts")]
