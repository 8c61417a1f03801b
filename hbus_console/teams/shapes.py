"""What the endpoints of teams take and give."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from hbus_console.api.answers import plain
from hbus_console.api.bodies import Body
from hbus_console.teams.models import Team


class NewTeam(Body):
    """A team and where it is reached."""

    name: str
    contact: str
    reason: str = ""


class TeamChange(Body):
    """What to change of a team."""

    name: str | UnsetType = UNSET
    contact: str | UnsetType = UNSET
    reason: str = ""


class TeamOut(msgspec.Struct):
    """A team and what it answers for."""

    name: str
    contact: str
    topics: int
    subscriptions: int


def team(row: Team) -> dict[str, Any]:
    """A team; its counts come annotated as ``owned_topics`` and ``owned_subscriptions``, or are counted."""
    topics = row.__dict__.get("owned_topics")
    readers = row.__dict__.get("owned_subscriptions")
    return plain(
        TeamOut(
            row.name,
            row.contact,
            row.topics.count() if topics is None else topics,
            row.subscriptions.count() if readers is None else readers,
        )
    )
