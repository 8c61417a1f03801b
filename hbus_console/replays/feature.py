"""Messages that are published again on purpose."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, Mount

REPLAY = Act("message.replay", Role.EDITOR, "replay messages", about="topic")

FEATURE = Feature(
    name="replays",
    pages=(Mount("replays/", "hbus_console.replays.urls"),),
    acts=(REPLAY,),
    # Of all reveals, those alone hold a filter that a replay was tried with.
    audit_sides={"payload.reveal": "hbus_console.replays.masked:questions"},
    operations=("hbus_console.replays.kind:KIND",),
)
