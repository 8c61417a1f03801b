"""What the endpoints of topics give."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from hbus_console.api.answers import fields_of, plain
from hbus_console.api.drafts import answer, answered
from hbus_console.topics.models import Topic
from hbus_console.topics.services.draft import SETTINGS

TopicOut = answer(
    SETTINGS,
    "TopicOut",
    "A topic as it is configured. ``owner`` is null for a topic nobody answers for.",
    first=[("name", str)],
    after={"owner": [("contact", str | None)], "compatibility": [("schema_version", int | None)]},
    last=[
        ("paused", bool),
        ("pause_reason", str),
        ("created_at", datetime),
        ("updated_at", datetime),
        ("revision", int),
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
        **fields_of(row, TopicOut, "contact", *settings),
    )
    return plain(out)
