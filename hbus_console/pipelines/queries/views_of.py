"""The views of a query and their columns, for who writes one. A test holds it to what there is."""

from __future__ import annotations

from collections.abc import Mapping

#: By view: what a row is, and the columns.
COLUMNS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "messages": (
        "a message as it was stored",
        (
            *("topic", "log", "position", "stored_at", "size", "id", "source", "type", "subject", "partitionkey"),
            *("sequence", "datacontenttype", "dataschema", "dataclassification", "traceparent", "tracestate"),
            *("correlationid", "causationid", "hbuspriority", "hbusreplay", "hbustarget", "time", "expirytime"),
            *("hbusdue", "data", "data_base64", "extensions", "malformed", "original"),
        ),
    ),
    "published": (
        "that a message was published",
        (
            *("row_id", "message_id", "topic", "type", "source", "key", "correlation_id", "causation_id", "trace_id"),
            *("position", "size", "published_at", "due_at", "stored_us"),
        ),
    ),
    "deliveries": (
        "what happened to one",
        (
            *("row_id", "message_id", "source", "topic", "subscription", "kind", "happened_at", "attempt"),
            *("duration_us", "due_at", "node", "error", "fingerprint", "detail", "stack_id"),
        ),
    ),
}
