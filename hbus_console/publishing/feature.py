"""Messages from programs and people."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, Mount

PUBLISH = Act("publish", Role.OPERATOR, "publish messages", about="topic")

FEATURE = Feature(
    name="publishing",
    offers=("producer", "services"),
    pages=(Mount("", "hbus_console.publishing.urls"),),
    api=("hbus_console.publishing.api",),
    acts=(PUBLISH,),
    audit_words={
        "message.publish": "published",
        "message.publish.failed": "could not publish",
        "message.publish.unknown": "does not know whether it published",
    },
    kept=("delays",),
    duties=("hbus_console.publishing.duties:delay_mover",),
    concerns=("hbus_console.publishing.concerns:concerns",),
    alerts=("hbus_console.publishing.alerts:KINDS",),
    live=("hbus_console.publishing.live:cells",),
)
