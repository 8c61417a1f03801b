"""Sends a slot's task and says that it is sent in one step, where the broker is the Redis that beats share."""

from __future__ import annotations

from typing import Any

from kombu.utils.json import dumps

from engine.cron.beat.store import SlotClaim, push


class ClaimLost(Exception):
    """Another beat has the slot meanwhile: nothing was sent."""


class SlotPublisher:
    """Stands behind a connection of Kombu's, also when that connects anew and sends once more. Not thread-safe."""

    def __init__(self) -> None:
        self._claim: SlotClaim | None = None
        #: Whether what was published since :meth:`expect` has taken the claimed slot with it.
        self.sent = False

    def behind(self, connection: Any) -> Any:
        """``connection``, whose messages go through here from now on."""
        connection.transport_cls = _transport(connection.get_transport_cls(), self)
        return connection

    def expect(self, claim: SlotClaim | None) -> None:
        """The next message is that of ``claim``; ``None``: none is."""
        self._claim, self.sent = claim, False

    def put(self, channel: Any, queue: str, message: dict[str, Any]) -> bool:
        """Whether the message was put into ``queue`` here. Raises :class:`ClaimLost`."""
        # A topic exchange may lead to several queues: the first takes the slot, and the others follow. A queue that
        # expires is Kombu's own matter.
        if self._claim is None or self.sent or queue in (channel._expires or ()):
            return False
        priority = channel._get_message_priority(message, reverse=False)
        name = f"{channel.global_keyprefix or ''}{channel._q_for_pri(queue, priority)}"
        with channel.conn_or_acquire() as client:
            self.sent = push(client, self._claim, name, dumps(message))
        if not self.sent:
            raise ClaimLost
        return True


def _transport(base: Any, publisher: SlotPublisher) -> Any:
    """A transport of the class ``base``, one of Kombu's for Redis, that asks ``publisher`` first."""

    class SlotChannel(base.Channel):  # type: ignore[misc]
        def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
            if not publisher.put(self, queue, message):
                super()._put(queue, message, **options)

    class SlotTransport(base):  # type: ignore[misc]
        Channel = SlotChannel

    return SlotTransport
