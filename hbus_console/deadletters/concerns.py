"""What of the dead letters needs a person: what waits for a decision, and subscriptions at their limit of them."""

from __future__ import annotations

from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, Max, Min
from django.urls import reverse

from hbus_console.access.scopes import scopes_q
from hbus_console.alerts.concerns import firing_on, since
from hbus_console.deadletters.limit import Full, full_subscriptions
from hbus_console.deadletters.models import DeadLetter
from hbus_console.deadletters.samples import Group, tellings
from hbus_console.subscriptions.models import Subscription
from hbus_console.ui.concern import MOST_OF_A_KIND, Concern, Look, at, spell
from hbus_console.ui.formats import clock, num


def concerns(look: Look) -> list[Concern]:
    """The subscriptions at their limit first, then the largest groups of one cause."""
    return [*at(40, _full(look)), *at(50, _dead(look.scopes))]


def _full(look: Look) -> list[Concern]:
    """Subscriptions that hold as many dead letters as they should ever hold, or more."""
    fired, page = firing_on(look, "dead_letter_limit"), reverse("deadletters:list")

    def line(row: Full) -> Concern:
        return Concern(
            "bad",
            f"{row.group} on {row.topic} has reached its limit of dead letters",
            f"{num(row.count)} wait, the limit is {num(settings.DEAD_LETTER_LIMIT)} · none is removed"
            + since(fired.get(row.subject)),
            f"{page}?{urlencode({'topic': row.topic, 'subscription': row.group})}",
            f"Review {num(row.count)}",
        )

    more = Concern("bad", "Further subscriptions have reached their limit of dead letters", "", page, "Review all")
    return spell(full_subscriptions(look.scopes), line, more)


def _dead(scopes: tuple[str, ...]) -> list[Concern]:
    groups = list(
        DeadLetter.objects.filter(scopes_q(scopes, "topic"), state=DeadLetter.State.DEAD)
        .values("fingerprint", "topic", "subscription")
        .annotate(count=Count("id"), since=Min("died_at"), latest=Max("died_at"))
        .order_by("-count", "-latest")[: MOST_OF_A_KIND + 1]
    )
    shown = [Group(one["fingerprint"], one["topic"], one["subscription"], one["count"]) for one in groups]
    told = tellings(shown[:MOST_OF_A_KIND], DeadLetter.State.DEAD)
    page = reverse("deadletters:list")
    teams = _teams({(group["topic"], group["subscription"]) for group in groups})
    found = []
    for group, telling in zip(groups, told, strict=False):
        count = group["count"]
        letters = "A dead letter" if count == 1 else f"{num(count)} dead letters"
        begun = f"since {clock(group['since'])[:5]}" if count > 1 else f"at {clock(group['since'])[:5]}"
        team = teams.get((group["topic"], group["subscription"]), "")
        note = " · ".join(part for part in (telling.title, telling.note, group["subscription"], begun, team) if part)
        text = f"{letters} on {group['topic']}" + (", one cause" if count > 1 else "")
        found.append(Concern("bad", text, note, f"{page}?open={group['fingerprint']}", f"Review {num(count)}"))
    if len(groups) > MOST_OF_A_KIND:
        found.append(Concern("bad", "Dead letters of further causes", "fewer of each", page, "Review all"))
    return found


def _teams(pairs: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    if not pairs:
        return {}
    rows = Subscription.objects.filter(topic__name__in={topic for topic, _ in pairs}, team__isnull=False)
    return {(topic, group): team for topic, group, team in rows.values_list("topic__name", "group", "team__name")}
