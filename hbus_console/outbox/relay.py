"""The relay: carries the outbox to the bus, in order per key, each message once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import msgspec
import redis
import structlog
from django.db.models import F

from engine.bus import message as envelope
from engine.bus.errors import MalformedEnvelope, PublishRefused
from engine.bus.message import Message
from engine.bus.producer import Producer, Receipt
from engine.core.error_text import words_of
from engine.core.errors import HbusError, Unavailable
from hbus_console.outbox.models import OutboxMessage
from hbus_console.outbox.services import wake_key
from hbus_console.ui.formats import counted

#: Rows published at once.
BATCH = 500
#: Pages read in one tick: bounds how long a tick lasts, and how far it looks past blocked keys.
PAGES = 20

_log = structlog.get_logger(__name__)


class OutboxRelay:
    """A keeper duty; it must run in one place at a time, under its lease.

    A message the store did not take stays and blocks its key until it is taken; one the bus refuses for good is
    marked ``refused_at``, stays visible, and lets the others pass. A crash after publishing and before deleting
    publishes again under the same idempotency key, which the bus does not store twice.
    """

    name = "outbox-relay"
    interval_s = 0.05

    def __init__(
        self, producer: Callable[[], Producer], store: Callable[[], redis.Redis], *, wait_s: float = 1.0
    ) -> None:
        self._producer = producer
        self._store = store
        self._wait_s = wait_s

    def tick(self) -> None:
        """Publish what waits; with nothing waiting, rest until woken or for ``wait_s`` seconds.

        Raises ``Unavailable`` when the store took nothing.
        """
        stored, failed = self._relay()
        if failed:
            raise Unavailable(f"{counted(len(failed), 'message waits', 'messages wait')} in the outbox: {failed[0]}")
        if not stored:
            self._rest()

    def _relay(self) -> tuple[int, list[str]]:
        stored, errors = 0, []
        blocked: set[tuple[str, str]] = set()
        for rows in _pages():
            for wave in _waves([row for row in rows if (row.topic, row.key) not in blocked]):
                free = [row for row in wave if not row.key or (row.topic, row.key) not in blocked]
                done, failed = self._publish(free)
                stored += done
                for row, error in failed:
                    errors.append(words_of(error))
                    if row.key:
                        blocked.add((row.topic, row.key))
            if errors and not stored:
                break
        return stored, errors

    def _publish(self, rows: Sequence[OutboxMessage]) -> tuple[int, list[tuple[OutboxMessage, HbusError]]]:
        """Publish rows whose order among each other does not matter; returns how many left, and what failed."""
        stored: list[int] = []
        failed: list[tuple[OutboxMessage, HbusError]] = []
        by_topic: dict[tuple[str, str], list[OutboxMessage]] = {}
        for row in rows:
            by_topic.setdefault((row.topic, row.incarnation), []).append(row)
        for (topic, incarnation), group in by_topic.items():
            for row, answer in zip(group, self._send(topic, incarnation, group), strict=True):
                if isinstance(answer, Receipt):
                    stored.append(row.pk)
                elif isinstance(answer, PublishRefused):
                    _refuse(row, answer)
                else:
                    failed.append((row, answer))
        OutboxMessage.objects.filter(pk__in=stored).delete()
        if failed:
            OutboxMessage.objects.filter(pk__in=[row.pk for row, _ in failed]).update(
                attempts=F("attempts") + 1, last_error=words_of(failed[0][1], 500)
            )
        return len(stored), failed

    def _send(self, topic: str, incarnation: str, rows: Sequence[OutboxMessage]) -> Sequence[Receipt | HbusError]:
        read = [_read(row) for row in rows]
        ready = [(message, row) for message, row in zip(read, rows, strict=True) if isinstance(message, Message)]
        answers: Sequence[Receipt | HbusError]
        try:
            messages, keys = [message for message, _ in ready], [row.idempotency_key for _, row in ready]
            answers = self._producer().send(topic, messages, idempotency_keys=keys, meant=incarnation)
        except HbusError as error:
            # An unknown or ownerless topic is refused as a whole; every message shares its answer.
            answers = [error] * len(ready)
        left = iter(answers)
        return [next(left) if isinstance(message, Message) else message for message in read]

    def _rest(self) -> None:
        try:
            self._store().blpop([wake_key()], timeout=self._wait_s)
        except redis.RedisError as error:
            raise Unavailable(f"The store cannot be reached: {words_of(error)}.") from error


def _pages() -> Iterator[list[OutboxMessage]]:
    """The oldest rows not refused, page by page."""
    last = 0
    for _ in range(PAGES):
        rows = list(OutboxMessage.objects.filter(refused_at__isnull=True, pk__gt=last).order_by("pk")[:BATCH])
        if not rows:
            return
        yield rows
        last = rows[-1].pk


def _waves(rows: Sequence[OutboxMessage]) -> Iterator[list[OutboxMessage]]:
    """Split rows so that no wave holds two of one key and each key's rows keep their order."""
    waves: list[list[OutboxMessage]] = []
    seen: dict[tuple[str, str], int] = {}
    for row in rows:
        number = 0
        if row.key:
            number = seen.get((row.topic, row.key), 0)
            seen[row.topic, row.key] = number + 1
        if number == len(waves):
            waves.append([])
        waves[number].append(row)
    yield from waves


def _read(row: OutboxMessage) -> Message | PublishRefused:
    """Its envelope; one that cannot be read (any more) is refused by itself, and holds up no other."""
    try:
        return envelope.decode(bytes(row.body))
    except MalformedEnvelope as error:
        return PublishRefused(error.what, remedy=error.remedy, field=error.field)


def _refuse(row: OutboxMessage, error: PublishRefused) -> None:
    _log.error("outbox message refused", topic=row.topic, message_id=row.message_id, error=words_of(error))
    OutboxMessage.objects.filter(pk=row.pk).update(
        refused_at=datetime.now(UTC), attempts=F("attempts") + 1, last_error=words_of(error, 500)
    )


class OutboxState(msgspec.Struct, frozen=True):
    """What lies in the outbox now."""

    waiting: int
    refused: int
    oldest_at: datetime | None


def outbox_state() -> OutboxState:
    """For the cluster page and ``manage.py outbox status``."""
    waiting = OutboxMessage.objects.filter(refused_at__isnull=True)
    oldest = waiting.order_by("pk").values_list("created_at", flat=True).first()
    return OutboxState(waiting.count(), OutboxMessage.objects.filter(refused_at__isnull=False).count(), oldest)
