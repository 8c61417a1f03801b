"""What the endpoints of teams take and give."""

from __future__ import annotations

from typing import Any

import msgspec

from hbus_console.access.permissions import Actor
from hbus_console.api.drafts import answer, answered, change_body_without_revision, new_body
from hbus_console.teams import owned
from hbus_console.teams.models import Team
from hbus_console.teams.services import SETTINGS

NewTeam = new_body(SETTINGS, "NewTeam", "A team and where it is reached.")
TeamChange = change_body_without_revision(SETTINGS, "TeamChange", "What to change of a team.")


def shape() -> type[msgspec.Struct]:
    """A team and how much it answers for of each kind that the installed features bring."""
    counts = [(it.relation, int) for it in owned.kinds()]
    return answer(SETTINGS, "TeamOut", "A team and what it answers for.", first=[], last=counts)


def team(row: Team, who: Actor) -> dict[str, Any]:
    """A team; its counts of what ``who`` may see come annotated as ``owned_…``, or are counted."""
    annotated = {it.relation: row.__dict__.get(f"owned_{it.relation}") for it in owned.kinds()}
    known = {name: count for name, count in annotated.items() if count is not None}
    return {**answered(SETTINGS, row), **(known if len(known) == len(annotated) else owned.counts(row, who))}
