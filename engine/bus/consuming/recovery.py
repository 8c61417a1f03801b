"""When a group's state has vanished from the store: say so loudly, and make it anew where it had come to."""

from __future__ import annotations

import logging

from engine.bus.consuming.health import StoreHealth
from engine.bus.errors import GroupLost
from engine.bus.inbox import Positions
from engine.bus.transport import Admin
from engine.core.clock import Clock
from engine.core.errors import BadInput, Unavailable
from engine.core.facts import Emitter, Fact

_log = logging.getLogger(__name__)


class Recovery:
    """Remembers the group's checkpoint in this process, and recreates the group after a loss, never at the end."""

    def __init__(
        self,
        *,
        admin: Admin,
        topic: str,
        group: str,
        node: str,
        positions: Positions | None,
        facts: Emitter,
        clock: Clock,
        health: StoreHealth,
    ) -> None:
        self._admin = admin
        self._topic = topic
        self._group = group
        self._node = node
        self._positions = positions
        self._facts = facts
        self._clock = clock
        self._health = health
        self._checkpoint = ""

    def note(self) -> None:
        """Ask the store for the group's checkpoint and keep it; heal a loss found thereby. Raises ``Unavailable``."""
        try:
            self._checkpoint = self._admin.checkpoint(self._topic, self._group) or self._checkpoint
        except GroupLost as error:
            # While all handlers are busy the reader does not read, and would not notice for as long as they take.
            self.recreate(error)

    def recreate(self, error: GroupLost) -> None:
        """Make the group anew. Raises ``Unavailable``; may be called by several consumers at once."""
        self._health.trouble(error)
        start, whence = self._start()
        try:
            made = self._admin.create_group(self._topic, self._group, start)
        except BadInput as refused:
            _log.error("position %s of %s/%s cannot be used: %s", start, self._topic, self._group, refused)
            start, whence = "beginning", "the recorded position is not one of this store"
            made = self._admin.create_group(self._topic, self._group, start)
        if not made:
            return
        detail = f"made anew after {start} ({whence})"
        _log.critical("the state of %s/%s was lost from the store: %s; %s", self._topic, self._group, error, detail)
        self._facts.emit(
            [
                Fact(
                    "group_lost",
                    self._clock.now_ms(),
                    topic=self._topic,
                    subscription=self._group,
                    position=start,
                    node=self._node,
                    error=str(error)[:500],
                    detail=detail,
                )
            ]
        )

    def _start(self) -> tuple[str, str]:
        try:
            recorded = self._positions.last(self._topic, self._group) if self._positions else ""
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001
            # The record is another store; while it fails, what this process remembers has to do.
            self._health.trouble(error)
            _log.exception("the recorded position of %s/%s cannot be read", self._topic, self._group)
            recorded = ""
        if recorded:
            return recorded, "recorded outside the store"
        if self._checkpoint:
            return self._checkpoint, "remembered by this consumer"
        return "beginning", "no position was recorded"
