"""The relay: carries the outbox to the bus, in order per key, each message once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec
import redis
import structlog
from django.db.models import F

from engine.bus import message as envelope
from engine.bus.at_carriers import AtCarriers
from engine.bus.errors import MalformedEnvelope, PublishRefused
from engine.bus.message import Message
from engine.bus.producer import Producer, Receipt
from engine.bus.ways import Way
from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.core.errors import HbusError, Unavailable
from hbus_console.outbox.models import OutboxMessage
from hbus_console.outbox.services import wake_key
from hbus_console.ui.formats import counted

#: Rows published at once.
BATCH = 500
#: How long the store knows at least under which key a message went: a relay that died between publishing and deleting
#: may have no successor for a while. More would cost the store memory for every message that passes.
KNOWN_S = 86_400
#: Pages read in one tick: bounds how long a tick lasts, and how far it looks past blocked keys.
PAGES = 20

_log = structlog.get_logger(__name__)


class OutboxRelay:
    """A keeper duty; it must run in one place at a time, under its lease.

    A message the store did not take stays and blocks its key until it is taken; one the bus refuses for good is
    marked ``refused_at``, stays visible, and lets the others pass. What goes to one store waits for no other that
    hangs. A crash after publishing and before deleting publishes again under the same idempotency key, which the bus
    does not store twice: it knows the key for :data:`KNOWN_S` at least, however short the topic's window. Where no
    relay runs for longer than both, the one batch that was on its way may lie in the topic twice.
    """

    name = "outbox-relay"
    interval_s = 0.05

    def __init__(
        self,
        producer: Callable[[], Producer],
        store: Callable[[], redis.Redis],
        *,
        wait_s: float = 1.0,
        clock: Clock | None = None,
    ) -> None:
        self._producer = producer
        self._store = store
        self._wait_s = wait_s
        self._at = AtCarriers(clock or SystemClock())
        #: By carrier what is on its way there, or was, and is not booked yet.
        self._flights: dict[str, _Flight] = {}

    def tick(self) -> None:
        """Publish what waits; with nothing waiting, rest until woken or for ``wait_s`` seconds.

        Raises ``Unavailable`` when the store took nothing.
        """
        turn = _Turn()
        self._land(turn)
        for rows in _pages(self._flying()):
            for wave in _waves([row for row in rows if turn.is_free(row)]):
                self._publish([row for row in wave if turn.is_free(row)], turn)
            if turn.errors and not turn.stored:
                break
        if turn.errors:
            waiting = counted(len(turn.errors), "message waits", "messages wait")
            raise Unavailable(f"{waiting} in the outbox: {turn.errors[0]}")
        if not turn.stored:
            self._rest()

    def _publish(self, rows: Sequence[OutboxMessage], turn: _Turn) -> None:
        """Publish rows whose order among each other does not matter."""
        by_topic: dict[tuple[str, str], list[OutboxMessage]] = {}
        for row in rows:
            by_topic.setdefault((row.topic, row.incarnation), []).append(row)
        flights: dict[str, _Flight] = {}
        for (topic, incarnation), group in by_topic.items():
            try:
                # Here, and not on the carrier's thread: the rules of topics may have to be read from the database.
                way = self._producer().way(topic, meant=incarnation)
            except HbusError as error:
                # An unknown or ownerless topic is refused as a whole; every message shares its answer.
                _book([(row, error) for row in group], turn)
            else:
                flights.setdefault(way.carrier, _Flight()).groups.append((way, group))
        for carrier, flight in flights.items():
            if self._at.begin(carrier, flight.send):
                self._flights[carrier] = flight
            else:
                # Whatever hangs there is of other topics.
                turn.hung |= flight.topics
        self._at.wait()
        self._land(turn)
        turn.hung |= self._flying()

    def _land(self, turn: _Turn) -> None:
        """Book what has come of all flights that are over."""
        failed: list[BaseException] = []
        for carrier in self._at.over():
            # Booked first: where the database fails, it is booked by the next tick, and nothing goes there before.
            _book(self._flights[carrier].answers, turn)
            del self._flights[carrier]
            failed += self._at.take(carrier)
        for error in failed:
            if not isinstance(error, HbusError):
                raise error

    def _flying(self) -> set[str]:
        return {topic for flight in self._flights.values() for topic in flight.topics}

    def _rest(self) -> None:
        try:
            self._store().blpop([wake_key()], timeout=self._wait_s)
        except redis.RedisError as error:
            raise Unavailable(f"The store cannot be reached: {words_of(error)}.") from error


@dataclass
class _Turn:
    """What one tick has done so far, and what it must leave alone."""

    stored: int = 0
    errors: list[str] = field(default_factory=list)
    #: Topic and key of messages that the store did not take.
    blocked: set[tuple[str, str]] = field(default_factory=set)
    #: Topics whose carrier hangs.
    hung: set[str] = field(default_factory=set)

    def is_free(self, row: OutboxMessage) -> bool:
        return row.topic not in self.hung and not (row.key and (row.topic, row.key) in self.blocked)


@dataclass
class _Flight:
    """Rows on their way to one carrier."""

    groups: list[tuple[Way, list[OutboxMessage]]] = field(default_factory=list)
    #: Of those that are answered. Read once the flight is over.
    answers: list[tuple[OutboxMessage, Receipt | HbusError]] = field(default_factory=list)

    @property
    def topics(self) -> set[str]:
        return {row.topic for _, rows in self.groups for row in rows}

    def send(self) -> list[Unavailable]:
        """On the carrier's thread; what it did not take."""
        for way, rows in self.groups:
            self.answers += zip(rows, _sent(way, rows), strict=True)
        return [answer for _, answer in self.answers if isinstance(answer, Unavailable)]


