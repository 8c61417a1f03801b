"""What became of a delivery of which nobody told, as the store and the samples of its lag say it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import cached_property

from django.db.models import QuerySet

from engine.bus.optional import TellsStanding, WhereItIs
from engine.bus.transport import Admin, Stored
from engine.core.errors import BadInput
from hbus_console.messages.checking import CLOSE_MS, SKEW_MS, read_message
from hbus_console.messages.models import DeliveryCheck, LagSample, LedgerEvent, LedgerMessage

#: What tells that a message was handed out, and not settled then.
KEEPING = ("retried", "parked", "released")


class Judgement(Enum):
    """Of a message without an outcome."""

    PASSED = auto()
    #: The store no longer has it, and was not done with it.
    LOST = auto()
    #: The subscription is not past it, or may have told since what is not booked yet.
    NOT_YET = auto()
    #: It names another subscription, or was there before this one.
    NONE_OF_ITS = auto()


@dataclass(frozen=True)
class _Seen:
    """How a subscription was seen to stand before its store was emptied."""

    #: ``None``: never.
    last: LagSample | None
    #: When none was last seen to wait; 0: not known.
    none_waited_ms: int


class DeliveryJudge:
    """For one subscription and one round. All methods raise ``Unavailable`` and ``GroupLost``.

    ``sure_ms``: what was appended before, the subscription had settled at a time whose facts are all booked.
    ``until_ms``: whatever happened before has its facts booked.
    """

    def __init__(self, row: DeliveryCheck, admin: Admin, *, created_ms: int, sure_ms: int, until_ms: int) -> None:
        self._row = row
        self._admin = admin
        self._created_ms = created_ms
        self._sure_ms = sure_ms
        self._until_ms = until_ms
        #: Of what was asked about and is forgotten, what is known to have been handed out and kept, as id and source.
        self._kept: set[tuple[str, str | None]] = set()
        #: By when the store was emptied.
        self._seen: dict[int, _Seen] = {}

    def standings(self, messages: Sequence[LedgerMessage]) -> list[WhereItIs | None]:
        """Of each; ``None`` where the store cannot tell."""
        found = dict(self._standings([message.position for message in messages if message.position]))
        forgotten = [each.message_id for each in messages if found.get(each.position) is WhereItIs.FORGOTTEN]
        if forgotten:
            told = LedgerEvent.objects.filter(message_id__in=forgotten, topic=self._row.topic, kind__in=KEEPING)
            told = told.filter(subscription=self._row.subscription)
            self._kept.update(told.values_list("message_id", "source"))
        return [found.get(message.position) for message in messages]

    def _standings(self, positions: Sequence[str]) -> list[tuple[str, WhereItIs]]:
        admin = self._admin
        if not positions or not isinstance(admin, TellsStanding):
            return []
        try:
            return list(
                zip(positions, admin.standings(self._row.topic, self._row.subscription, positions), strict=True)
            )
        except BadInput:
            # Strangers' facts name what is none; what stands beside it is asked about all the same.
            if len(positions) == 1:
                return []
            half = len(positions) // 2
            return self._standings(positions[:half]) + self._standings(positions[half:])

    def verdict(self, message: LedgerMessage, standing: WhereItIs | None, over_ms: int = 0) -> Judgement:
        """``over_ms``: when it was first said to be no longer open; 0: not before now."""
        if standing is WhereItIs.OPEN:
            return Judgement.NOT_YET
        stored = self._read(message.position)
        if (message.published_ms if stored is None else stored.at_ms) < self._created_ms - SKEW_MS:
            return Judgement.NONE_OF_ITS
        if not self._all_told(message, standing, stored, over_ms):
            return Judgement.NOT_YET
        if standing is WhereItIs.LOST or (standing is WhereItIs.FORGOTTEN and self._was_open(message)):
            return Judgement.LOST
        target = found.hbustarget if stored is not None and (found := read_message(stored)) is not None else ""
        return Judgement.NONE_OF_ITS if target and target != self._row.subscription else Judgement.PASSED

    def _all_told(
        self, message: LedgerMessage, standing: WhereItIs | None, stored: Stored | None, over_ms: int
    ) -> bool:
        if standing is not None and 0 < over_ms < self._until_ms:
            return True
        if stored is not None:
            return stored.at_ms < self._sure_ms
        # It was trimmed, or the store was emptied: only the publisher's clock tells when it was.
        return message.published_ms < self._sure_ms - SKEW_MS

    def _read(self, position: str) -> Stored | None:
        try:
            return self._admin.read(self._row.topic, position) if position else None
        except BadInput:
            return None

    def _was_open(self, message: LedgerMessage) -> bool:
        """Whether the subscription had not settled it when the store was last seen before it was emptied.

        One old message that is not settled says nothing of those after it. What was there when none waited had been
        handed out, and was open only if it is told to have been kept; whatever else became of it nobody knows.
        """
        seen = self._seen_of_its_life(message)
        sample = seen.last
        if sample is None:
            return False
        if sample.oldest_ms is not None:
            if message.published_ms < min(sample.oldest_ms, sample.at_ms):
                return False
            if message.published_ms >= seen.none_waited_ms - SKEW_MS:
                return True
            return bool(self._kept & {(message.message_id, message.source), (message.message_id, None)})
        held = (sample.waiting or 0) + sample.in_flight + sample.retrying + sample.parked
        return not held and message.published_ms >= sample.at_ms

    def _seen_of_its_life(self, message: LedgerMessage) -> _Seen:
        """A store may have been emptied more than once since: what it held the last time was not there before."""
        later = self._lives[bisect_right(self._lives, message.published_ms + CLOSE_MS) :]
        seen = [self._seen_before(began_ms) for began_ms in later or self._lives[-1:]]
        return next((each for each in seen if each.last is not None), seen[-1])

    def _seen_before(self, ended_ms: int) -> _Seen:
        if ended_ms not in self._seen:
            before = self._samples.filter(at_ms__lt=ended_ms).order_by("-at_ms")
            none_waited = before.filter(waiting=0).first()
            self._seen[ended_ms] = _Seen(
                before.exclude(waiting=None).first(), 0 if none_waited is None else none_waited.at_ms
            )
        return self._seen[ended_ms]

    @cached_property
    def _samples(self) -> QuerySet[LagSample]:
        return LagSample.objects.filter(topic=self._row.topic, subscription=self._row.subscription)

    @cached_property
    def _lives(self) -> list[int]:
        """When each life of the topic began that is known, the present one at least."""
        now = self._admin.began_ms(self._row.topic) if isinstance(self._admin, TellsStanding) else 0
        seen = self._samples.filter(began_ms__gt=0).order_by().values_list("began_ms", flat=True).distinct()
        return sorted({now, *seen})
