"""Teams, topics, subscriptions and jobs of the example. Seeding twice changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from engine.core.errors import Conflict
from examples.hotel.events import TOPICS
from examples.hotel.models import PartnerRoom
from examples.hotel.partner import FIRST_ROOMS
from hbus_console.access.permissions import Actor
from hbus_console.jobs import as_code
from hbus_console.jobs.services.draft import JobDraft
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services.draft import SubscriptionDraft
from hbus_console.subscriptions.services.subscriptions import (
    change_subscription,
    create_subscription,
)
from hbus_console.teams.models import Team
from hbus_console.teams.services import TeamDraft, create_team
from hbus_console.topics.models import Topic
from hbus_console.topics.services.draft import TopicDraft
from hbus_console.topics.services.topics import change_topic, create_topic
from hbus_console.wiring import bus

_REASON = "The hotel example"
_JOBS = Path(__file__).with_name("jobs.yaml")
#: What carries a topic that asks for order where the installation's default keeps none.
ORDERED = "redis_stream"
RESERVATIONS, DISTRIBUTION, FINANCE = "Reservations", "Distribution", "Finance"
TEAMS = {
    RESERVATIONS: "reservations@hotel.example",
    DISTRIBUTION: "#distribution-oncall",
    FINANCE: "finance@hotel.example",
}


@dataclass(frozen=True)
class _Topic:
    owner: str
    description: str
    ordering: str = "none"
    #: Paths of what is personal; with any, the topic's class is personal.
    masked: tuple[str, ...] = ()


_GUEST = ("guest.name", "guest.email")
_TOPICS = {
    "booking.created": _Topic(RESERVATIONS, "A guest has booked a stay.", masked=_GUEST),
    "booking.changed": _Topic(RESERVATIONS, "A booked stay has moved; names it before and after.", ordering="key"),
    "booking.cancelled": _Topic(RESERVATIONS, "Nights can be sold again, by cancellation or no-show."),
    "stay.completed": _Topic(RESERVATIONS, "A guest has checked out.", masked=_GUEST),
    "night.closed": _Topic(RESERVATIONS, "A hotel's day is closed, with the rooms sold for its night."),
    "invoice.drafted": _Topic(FINANCE, "Billing has drafted an invoice for a stay.", masked=_GUEST),
}
_READERS = {
    ("booking.created", "availability"): (RESERVATIONS, "Counts the room-nights of new bookings."),
    ("booking.changed", "availability"): (RESERVATIONS, "Moves room-nights when a stay moves."),
    ("booking.cancelled", "availability"): (RESERVATIONS, "Takes back the room-nights that fall free."),
    ("booking.cancelled", "partner-sync"): (DISTRIBUTION, "Gives free rooms back to the channel partner."),
    ("stay.completed", "billing"): (FINANCE, "Drafts an invoice for each completed stay."),
    ("night.closed", "front-desk"): (RESERVATIONS, "Knows that the day is over."),
    ("night.closed", "channel-report"): (DISTRIBUTION, "Reports the day to the channels."),
    ("night.closed", "revenue"): (FINANCE, "Books the revenue of the day."),
}


def seed(actor: Actor) -> bool:
    """Make what is missing, as ``actor``; ``True`` when anything was."""
    made = False
    for name, contact in TEAMS.items():
        if not Team.objects.filter(name=name).exists():
            create_team(actor, TeamDraft(name, contact), _REASON)
            made = True
    for name, topic in _TOPICS.items():
        row = Topic.objects.filter(name=name).first()
        if row is None:
            create_topic(actor, _draft(name, topic), _REASON)
            made = True
        elif not row.transport and _carrier(topic):
            # The installation's default has been switched since it was made.
            change_topic(actor, name, {"transport": _carrier(topic)}, _REASON)
            made = True
    for (name, group), (owner, description) in _READERS.items():
        found = Subscription.objects.filter(topic__name=name, group=group).first()
        if found is None:
            try:
                create_subscription(actor, _subscription(name, group, owner, description), _REASON)
                made = True
                continue
            except Conflict:
                # A consumer has just declared it, from the handler's code.
                found = Subscription.objects.get(topic__name=name, group=group)
        if found.team is None:
            change_subscription(actor, name, group, {"owner": owner, "description": description}, _REASON)
            made = True
    for code in FIRST_ROOMS:
        PartnerRoom.objects.get_or_create(code=code, defaults={"added_by": actor.name})
    return _seed_jobs(actor) or made


def job_drafts() -> list[JobDraft]:
    """The jobs of the example, as its file says them."""
    return as_code.read_jobs(_JOBS.read_text(encoding="utf-8"))


def subscriptions() -> list[tuple[str, str]]:
    """(topic, group) of every subscription of the example."""
    return list(_READERS)


def _seed_jobs(actor: Actor) -> bool:
    """Those that are missing: what a person has changed of the others is theirs."""
    planned = [each for each in as_code.plan(actor, job_drafts()) if each.act == "create"]
    for each in planned:
        as_code.apply(actor, each, _REASON)
    return bool(planned)


def _draft(name: str, topic: _Topic) -> TopicDraft:
    return TopicDraft(
        name=name,
        owner=topic.owner,
        description=topic.description,
        classification="personal" if topic.masked else "internal",
        masked_fields=topic.masked,
        ordering=topic.ordering,
        transport=_carrier(topic),
        schema=msgspec.json.schema(TOPICS[name]),
    )


def _carrier(topic: _Topic) -> str:
    """Where the installation's transport keeps no order, an ordered topic stays with one that does."""
    kept = topic.ordering == "none" or bus.transport().capabilities.ordered
    return "" if kept else ORDERED


def _subscription(topic: str, group: str, owner: str, description: str) -> SubscriptionDraft:
    """Policies are left to the declaration in ``handlers.py``."""
    return SubscriptionDraft(topic=topic, group=group, owner=owner, description=description)