def _sent(way: Way, rows: Sequence[OutboxMessage]) -> Sequence[Receipt | HbusError]:
    read = [_read(row) for row in rows]
    ready = [(message, row) for message, row in zip(read, rows, strict=True) if isinstance(message, Message)]
    answers: Sequence[Receipt | HbusError]
    try:
        keys = [row.idempotency_key for _, row in ready]
        answers = way.send([message for message, _ in ready], keys, at_least_s=KNOWN_S)
    except HbusError as error:
        answers = [error] * len(ready)
    left = iter(answers)
    return [next(left) if isinstance(message, Message) else message for message in read]


def _book(answers: Sequence[tuple[OutboxMessage, Receipt | HbusError]], turn: _Turn) -> None:
    """Remove what has left, and mark what was refused or failed."""
    stored = [row.pk for row, answer in answers if isinstance(answer, Receipt)]
    failed: list[tuple[OutboxMessage, HbusError]] = []
    for row, answer in answers:
        if isinstance(answer, PublishRefused):
            _refuse(row, answer)
        elif not isinstance(answer, Receipt):
            failed.append((row, answer))
    OutboxMessage.objects.filter(pk__in=stored).delete()
    if failed:
        OutboxMessage.objects.filter(pk__in=[row.pk for row, _ in failed]).update(
            attempts=F("attempts") + 1, last_error=words_of(failed[0][1], 500)
        )
    turn.stored += len(stored)
    turn.errors += [words_of(error) for _, error in failed]
    turn.blocked |= {(row.topic, row.key) for row, _ in failed if row.key}


def _pages(but: Collection[str]) -> Iterator[list[OutboxMessage]]:
    """The oldest rows not refused, page by page, without those of some topics."""
    last = 0
    waiting = OutboxMessage.objects.filter(refused_at__isnull=True).order_by("pk")
    if but:
        waiting = waiting.exclude(topic__in=but)
    for _ in range(PAGES):
        rows = list(waiting.filter(pk__gt=last)[:BATCH])
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
