"""What the endpoints of topics give."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from engine.core.clock import to_datetime
from hbus_console.api.answers import fields_of, plain
from hbus_console.api.drafts import answer, answered
from hbus_console.topics import delayed
from hbus_console.topics.leaving import sent_whole
from hbus_console.topics.models import Topic
from hbus_console.topics.services.draft import SETTINGS
from hbus_console.wiring import bus

TopicOut = answer(
    SETTINGS,
    "TopicOut",
    "A topic as it is configured. ``owner`` is null for a topic nobody answers for, and ``sent_whole_to`` names the "
    "webhooks that are sent in clear what it masks.",
    first=[("name", str)],
    after={"owner": [("contact", str | None)], "compatibility": [("schema_version", int | None)]},
    last=[
        ("paused", bool),
        ("pause_reason", str),
        ("created_at", datetime),
        ("updated_at", datetime),
        ("revision", int),
        ("sent_whole_to", list[str]),
    ],
)


def topic(row: Topic) -> dict[str, Any]:
    """A topic; its latest schema version comes annotated as ``schema_version``, or is looked up."""
    if "schema_version" not in row.__dict__:
        row.__dict__["schema_version"] = row.schemas.values_list("version", flat=True).first()
    settings = answered(SETTINGS, row)
    out = TopicOut(
        **settings,
        contact=row.team.contact if row.team else None,
        sent_whole_to=sent_whole(row),
        **fields_of(row, TopicOut, "contact", "sent_whole_to", *settings),
    )
    return plain(out)


class DelayedOut(msgspec.Struct):
    """What of a topic waits for its due time. ``waiting`` counts also what is ``refused``: due, not taken, and tried
    again; ``refused_why`` is the reason of the last of these. Deleting the topic cancels all of it."""

    topic: str
    waiting: int
    refused: int
    refused_since: datetime | None
    refused_why: str


def delayed_of(topic: str) -> dict[str, Any]:
    """Raises ``Unavailable``."""
    refused = bus.delays().refusals.by_topic().get(topic)
    return plain(
        DelayedOut(
            topic,
            delayed.count(topic),
            refused.count if refused else 0,
            to_datetime(refused.since_ms) if refused else None,
            refused.why if refused else "",
        )
    )
