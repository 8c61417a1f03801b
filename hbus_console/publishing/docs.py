"""JSON Schemas of publishing, made from the very types that read it."""

from __future__ import annotations

from typing import Any

import msgspec

from hbus_console.api.problems import PROBLEM
from hbus_console.publishing.envelopes import BATCH_LIMIT, PublishRequest


def _publish_request() -> dict[str, Any]:
    _, components = msgspec.json.schema_components([PublishRequest], ref_template="#/components/schemas/{name}")
    body: dict[str, Any] = components["PublishRequest"]
    body["properties"]["data"] = {"description": "The payload: any JSON. Exclusive with data_base64."}
    body["properties"]["headers"]["additionalProperties"] = {"type": "string"}
    body["properties"]["priority"] = {"enum": ["low", "normal", "high"], "default": "normal"}
    return body


REQUEST = _publish_request()
BATCH_REQUEST = {
    "type": "object",
    "required": ["messages"],
    "properties": {"messages": {"type": "array", "minItems": 1, "maxItems": BATCH_LIMIT, "items": REQUEST}},
}
CLOUDEVENT_SCHEMA = {
    "type": "object",
    "description": "A CloudEvents 1.0 event in structured JSON mode; extension attributes travel along.",
    "required": ["specversion", "id", "source", "type"],
    "properties": {
        "specversion": {"const": "1.0"},
        "id": {"type": "string"},
        "source": {"type": "string", "format": "uri-reference"},
        "type": {"type": "string"},
        "time": {"type": "string", "format": "date-time"},
        "partitionkey": {"type": "string"},
        "expirytime": {"type": "string", "format": "date-time"},
        "hbusdue": {"type": "string", "format": "date-time"},
        "hbuspriority": {"enum": ["low", "normal", "high"]},
        "data": {},
        "data_base64": {"type": "string", "contentEncoding": "base64"},
    },
    "additionalProperties": {"type": ["string", "integer", "boolean"]},
}
RECEIPT = {
    "type": "object",
    "required": ["id", "topic", "position", "status"],
    "properties": {
        "id": {"type": "string"},
        "topic": {"type": "string"},
        "position": {
            "type": "string",
            "description": "Where it lies in the topic; empty while it is delayed, and on NSQ, which tells none.",
        },
        "status": {"enum": ["stored", "duplicate", "delayed"]},
        "due": {"type": "string", "format": "date-time"},
    },
}
BATCH_RESPONSE = {
    "type": "object",
    "properties": {
        "topic": {"type": "string"},
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "results": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["index", "status"],
                "properties": {
                    "index": {"type": "integer"},
                    "status": {
                        "enum": ["stored", "duplicate", "delayed", "refused", "failed", "unknown"],
                        "description": "`refused`, `failed`: certainly not stored. `unknown`: it may be; repeat the "
                        "request under its idempotency key.",
                    },
                    "id": {"type": "string"},
                    "position": {"type": "string"},
                    "problem": PROBLEM,
                },
            },
        },
    },
}
