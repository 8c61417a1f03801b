"""Topics: named streams with owners and rules."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, MenuEntry, Mount, Owned, SubjectKind

TOPIC_PAUSE = Act("topic.pause", Role.OPERATOR, "pause or resume topics", about="topic")
TOPIC_EDIT = Act("topic.edit", Role.EDITOR, "edit topics", about="topic")
TOPIC_GOVERN = Act("topic.govern", Role.GOVERNOR, "govern topics", about="topic")
TOPIC_DELETE = Act("topic.delete", Role.GOVERNOR, "delete topics", about="topic")

FEATURE = Feature(
    name="topics",
    offers=(
        "models",
        "lookup",
        "scopes",
        "field_paths",
        "masking",
        "payloads",
        "leaving",
        "handler_errors",
        "catalog",
        "transport_objects",
        "targets",
        "pages",
    ),
    menu=(MenuEntry("topics", "Topics", "outline/align-justified", "topics:list", "t", "Bus", 20),),
    pages=(Mount("", "hbus_console.topics.urls"),),
    api=("hbus_console.topics.api",),
    acts=(
        TOPIC_PAUSE,
        TOPIC_EDIT,
        TOPIC_GOVERN,
        TOPIC_DELETE,
    ),
    subjects=(SubjectKind("topic", "topic", address="hbus_console.topics.addresses:topic"),),
    audit_words={
        "topic.create": "created",
        "topic.change": "changed",
        "topic.delete": "deleted",
        "topic.pause": "paused",
        "topic.resume": "resumed",
    },
    owned=(
        Owned(
            "topics",
            "name",
            text="hbus_console.topics.owned:text",
            address="hbus_console.topics.owned:address",
            url_name="topics:list",
            changed="hbus_console.topics.owned:changed",
        ),
    ),
    facts=("engine.bus.fact_kinds:FACTS",),
    duties=("hbus_console.topics.duties:stream_retention",),
    concerns=("hbus_console.topics.concerns:concerns",),
    search=("hbus_console.topics.finding:find",),
    operations=("hbus_console.topics.move:MOVE",),
    probes=("hbus_console.topics.carriers:probes",),
    needs_role={"nsqd": "hbus_console.topics.carriers:needs_nsqd"},
)
