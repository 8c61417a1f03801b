"""What people type into the pages of topics, as the services take it."""

from __future__ import annotations

from typing import Any

from hbus_console.ui.forms import Form, lines, text, whole

_TOPIC_NUMBERS = ("partitions", "retention_hours", "retention_messages", "max_bytes", "idempotency_window_s", "ttl_s")
#: Fields of the two forms on a topic's settings tab.
WORKINGS = ("description", "ordering", "priorities", *_TOPIC_NUMBERS)
GOVERNANCE = ("owner", "classification", "masked_fields", "nothing_to_mask", "compatibility", "transport")


def topic_values(form: Form, fields: tuple[str, ...]) -> dict[str, Any]:
    """The named settings of a topic."""
    read: dict[str, Any] = {}
    for field in fields:
        if field == "partitions" and not text(form, field):
            # Left to what it is, or to what its order asks for.
            continue
        if field in _TOPIC_NUMBERS:
            read[field] = whole(form, field)
        elif field in ("priorities", "nothing_to_mask"):
            read[field] = field in form
        elif field == "masked_fields":
            read[field] = sorted(
                {path.strip() for path in text(form, field).replace(",", "\n").split() if path.strip()}
            )
        else:
            read[field] = lines(form, field)
    return read
