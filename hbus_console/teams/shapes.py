"""What the endpoints of teams take and give."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from hbus_console.api.bodies import Body
from hbus_console.teams import owned
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


def shape() -> type[msgspec.Struct]:
    """A team and how much it answers for of each kind that the installed features bring."""
    fields: list[tuple[str, type]] = [("name", str), ("contact", str), *((it.relation, int) for it in owned.kinds())]
    return msgspec.defstruct("TeamOut", fields, namespace={"__doc__": "A team and what it answers for."})


def team(row: Team) -> dict[str, Any]:
    """A team; its counts come annotated as ``owned_…``, or are counted."""
    annotated = {it.relation: row.__dict__.get(f"owned_{it.relation}") for it in owned.kinds()}
    known = {name: count for name, count in annotated.items() if count is not None}
    return {"name": row.name, "contact": row.contact, **(known if len(known) == len(annotated) else owned.counts(row))}
