"""Kombu's transport for Redis, held to what Celery's workers can read.

What stands on the broker's keys may have been written by anybody: a hand at the wrong key, a program of another
version. Kombu ends the whole worker on an item that is no message, and with it the runs that its processes hold. Here
such an item is told and dropped: it has no sender who waits for it, and every run that was offered is offered again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec
from kombu.transport import redis, virtual

from engine.core.error_text import text_of
from engine.core.prepared import prepared

logger = logging.getLogger(__name__)

#: What Kombu raises for what it cannot read.
_UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class Unreadable(Exception):
    """An item of the broker that is no message. It says why."""


class _Route(msgspec.Struct):
    exchange: str
    routing_key: str


class _Properties(msgspec.Struct):
    delivery_tag: str
    delivery_info: _Route


class _Envelope(msgspec.Struct, rename="kebab"):
    body: str
    properties: _Properties
    headers: dict[str, Any] = {}
    content_type: str | None = None
    content_encoding: str | None = None


class CheckedMessage(virtual.Message):
    """A message of Kombu's virtual transports. Raises ``Unreadable`` for what is none."""

    def __init__(self, payload: Any, channel: Any = None, **options: Any) -> None:
        try:
            msgspec.convert(payload, prepared(_Envelope))
            super().__init__(payload, channel=channel, **options)
        except _UNREADABLE as error:
            raise Unreadable(text_of(error)) from error


class CheckedQoS(redis.QoS):
    """Drops what stands among the messages in hand and is none; gives back and settles none by a closed connection."""

    def restore_unacked(self, client: Any = None) -> None:
        if client is None and self._is_closed():
            # They stand in the broker among the messages in hand, and every run that was offered is offered again.
            # Kombu would ask the connection for its address, which has none any more, and end the worker by that.
            in_hand: dict[str, Any] = self._delivered or {}
            logger.info("kept %d messages in hand: the connection to the broker is closed", len(in_hand))
            in_hand.clear()
            return
        super().restore_unacked(client)

    def restore_by_tag(self, tag: Any, client: Any = None, leftmost: bool = False) -> None:
        try:
            with self._open() if client is None else nullcontext():
                super().restore_by_tag(tag, client, leftmost)
        except _UNREADABLE as error:
            _tell("the messages in hand", error)
            self._remove_from_indices(tag).execute()  # type: ignore[attr-defined]

    def ack(self, delivery_tag: Any) -> None:
        with self._open():
            super().ack(delivery_tag)

    def reject(self, delivery_tag: Any, requeue: bool = False) -> None:
        with self._open():
            super().reject(delivery_tag, requeue)

    @contextmanager
    def _open(self) -> Iterator[None]:
        """What Kombu breaks on where the connection is closed is that, and no end of the worker: what it had in hand
        stands in the broker, and is offered again to whoever finds it done."""
        try:
            yield
        except _UNREADABLE as error:
            if self._is_closed():
                raise ConnectionError("The connection to the broker is closed.") from error
            raise

    def _is_closed(self) -> bool:
        return getattr(self.channel.connection, "client", None) is None


class CheckedChannel(redis.Channel):
    """A channel that drops what is no message, or what a worker breaks on, and tells it."""

    Message = CheckedMessage
    QoS = CheckedQoS

    def basic_consume(self, queue: str, no_ack: bool, callback: Any, consumer_tag: str | None, **options: Any) -> Any:
        def guarded(message: CheckedMessage) -> Any:
            try:
                return callback(message)
            except _UNREADABLE:
                logger.exception("dropped a message of the broker that the worker broke on, from %s", queue)
                if not no_ack and not message.acknowledged:
                    message.ack()
                return None

        return super().basic_consume(queue, no_ack, guarded, consumer_tag, **options)

    def _brpop_read(self, **options: Any) -> Any:
        return self._read(super()._brpop_read, **options)  # type: ignore[misc]

    def _receive_one(self, subscriber: Any) -> Any:
        return self._read(super()._receive_one, subscriber)  # type: ignore[misc]

    def _read(self, reading: Any, *arguments: Any, **options: Any) -> Any:
        try:
            return reading(*arguments, **options)
        except _UNREADABLE as error:
            _tell("a queue or a channel", error)
            return True


class CheckedTransport(redis.Transport):
    """``redis://`` and ``rediss://``."""

    Channel = CheckedChannel

    def _deliver(self, message: Any, queue: str | None) -> None:
        try:
            super()._deliver(message, queue)
        except Unreadable as error:
            _tell(queue, error)


class CheckedSentinelChannel(CheckedChannel, redis.SentinelChannel):
    """The same on a primary that sentinels name."""


class CheckedSentinelTransport(CheckedTransport, redis.SentinelTransport):
    """``sentinel://``."""

    Channel = CheckedSentinelChannel


def _tell(place: str | None, error: Exception) -> None:
    # Not the item itself: nobody knows what it is.
    logger.warning("dropped an item of the broker that is no message, from %s: %s", place, text_of(error))
