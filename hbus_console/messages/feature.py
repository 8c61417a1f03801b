"""What became of every message."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import ALL_MODELS, Feature, MenuEntry, Mount, SubjectKind

PAYLOAD_READ = Act("payload.read", Role.VIEWER, "read payloads", reading=True, about="topic")
PAYLOAD_REVEAL = Act("payload.reveal", Role.GOVERNOR, "reveal masked fields", about="topic")

FEATURE = Feature(
    name="messages",
    offers=("became", "checking", "models", "places", "sizes"),
    menu=(MenuEntry("messages", "Messages", "outline/message", "messages:search", "m", "Bus", 40),),
    pages=(
        Mount("messages/", "hbus_console.messages.urls"),
        Mount("message/", "hbus_console.messages.urls_by_id"),
    ),
    api=("hbus_console.messages.api", "hbus_console.messages.api_by_id"),
    acts=(
        PAYLOAD_READ,
        PAYLOAD_REVEAL,
    ),
    subjects=(
        SubjectKind(
            "message",
            "message",
            address="hbus_console.messages.addresses:message",
            named="hbus_console.messages.addresses:page_of",
            within="topic",
            outcomes="hbus_console.messages.outcomes:outcomes",
        ),
    ),
    audit_words={
        "payload.reveal": "revealed masked fields of",
        "payload.read": "read the payload of",
    },
    audit_related="hbus_console.messages.related:related",
    projection="hbus_console.messages.projection:MessageProjection",
    duties=(
        "hbus_console.messages.duties:ledger_retention",
        "hbus_console.messages.duties:evidence_check",
        "hbus_console.messages.duties:delivery_evidence_check",
        "hbus_console.messages.duties:delayed_evidence_check",
    ),
    ledger_models=(ALL_MODELS,),
    tones={"skipped": "act", "unparked": "act", "replayed": "act"},
    search=("hbus_console.messages.finding:find",),
)
