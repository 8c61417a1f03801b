"""Moves dead letters from the transport's own store into the database, where people decide about them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import msgspec

from engine.bus import dead
from engine.bus import message as envelope
from engine.bus.errors import GroupLost, MalformedEnvelope
from engine.bus.many_groups import GroupName, with_dead
from engine.bus.transport import Admin, DeadEntry
from engine.core.clock import Clock, SystemClock, to_datetime
from engine.core.error_text import text_of
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence import freshness
from hbus_console.evidence.columns import INT4
from hbus_console.parts import Parts
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import StoreRemoval, carriers_of

#: Letters taken over in one go.
BATCH = 200
#: A tick hands control back after so many seconds, even with letters left.
TICK_S = 5.0


class DeadLetterCollector:
    """A duty. A letter is inserted first and forgotten by the transport afterwards; after a crash between the two the
    digest of its entry tells that it is there, and the second insertion does nothing.
    """

    name = "dead-letter-collector"
    interval_s = 1.0

    def __init__(self, admin: Callable[[str], Admin], *, clock: Clock | None = None) -> None:
        self._admin = admin
        self._clock = clock or SystemClock()
        self._noted_ms = 0

    def tick(self) -> None:
        """Take over what lies there. Raises what went wrong with some at the end, as :meth:`Parts.tell` does."""
        began_ms = self._clock.now_ms()
        ends = self._clock.monotonic() + TICK_S
        parts = Parts("The dead letters of {parts} could not be taken over")
        for transport, groups in _groups_by_transport().items():
            found = parts.do(f"everything on {transport}", partial(self._with_dead, transport, groups), on=transport)
            for topic, group in found or ():
                parts.do(
                    f"{group} on {topic}",
                    partial(self._take_all, self._admin(transport), topic, group, ends),
                    on=transport,
                )
        parts.tell()
        if self._clock.monotonic() <= ends and abs(began_ms - self._noted_ms) >= freshness.NOTE_MS:
            freshness.note(freshness.DEAD_LETTERS, began_ms)
            self._noted_ms = began_ms

    def _with_dead(self, transport: str, groups: list[GroupName]) -> list[GroupName]:
        return with_dead(self._admin(transport), groups)

    def _take_all(self, admin: Admin, topic: str, group: str, ends: float) -> None:
        while self._clock.monotonic() <= ends and self._take(admin, topic, group):
            pass

    def _take(self, admin: Admin, topic: str, group: str) -> int:
        try:
            entries = admin.dead(topic, group, BATCH)
        except GroupLost:
            # Nothing can have died in a group that is not there; the sampler reports it.
            return 0
        if not entries:
            return 0
        now = to_datetime(self._clock.now_ms())
        letters = [_letter(topic, group, entry, now) for entry in entries]
        # Whatever keeps one from being inserted is raised: what is not in the database must not be forgotten.
        DeadLetter.objects.bulk_create(_new(topic, group, letters))
        return admin.forget_dead(topic, group, [entry.entry for entry in entries])


def _groups_by_transport() -> dict[str, list[GroupName]]:
    """Every subscription, once for each transport that may hold dead letters of it; deleted ones until the store has
    forgotten them, which waits for this."""
    # Each once, in their order: one that is removed may have been left behind by one that lives on elsewhere.
    found: dict[str, dict[GroupName, None]] = defaultdict(dict)
    # No models: this is asked every second, and of thousands a model each would cost more than the store's answer.
    rows = Subscription.objects.order_by("pk").values_list("topic__name", "group", "topic__transport", "topic__leaving")
    for topic, group, transport, leaving in rows:
        for carrier in carriers_of(transport, leaving):
            found[carrier][topic, group] = None
    removals = StoreRemoval.objects.exclude(group="").values_list("topic", "group", "transport")
    for topic, group, transport in removals:
        (carrier,) = carriers_of(transport, "")
        found[carrier][topic, group] = None
    return {carrier: list(groups) for carrier, groups in found.items()}


def _new(topic: str, group: str, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    """Without those that are in the database."""
    rows = DeadLetter.objects.filter(topic=topic, subscription=group)
    digests = [letter.entry_digest for letter in letters]
    known = set(rows.filter(entry_digest__in=digests).values_list("entry_digest", flat=True))
    # The release before kept no digests. It may have been killed between inserting and forgetting.
    dates = {letter.died_at for letter in letters}
    older = rows.filter(entry_digest=None, died_at__in=dates).values_list("position", "message_id", "source", "died_at")
    before = set(older)
    return [
        each
        for each in letters
        if each.entry_digest not in known and (each.position, each.message_id, each.source, each.died_at) not in before
    ]


def _digest(entry: DeadEntry) -> str:
    """Of all that lies there: a store that was emptied may number its entries from the first again."""
    digest = hashlib.blake2b(digest_size=16)
    for part in (entry.entry.encode(), entry.position.encode(), entry.record, entry.body):
        digest.update(len(part).to_bytes(8, "big") + part)
    return digest.hexdigest()


def _letter(topic: str, group: str, entry: DeadEntry, now: datetime) -> DeadLetter:
    letter = DeadLetter(topic=topic, subscription=group, position=entry.position[:64], body=entry.body)
    letter.entry_digest = _digest(entry)
    try:
        record = dead.decode(entry.record)
        first_failed_at, died_at = to_datetime(record.first_failed_ms), to_datetime(record.died_ms)
    except (msgspec.DecodeError, ValueError, OverflowError, OSError) as error:
        # It is kept all the same: a letter without a legible cause is still somebody's message.
        letter.cause = "The record of its death is unreadable"
        letter.error = text_of(error)
        letter.fingerprint = dead.fingerprint(group, "UnreadableRecord", "")
        letter.attempts = 0
        letter.first_failed_at = letter.died_at = now
    else:
        letter.cause = _clean(record.cause)[:500]
        letter.error = _clean(record.error)
        letter.fingerprint = _clean(record.fingerprint)[:16]
        letter.attempts = min(max(record.attempts, 0), INT4)
        letter.history = [
            {
                "number": attempt.number,
                "at_ms": attempt.at_ms,
                "duration_us": attempt.duration_us,
                "consumer": _clean(attempt.consumer),
                "error": _clean(attempt.error),
            }
            for attempt in record.history
        ]
        letter.first_failed_at, letter.died_at = first_failed_at, died_at
    try:
        message = envelope.decode(entry.body)
    except MalformedEnvelope:
        # Its position is the only name it has, and where somebody else has written it not even that.
        letter.message_id = f"@{entry.position or entry.entry}"[:64]
    else:
        letter.message_id = _clean(message.id[:64])
        letter.source = _clean(message.source[:300])
        letter.key = _clean(message.partitionkey)[:200]
        letter.correlation_id = _clean(message.correlationid)[:128]
    return letter


def _clean(text: str) -> str:
    """PostgreSQL takes no NUL."""
    return text.replace("\x00", "")
