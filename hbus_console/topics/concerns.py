"""What of the topics needs a person: those that nobody owns, and those that somebody has paused."""

from __future__ import annotations

from django.urls import reverse

from hbus_console.access.scopes import scopes_q
from hbus_console.audit.concerns import last_acts, who_and_why
from hbus_console.topics.models import Topic
from hbus_console.ui.concern import MOST_OF_A_KIND, Concern, Look, at, spell


def concerns(look: Look) -> list[Concern]:
    """Up to two queries, one more while something is paused."""
    return [*at(90, _ownerless(look.scopes)), *at(140, _paused(look.scopes))]


def _ownerless(scopes: tuple[str, ...]) -> list[Concern]:
    rows = Topic.objects.filter(scopes_q(scopes, "name"), team=None).values_list("name", flat=True)
    return spell(
        list(rows[: MOST_OF_A_KIND + 1]),
        lambda name: Concern(
            "bad",
            f"{name} has no owner",
            "every publish to it is refused",
            reverse("topics:detail", args=[name]),
            "Name an owner",
        ),
        Concern(
            "bad",
            "Further topics have no owner",
            "every publish to them is refused",
            reverse("topics:list"),
            "See topics",
        ),
    )


def _paused(scopes: tuple[str, ...]) -> list[Concern]:
    rows = Topic.objects.filter(scopes_q(scopes, "name"), paused=True)
    names = list(rows.values_list("name", flat=True)[: MOST_OF_A_KIND + 1])
    acts = last_acts(names, "topic.pause")
    return spell(
        names,
        lambda name: Concern(
            "warn",
            f"{name} is paused",
            who_and_why(acts.get(name)),
            reverse("topics:detail", args=[name]),
            "Open",
        ),
        Concern("warn", "Further topics are paused", "", reverse("topics:list"), "See topics"),
    )
