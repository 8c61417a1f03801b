"""What commits together with a change, and leaves for the bus afterwards."""

from __future__ import annotations

from hbus_console.registry.declaration import Feature

FEATURE = Feature(
    name="outbox",
    offers=("inbox", "models", "services"),
    audit_words={
        "outbox.retry": "offered refused messages again to",
    },
    kept=("outbox",),
    duties=(
        "hbus_console.outbox.duties:relay",
        "hbus_console.outbox.duties:inbox_retention",
    ),
    live=("hbus_console.outbox.live:cells",),
    concerns=("hbus_console.outbox.concerns:concerns",),
)
