"""What a consumer needs from a database: the inbox that makes effects once-only, and remembered positions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Inbox(Protocol):
    """Remembers which messages a subscription has handled. Thread-safe."""

    def once(self, subscription: str, source: str, message_id: str, effect: Callable[[], object]) -> bool:
        """Run ``effect`` in one transaction with the inbox row and return ``True``.

        ``False``: the message was handled before and ``effect`` was not run. An exception of ``effect`` rolls both
        back and is raised. ``subscription`` is ``topic/group``.

        Raises :class:`~engine.bus.errors.InboxAway` when it cannot be asked or cannot commit, and ``effect`` itself
        raised nothing: the consumer waits and asks again, and counts no attempt.
        """
        ...


class Positions(Protocol):
    """Remembers how far each group had come, outside the store that may lose it. Thread-safe."""

    def last(self, topic: str, group: str) -> str:
        """The last checkpoint known; empty when there is none."""
        ...
