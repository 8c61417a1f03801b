"""Finding the things that acts are done to."""

from __future__ import annotations

from engine.bus.errors import UnknownTopic
from engine.core.errors import BadInput
from hbus_console.errors import NotThere
from hbus_console.topics.models import SchemaVersion, Subscription, Team, Topic


def topic(name: str, *, lock: bool = False) -> Topic:
    """The topic, locked for change on request; raises :class:`UnknownTopic`."""
    rows = Topic.objects.select_related("team")
    if lock:
        rows = rows.select_for_update(of=("self",))
    found = rows.filter(name=name).first()
    if found is None:
        raise UnknownTopic(f"There is no topic {name!r}.", remedy="Create it with an owner first.", field="topic")
    return found


def subscription(topic: str, group: str, *, lock: bool = False) -> Subscription:
    """The subscription with its topic and team, locked for change on request; raises :class:`NotThere`."""
    rows = Subscription.objects.select_related("topic", "team")
    if lock:
        rows = rows.select_for_update(of=("self",))
    found = rows.filter(topic__name=topic, group=group).first()
    if found is None:
        raise NotThere(
            f"There is no subscription {group!r} on {topic!r}.", remedy="List those of the topic.", field="group"
        )
    return found


def schema(topic: str, number: int) -> SchemaVersion:
    """Raises :class:`NotThere`."""
    found = SchemaVersion.objects.filter(topic__name=topic, version=number).select_related("topic").first()
    if found is None:
        raise NotThere(f"{topic} has no schema version {number}.", remedy="List its versions.", field="version")
    return found


def team(name: str) -> Team:
    """Raises :class:`NotThere`."""
    found = Team.objects.filter(name=name).first()
    if found is None:
        raise NotThere(f"There is no team {name!r}.", remedy="Create it under Topics, Teams.", field="team")
    return found


def owner(name: object, field: str = "owner") -> Team:
    """The team named as an owner; raises :class:`BadInput` at ``field`` when it is missing or unknown."""
    if not isinstance(name, str) or not name.strip():
        raise BadInput("An owner is needed.", remedy="Name the team that answers for it.", field=field)
    found = Team.objects.filter(name=name.strip()).first()
    if found is None:
        raise BadInput(f"There is no team {name!r}.", remedy="Create the team first, with its contact.", field=field)
    return found
