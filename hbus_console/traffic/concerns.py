"""What of the flow needs a person: subscriptions that fall behind, and those of which nobody knows."""

from __future__ import annotations

from collections.abc import Set

from django.db.models import Q
from django.urls import reverse

from engine.bus.subjects import subscription_subject
from engine.core.clock import to_datetime
from engine.core.subject import Subject
from hbus_console.access.scopes import scopes_q
from hbus_console.alerts.concerns import firing_on
from hbus_console.evidence.freshness import not_known
from hbus_console.subscriptions.models import Subscription
from hbus_console.traffic.flow import LAG_MEMORY_MS, LagNow
from hbus_console.traffic.standing import NOT_KNOWN, lag, stand
from hbus_console.ui.concern import Concern, Incident, Look, at, spell
from hbus_console.ui.formats import duration, num

#: A message that waits longer than this behind a subscription that nobody has paused means somebody should look.
#: Where nothing needs anybody the overview says that none has.
WAITS_TOO_LONG_MS = 5 * 60 * 1000


def concerns(look: Look) -> list[Concern]:
    """The longest wait first. What an alert says already is not said twice."""
    said = firing_on(look, "lag", "oldest")
    late = [
        line
        for line in look.once(lag)
        if line.oldest_ms and line.unsettled != 0 and look.now_ms - line.oldest_ms > WAITS_TOO_LONG_MS
        if line.subject not in said
    ]
    return [*at(130, _late(look, late)), *at(135, _unknown(look, said.keys() | {line.subject for line in late}))]


def _late(look: Look, late: list[LagNow]) -> list[Concern]:
    if not late:
        return []
    held = set(
        Subscription.objects.filter(
            Q(paused=True) | Q(topic__paused=True), scopes_q(look.scopes, "topic__name")
        ).values_list("topic__name", "group")
    )
    late = [line for line in late if (line.topic, line.subscription) not in held]
    late.sort(key=lambda line: line.oldest_ms or 0)
    return spell(late, lambda line: _line(line, look.now_ms))


def _unknown(look: Look, said: Set[Subject]) -> list[Concern]:
    """Of which nobody can tell whether anything waits: as long as it is so, nothing says that all is well."""
    if (lines := look.once(lag)) and all(line.old for line in lines):
        # It is not theirs, one by one: nobody samples.
        return [
            Concern(
                "warn",
                f"What waits is {not_known(max(line.at_ms for line in lines))}",
                "no keeper is sampling",
                reverse("cluster:overview"),
                "Open cluster",
            )
        ]
    dark = {(line.topic, line.subscription) for line in look.once(lag) if line.unsettled is None}
    if unread := look.once(stand).unread - {(line.topic, line.subscription) for line in look.once(lag)}:
        # What was made a moment ago has not been asked for yet.
        made = Subscription.objects.filter(
            scopes_q(look.scopes, "topic__name"), created_at__lt=to_datetime(look.now_ms - LAG_MEMORY_MS)
        )
        dark |= unread & set(made.values_list("topic__name", "group"))
    unasked = {(line.topic, line.subscription): not_known(line.at_ms) for line in lines if line.old}
    return spell(
        sorted(pair for pair in dark if subscription_subject(*pair) not in said),
        lambda pair: Concern(
            "warn",
            f"What waits for {pair[1]} on {pair[0]} is not known",
            (unasked[pair] + ": " if pair in unasked else "") + "its store cannot be asked, or cannot tell",
            reverse("subscriptions:detail", args=pair),
            "Open",
            incident=Incident(subscription_subject(*pair)),
            aside=NOT_KNOWN,
        ),
        Concern(
            "warn",
            "What waits for further subscriptions is not known",
            "",
            f"{reverse('subscriptions:list')}?state=unknown",
            "See all",
        ),
    )


def _line(line: LagNow, now_ms: int) -> Concern:
    waited_us = (now_ms - (line.oldest_ms or 0)) * 1000
    many = "how many wait is not known" if line.unsettled is None else f"{num(line.unsettled)} unsettled"
    waits = f"{many}, the oldest for {duration(waited_us)}"
    return Concern(
        "warn",
        f"{line.subscription} on {line.topic} falls behind",
        waits,
        reverse("subscriptions:detail", args=[line.topic, line.subscription]),
        "Open",
        incident=Incident(line.subject),
        aside=waits,
    )
