"""Finding the topic that an act is done to."""

from __future__ import annotations

from engine.bus.errors import UnknownTopic
from hbus_console.topics.models import Topic


def topic(name: str, *, lock: bool = False) -> Topic:
    """The topic, locked for change on request; raises :class:`UnknownTopic`."""
    rows = Topic.objects.select_related("team")
    if lock:
        rows = rows.select_for_update(of=("self",))
    found = rows.filter(name=name).first()
    if found is None:
        raise UnknownTopic(f"There is no topic {name!r}.", remedy="Create it with an owner first.", field="topic")
    return found
