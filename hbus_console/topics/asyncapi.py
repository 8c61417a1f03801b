"""The topics as an AsyncAPI 3.0 document: what may be published, who reads it, in which form, and who owns it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from engine.bus.message import KNOWN_ATTRIBUTES, Message
from hbus_console.schemas.models import SchemaVersion
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic

VERSION = "3.0.0"
SCHEMA_FORMAT = "application/schema+json;version=draft-2020-12"
#: What is known of attributes beside their names, which the envelope itself says.
_TOLD: dict[str, dict[str, Any]] = {
    "specversion": {"const": "1.0"},
    "id": {"description": "With source: the identity of the message."},
    "source": {"format": "uri-reference"},
    "time": {"format": "date-time", "description": "When it happened."},
    "dataschema": {"format": "uri"},
    "partitionkey": {"description": "The ordering key."},
    "sequence": {"description": "Its place among those of its key, as the producer counts."},
    "expirytime": {"format": "date-time", "description": "After this nobody wants it any more."},
    "traceparent": {"description": "W3C Trace Context."},
    "tracestate": {"description": "W3C Trace Context."},
    "causationid": {"description": "Id of the message that caused this one."},
    "hbusdue": {"format": "date-time", "description": "Not delivered before this instant."},
    "hbuspriority": {"enum": ["low", "high"]},
    "hbusreplay": {"enum": ["redrive", "replay"], "description": "It is a copy; causationid names the original."},
    "hbustarget": {"description": "The only subscription that shall handle it."},
}
#: Members of the wire form that are the payload, not about it.
_PAYLOAD = ("data", "data_base64")
_ATTRIBUTES = {
    name: {"type": "string", **_TOLD.get(name, {})}
    for name in ("specversion", *Message.__struct_encode_fields__)
    if name in KNOWN_ATTRIBUTES and name not in _PAYLOAD
}
_REQUIRED = ["specversion", *(field.encode_name for field in msgspec.structs.fields(Message) if field.required)]


def document(topics: Iterable[Topic], *, host: str = "", protocol: str = "http") -> dict[str, Any]:
    """The document of ``topics``: channels, publish and receive operations, messages, schemas and owners.

    Give topics with ``team``, ``schemas`` and ``subscriptions__team`` prefetched. ``host`` names the server that takes
    publishes over HTTP; without one the document has no servers.
    """
    rows = sorted(topics, key=lambda topic: topic.name)
    body: dict[str, Any] = {
        "asyncapi": VERSION,
        "info": {
            "title": "hbus topics",
            "version": str(sum(topic.revision for topic in rows)),
            "description": "Messages are CloudEvents 1.0 in structured JSON mode; message headers here are the "
            "envelope's attributes, message payloads its data.",
        },
        "defaultContentType": "application/json",
        "channels": {topic.name: _channel(topic) for topic in rows},
        "operations": dict(pair for topic in rows for pair in _operations(topic)),
        "components": {
            "messages": {topic.name: _message(topic) for topic in rows},
            "schemas": {
                "cloudevent": {"type": "object", "required": _REQUIRED, "properties": _ATTRIBUTES},
                **{_schema_key(row): _schema(row) for topic in rows for row in topic.schemas.all()},
            },
        },
    }
    if host:
        body["servers"] = {"http": {"host": host, "protocol": protocol, "pathname": "/api/v1"}}
    return body


def _channel(topic: Topic) -> dict[str, Any]:
    return {
        "address": topic.name,
        "description": topic.description,
        "messages": {"event": {"$ref": f"#/components/messages/{topic.name}"}},
        "x-owner": _owner(topic.team.name, topic.team.contact) if topic.team else None,
        "x-classification": topic.classification,
        "x-masked-fields": topic.masked_fields,
        "x-ordering": topic.ordering,
        "x-retention-hours": topic.retention_hours,
        "x-retention-messages": topic.retention_messages or None,
        "x-compatibility": topic.compatibility,
        "x-max-bytes": topic.max_bytes,
        "x-transport": topic.transport or None,
        "x-paused": topic.paused,
    }


def _operations(topic: Topic) -> Iterable[tuple[str, dict[str, Any]]]:
    channel = {"$ref": f"#/channels/{topic.name}"}
    messages = [{"$ref": f"#/channels/{topic.name}/messages/event"}]
    yield (
        f"publish.{topic.name}",
        {
            "action": "send",
            "channel": channel,
            "messages": messages,
            "summary": f"Publish to {topic.name}.",
            "x-http": {"method": "POST", "path": f"/topics/{topic.name}/messages"},
        },
    )
    for row in sorted(topic.subscriptions.all(), key=lambda one: one.group):
        yield f"receive.{topic.name}.{row.group}", {**_reader(row), "channel": channel, "messages": messages}


def _reader(row: Subscription) -> dict[str, Any]:
    return {
        "action": "receive",
        "summary": row.description or f"{row.group} reads {row.topic.name}.",
        "x-group": row.group,
        "x-owner": _owner(row.team.name, row.team.contact) if row.team else None,
        "x-handler": row.handler,
        "x-max-attempts": row.max_attempts,
        "x-transactional": row.transactional,
    }


def _message(topic: Topic) -> dict[str, Any]:
    message: dict[str, Any] = {
        "name": topic.name,
        "title": topic.description.partition("\n")[0] or topic.name,
        "contentType": "application/json",
        "headers": {"$ref": "#/components/schemas/cloudevent"},
    }
    versions = list(topic.schemas.all())
    if versions:
        latest = max(versions, key=lambda row: row.version)
        message["payload"] = {"$ref": f"#/components/schemas/{_schema_key(latest)}"}
        message["x-schema-version"] = latest.version
        message["x-dataschema"] = latest.uri
    return message


def _schema_key(row: SchemaVersion) -> str:
    return f"{row.topic.name}.v{row.version}"


def _schema(row: SchemaVersion) -> dict[str, Any]:
    root = f"#/components/schemas/{_schema_key(row)}/schema"
    return {"schemaFormat": SCHEMA_FORMAT, "schema": _rebased(row.body, root)}


def _rebased(node: Any, root: str) -> Any:
    """References to the schema's own root lead to its place in the document."""
    if isinstance(node, list):
        return [_rebased(inner, root) for inner in node]
    if not isinstance(node, dict):
        return node
    rebased = {name: inner if name in ("const", "enum") else _rebased(inner, root) for name, inner in node.items()}
    reference = node.get("$ref")
    if isinstance(reference, str) and (reference == "#" or reference.startswith("#/")):
        rebased["$ref"] = root + reference[1:]
    return rebased


def _owner(name: str, contact: str) -> dict[str, str]:
    return {"team": name, "contact": contact}
