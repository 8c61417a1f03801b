"""What of the dead letters needs a person: what waits for a decision, and subscriptions at their limit of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from urllib.parse import urlencode

from django.conf import settings
from django.db.models import Count, Max, Min
from django.urls import reverse

from engine.bus.subjects import subscription_subject
from hbus_console.access.scopes import scopes_q
from hbus_console.alerts.concerns import firing_on, since
from hbus_console.deadletters import counting
from hbus_console.deadletters.group_mark import mark
from hbus_console.deadletters.limit import Full, full_subscriptions
from hbus_console.deadletters.models import DeadLetter
from hbus_console.deadletters.samples import OneCause, tellings
from hbus_console.deadletters.telling import Telling
from hbus_console.evidence.freshness import dead_letters
from hbus_console.subscriptions.models import Subscription
from hbus_console.ui.concern import MOST_JOINED, Concern, Incident, Look, at, spell
from hbus_console.ui.formats import clock, num


def concerns(look: Look) -> list[Concern]:
    """The subscriptions at their limit first, then the largest groups of one cause."""
    return [*at(40, _full(look)), *at(50, _dead(look))]


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


def _dead(look: Look) -> list[Concern]:
    rows = (
        DeadLetter.objects.filter(scopes_q(look.scopes, "topic"), state=DeadLetter.State.DEAD)
        .values_list("fingerprint", "topic", "subscription")
        .annotate(count=Count("id"), since=Min("died_at"), latest=Max("died_at"))
        .order_by("-count", "-latest")[:MOST_JOINED]
    )
    found = {OneCause(fingerprint, topic, group, count): since for fingerprint, topic, group, count, since, _ in rows}
    if not found:
        # As on most days: there is nothing to say since when.
        return []
    of, page = dead_letters(look.now_ms), reverse("deadletters:list")
    causes = {_incident(one): one for one in found}

    def line(one: OneCause) -> Concern:
        return Concern(
            "bad",
            f"{counting.letters(one.letters, of)} on {one.topic}" + (", one cause" if one.letters > 1 else ""),
            "",
            f"{page}?{urlencode({'open': mark(one)})}",
            f"Review {num(one.letters)}",
            incident=_incident(one),
        )

    def finish(lines: list[Concern]) -> list[Concern]:
        """With what they died of, which is read for the lines that are left and no others."""
        spelled = [causes[each.incident] for each in lines if each.incident]
        told = tellings(spelled, DeadLetter.State.DEAD)
        teams = _teams({(one.topic, one.subscription) for one in spelled})
        notes = [
            _note(one, telling, found[one], teams.get((one.topic, one.subscription), ""))
            for one, telling in zip(spelled, told, strict=True)
        ]
        return [
            replace(each, note=f"{note} · {each.note}" if each.note else note)
            for each, note in zip(lines, notes, strict=True)
        ]

    more = Concern("bad", "Dead letters of further causes", "fewer of each, or as many", page, "Review all")
    return spell(list(found), line, more, finish)


def _incident(one: OneCause) -> Incident:
    return Incident(subscription_subject(one.topic, one.subscription), one.fingerprint)


def _note(one: OneCause, telling: Telling, begun_at: datetime, team: str) -> str:
    begun = clock(begun_at)[:5]
    since_when = f"since {begun}" if one.letters > 1 else f"at {begun}"
    return " · ".join(part for part in (telling.title, telling.note, one.subscription, since_when, team) if part)


def _teams(pairs: set[tuple[str, str]]) -> dict[tuple[str, str], str]:
    if not pairs:
        return {}
    rows = Subscription.objects.filter(topic__name__in={topic for topic, _ in pairs}, team__isnull=False)
    return {(topic, group): team for topic, group, team in rows.values_list("topic__name", "group", "team__name")}
