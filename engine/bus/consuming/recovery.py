"""When a group's state has vanished from the store: say so loudly, and make it anew where it had come to."""

from __future__ import annotations

import logging

from engine.bus.consuming.scope import ConsumerScope
from engine.bus.errors import GroupLost
from engine.bus.inbox import Positions
from engine.core.error_text import words_of
from engine.core.errors import BadInput, Unavailable

_log = logging.getLogger(__name__)


class Recovery:
    """Remembers the group's checkpoint in this process, and recreates the group after a loss, never at the end."""

    def __init__(self, scope: ConsumerScope, positions: Positions | None) -> None:
        self._scope = scope
        self._positions = positions
        self._checkpoint = ""

    def note(self) -> None:
        """Ask the store for the group's checkpoint and keep it; heal a loss found thereby. Raises ``Unavailable``."""
        scope = self._scope
        try:
            self._checkpoint = scope.admin.checkpoint(scope.topic, scope.group) or self._checkpoint
        except GroupLost as error:
            # While all handlers are busy the reader does not read, and would not notice for as long as they take.
            self.recreate(error)

    def recreate(self, error: GroupLost) -> None:
        """Make the group anew. Raises ``Unavailable``; may be called by several consumers at once."""
        scope = self._scope
        scope.health.trouble(error)
        start, whence = self._start()
        try:
            made = scope.admin.create_group(scope.topic, scope.group, start)
        except BadInput as refused:
            _log.error("position %s of %s cannot be used: %s", start, scope, refused)
            start, whence = "beginning", "the recorded position is not one of this store"
            made = scope.admin.create_group(scope.topic, scope.group, start)
        if not made:
            return
        detail = f"made anew after {start} ({whence})"
        said = words_of(error)
        _log.critical("the state of %s was lost from the store: %s; %s", scope, said, detail)
        scope.say("group_lost", position=start, error=said, detail=detail)

    def _start(self) -> tuple[str, str]:
        try:
            recorded = self._positions.last(self._scope.topic, self._scope.group) if self._positions else ""
        except Unavailable:
            raise
        except Exception as error:  # noqa: BLE001
            # The record is another store; while it fails, what this process remembers has to do.
            self._scope.health.trouble(error)
            _log.exception("the recorded position of %s cannot be read", self._scope)
            recorded = ""
        if recorded:
            return recorded, "recorded outside the store"
        if self._checkpoint:
            return self._checkpoint, "remembered by this consumer"
        return "beginning", "no position was recorded"
