"""What of the subscriptions needs a person: open breakers, handlers that do not return, parked keys, those that nobody
owns, and those that somebody has paused.
"""

from __future__ import annotations

from django.urls import reverse

from engine.bus.breaker_board import WHY_LIMIT, Standing
from engine.bus.dead import fingerprint
from engine.bus.subjects import subscription_subject
from hbus_console.access.scopes import scopes_q
from hbus_console.alerts.concerns import firing_on, since
from hbus_console.audit.concerns import last_acts, who_and_why
from hbus_console.cluster.concerns import nodes
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import open_breakers
from hbus_console.traffic.flow import LagNow
from hbus_console.traffic.standing import lag
from hbus_console.ui.concern import MOST_OF_A_KIND, Concern, Incident, Look, at, spell
from hbus_console.ui.formats import duration, num

#: A subscription by its topic and its name.
Pair = tuple[str, str]


def concerns(look: Look) -> list[Concern]:
    """A fixed number of queries, and one question to the store."""
    return [
        *at(70, _breakers(look)),
        *at(80, _hung(look)),
        *at(100, _ownerless(look.scopes)),
        *at(120, _parked(look)),
        *at(150, _paused(look.scopes)),
    ]


def seen(look: Look) -> frozenset[Pair]:
    """Every subscription that the actor may see."""
    rows = Subscription.objects.filter(scopes_q(look.scopes, "topic__name")).values_list("topic__name", "group")
    return frozenset(rows)


def _breakers(look: Look) -> list[Concern]:
    # A store that is away is a line of its own.
    found = open_breakers(list(look.once(seen))) or {}

    def meanwhile(row: Pair) -> str:
        return "one message is being tried" if found[row].state == "probing" else "nothing is delivered meanwhile"

    return spell(
        sorted(found),
        lambda row: Concern(
            "bad",
            f"The breaker of {row[1]} on {row[0]} is open",
            meanwhile(row),
            reverse("subscriptions:detail", args=row),
            "Open",
            incident=Incident(subscription_subject(*row), _cause(row[1], found[row])),
            aside=f"the breaker is open, {meanwhile(row)}",
        ),
        Concern("bad", "Further breakers are open", "", reverse("subscriptions:list"), "See all"),
    )


def _cause(group: str, breaker: Standing) -> str:
    """The fingerprint of the failure that opened it; empty when a person did, or its words are not all there."""
    if breaker.forced or len(breaker.why) >= WHY_LIMIT:
        return ""
    error_class, _, message = breaker.why.partition(": ")
    return fingerprint(group, error_class, message)


def _hung(look: Look) -> list[Concern]:
    """Handlers that do not return, by the word of consumers that are alive."""
    longest: dict[Pair, tuple[float, str]] = {}
    for node in look.once(nodes):
        for status in () if node.silent else node.detail.get("consumers", ()):
            pair = (str(status.get("topic")), str(status.get("group")))
            running = [float(one.get("running_s", 0)) for one in status.get("hung", ()) if not one.get("given_up")]
            if running and pair in look.once(seen):
                longest[pair] = max(longest.get(pair, (0.0, "")), (max(running), node.name))
    return spell(
        sorted(longest.items(), key=lambda item: -item[1][0]),
        lambda item: Concern(
            "bad",
            f"A handler of {item[0][1]} on {item[0][0]} does not return",
            f"hung for {duration(round(item[1][0] * 1e6))} on {item[1][1]}",
            reverse("subscriptions:detail", args=item[0]),
            "Open",
            incident=Incident(subscription_subject(*item[0]), "hung"),
        ),
        Concern("bad", "Further handlers do not return", "", reverse("subscriptions:list"), "See all"),
    )


def _ownerless(scopes: tuple[str, ...]) -> list[Concern]:
    rows = list(
        Subscription.objects.filter(scopes_q(scopes, "topic__name"), team=None)
        .order_by("topic__name", "group")
        .values_list("topic__name", "group")[: MOST_OF_A_KIND + 1]
    )
    return spell(
        rows,
        lambda row: Concern(
            "warn",
            f"{row[1]} on {row[0]} has no owner",
            "nobody is asked when it fails",
            reverse("subscriptions:settings", args=row),
            "Name an owner",
        ),
        Concern(
            "warn",
            "Further subscriptions have no owner",
            "nobody is asked when they fail",
            f"{reverse('subscriptions:list')}?owner=-",
            "See all",
        ),
    )


def _parked(look: Look) -> list[Concern]:
    """Subscriptions that have set keys aside: these stand still until somebody decides."""
    rows = sorted((line for line in look.once(lag) if line.parked), key=lambda line: -line.parked)
    if not rows:
        return []
    fired = firing_on(look, "parked")

    def line(row: LagNow) -> Concern:
        return Concern(
            "warn",
            f"{row.subscription} on {row.topic} has parked keys",
            f"{num(row.parked)} {'message waits' if row.parked == 1 else 'messages wait'} with them"
            + since(fired.get(row.subject)),
            reverse("subscriptions:order", args=[row.topic, row.subscription]),
            "Decide",
            incident=Incident(row.subject, "parked"),
        )

    more = Concern("warn", "Further subscriptions have parked keys", "", reverse("subscriptions:list"), "See all")
    return spell([row for row in rows if (row.topic, row.subscription) in look.once(seen)], line, more)


def _paused(scopes: tuple[str, ...]) -> list[Concern]:
    paused = Subscription.objects.filter(scopes_q(scopes, "topic__name"), paused=True)
    rows = list(paused.values_list("topic__name", "group", "pause_reason")[: MOST_OF_A_KIND + 1])
    acts = last_acts([f"{topic}/{group}" for topic, group, _ in rows], "subscription.pause", "subscription.drain")
    return spell(
        rows,
        lambda row: Concern(
            "warn",
            f"{row[1]} on {row[0]} is paused",
            who_and_why(acts.get(f"{row[0]}/{row[1]}"), row[2]),
            reverse("subscriptions:detail", args=row[:2]),
            "Open",
        ),
        Concern("warn", "Further subscriptions are paused", "", reverse("subscriptions:list"), "See all"),
    )
