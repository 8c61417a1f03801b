"""How large an envelope may be."""

from __future__ import annotations

from engine.bus.catalog import TopicPolicy
from engine.bus.errors import PublishRefused
from engine.bus.transport import Transport


def check_size(policy: TopicPolicy, transport: Transport, body: bytes) -> None:
    """Raise :class:`PublishRefused` for an envelope that is larger than topic and transport both take. It names the
    limit and never the size, as :mod:`engine.bus.bounds` says why."""
    limit = min(policy.max_bytes, transport.capabilities.max_bytes)
    if len(body) > limit:
        what = f"The envelope is too large: topic {policy.name!r} takes {limit:,} bytes."
        remedy = "Store large data elsewhere and send its address, or raise the topic's limit."
        raise PublishRefused(what, remedy=remedy, field="payload")
