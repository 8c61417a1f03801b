"""Who answers for what."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, Mount

TEAM_EDIT = Act("team.edit", Role.GOVERNOR, "edit teams")

FEATURE = Feature(
    name="teams",
    pages=(Mount("", "hbus_console.teams.urls"),),
    api=("hbus_console.teams.api",),
    acts=(TEAM_EDIT,),
    live=("hbus_console.teams.live:cells",),
)
