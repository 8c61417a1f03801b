"""What failed for good and needs a person: dead letters, a subscription at its limit of them, parked keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, Max, Min
from django.urls import reverse

from hbus_console.access.scopes import scopes_q
from hbus_console.alerts.models import Alert
from hbus_console.deadletters.limit import full_subscriptions
from hbus_console.deadletters.models import DeadLetter
from hbus_console.subscriptions.models import Subscription
from hbus_console.traffic.flow import LagNow
from hbus_console.ui.concern import MOST_OF_A_KIND, Concern, spell
from hbus_console.ui.formats import clock, num


def dead(scopes: tuple[str, ...]) -> list[Concern]:
    """The largest groups of dead letters that wait for a decision."""
    groups = list(
        DeadLetter.objects.filter(scopes_q(scopes), state=DeadLetter.State.DEAD)
        .values("fingerprint", "topic", "subscription")
        .annotate(count=Count("id"), since=Min("died_at"), latest=Max("died_at"), newest=Max("id"))
        .order_by("-count", "-latest")[: MOST_OF_A_KIND + 1]
    )
    # Asked for by themselves: with the cause among the groups, every letter would be read, body and all.
    newest = DeadLetter.objects.filter(pk__in=[group["newest"] for group in groups])
    causes = dict(newest.values_list("pk", "cause"))
    page = reverse("deadletters:list")
    teams = _teams({(group["topic"], group["subscription"]) for group in groups})
    found = []
    for group in groups[:MOST_OF_A_KIND]:
        count = group["count"]
        letters = "A dead letter" if count == 1 else f"{num(count)} dead letters"
        since = f"since {clock(group['since'])[:5]}" if count > 1 else f"at {clock(group['since'])[:5]}"
        team = teams.get((group["topic"], group["subscription"]), "")
        note = " · ".join(part for part in (causes[group["newest"]], group["subscription"], since, team) if part)
        text = f"{letters} on {group['topic']}" + (", one cause" if count > 1 else "")
        found.append(Concern("bad", text, note, f"{page}?open={group['fingerprint']}", f"Review {num(count)}"))
    if len(groups) > MOST_OF_A_KIND:
        found.append(Concern("bad", "Dead letters of further causes", "fewer of each", page, "Review all"))
    return found


def full(scopes: tuple[str, ...], alerts: Sequence[Alert]) -> list[Concern]:
    """Subscriptions that hold as many dead letters as they should ever hold, or more."""
    rows = full_subscriptions(scopes)
    since = {(it.namespace, it.subject_name): it.fired_ms for it in alerts if it.kind == "dead_letter_limit"}
    page = reverse("deadletters:list")
    return spell(
        rows,
        lambda row: Concern(
            "bad",
            f"{row.group} on {row.topic} has reached its limit of dead letters",
            f"{num(row.count)} wait, the limit is {num(settings.DEAD_LETTER_LIMIT)} · none is removed"
            + _since(since.get((row.topic, row.group))),
            f"{page}?{urlencode({'topic': row.topic, 'subscription': row.group})}",
            f"Review {num(row.count)}",
        ),
        Concern("bad", "Further subscriptions have reached their limit of dead letters", "", page, "Review all"),
    )


def parked(scopes: tuple[str, ...], lag: Iterable[LagNow], alerts: Sequence[Alert]) -> list[Concern]:
    """Subscriptions that have set keys aside: these stand still until somebody decides."""
    rows = sorted((line for line in lag if line.parked), key=lambda line: -line.parked)
    if not rows:
        return []
    seen = set(Subscription.objects.filter(scopes_q(scopes, "topic__name")).values_list("topic__name", "group"))
    since = {(it.namespace, it.subject_name): it.fired_ms for it in alerts if it.kind == "parked"}
    return spell(
        [line for line in rows if (line.topic, line.subscription) in seen],
        lambda line: Concern(
            "warn",
            f"{line.subscription} on {line.topic} has parked keys",
            f"{num(line.parked)} {'message waits' if line.parked == 1 else 'messages wait'} with them"
            + _since(since.get((line.topic, line.subscription))),
            reverse("subscriptions:order", args=[line.topic, line.subscription]),
            "Decide",
        ),
        Concern("warn", "Further subscriptions have parked keys", "", reverse("subscriptions:list"), "See all"),
    )


def _since(fired_ms: int | None) -> str:
    return f" · alert since {clock(fired_ms)[:5]}" if fired_ms else ""


def _teams(pairs: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    if not pairs:
        return {}
    rows = Subscription.objects.filter(topic__name__in={topic for topic, _ in pairs}, team__isnull=False)
    return {(topic, group): team for topic, group, team in rows.values_list("topic__name", "group", "team__name")}
