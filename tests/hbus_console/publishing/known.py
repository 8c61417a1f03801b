"""How long the store still knows under which keys messages of a topic were published."""

from __future__ import annotations

from django.conf import settings

from hbus_console.wiring import store


def known_for_ms(topic: str) -> list[int]:
    """Of each key of ``topic``, in no order."""
    client = store.client()
    return [client.pttl(key) for key in client.scan_iter(f"{settings.HBUS_PREFIX}:{{{topic}}}:idem:*")]
