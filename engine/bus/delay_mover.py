"""The duty that publishes delayed messages when they are due."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import NamedTuple

import msgspec

from engine.bus.at_carriers import AtCarriers
from engine.bus.delay_entries import Due
from engine.bus.delay_facts import fact_of
from engine.bus.delays import BATCH, RedisDelays
from engine.bus.errors import MalformedEnvelope, PublishFailed, PublishRefused, TopicReplaced, UnknownTopic
from engine.bus.message import Message, decode
from engine.bus.producer import Producer
from engine.bus.ways import Way
from engine.core.errors import HbusError, OutcomeUnknown, Unavailable

#: When a topic of whose due messages the store took none, or may have taken some, has its next turn, in seconds.
FAILED_RETRY_S = 1.0
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 10.0

_UNSURE = OutcomeUnknown("It was not answered.")


class _InTopic(NamedTuple):
    """What is due in one topic, and how it is published."""

    topic: str
    way: Way
    items: Sequence[Due]


@dataclass
class _Flight:
    """What is on its way to one carrier. No more goes there before it is seen to: so all goes in order."""

    groups: list[_InTopic] = field(default_factory=list)
    #: Of each group in turn that was sent. Read once the flight is over.
    answers: list[list[tuple[Due, object]]] = field(default_factory=list)
    #: When claims that ran out meanwhile, and were renewed, end by now.
    renewed: dict[bytes, int] = field(default_factory=dict)

    @property
    def items(self) -> list[Due]:
        return [item for group in self.groups for item in group.items]

    @property
    def size(self) -> int:
        return sum(len(group.items) for group in self.groups)

    def send(self) -> list[Unavailable]:
        """On the carrier's thread; what it did not take."""
        for group in self.groups:
            self.answers.append(_sent(group))
        return [answer for group in self.answers for _, answer in group if isinstance(answer, Unavailable)][:1]

    def claimed(self, item: Due) -> Due:
        """As it is claimed by now."""
        ends_ms = self.renewed.get(item.place)
        return item if ends_ms is None else msgspec.structs.replace(item, ends_ms=ends_ms)


class DelayMover:
    """Run it in one place at a time; two at once only waste work.

    Those of one topic go in the order of their due times: behind a carrier that is busy, slow, hung or away they wait
    in the topic's lane, and none of those that come due meanwhile goes before them; nor before what a mover that is
    gone has claimed, which may be on its way, until that claim runs out. What a carrier's thread has stays claimed, and
    what was sent and not answered cannot be cancelled: nobody is told he has cancelled what is published all the same.

    A crash between publishing and forgetting repeats the publish, which :meth:`Way.send_due` does once.
    """

    name = "delay-mover"
    interval_s = 0.2

    def __init__(self, delays: RedisDelays, producer: Callable[[], Producer]) -> None:
        self._delays = delays
        self._producer = producer
        self._at = AtCarriers(delays.clock)
        #: By carrier.
        self._flights: dict[str, _Flight] = {}
        #: Topics that have no turn until then, epoch milliseconds.
        self._resting: dict[str, int] = {}

    def tick(self) -> None:
        """Publish everything due now. Raises as :meth:`promote`, once all others have had their turn."""
        begun = self._delays.clock.monotonic()
        failed: list[BaseException] = []
        while self._promote(BATCH, failed) >= BATCH and self._delays.clock.monotonic() - begun < TICK_S:
            pass
        if failed:
            raise failed[0]

    def promote(self, limit: int = BATCH) -> int:
        """Publish up to ``limit`` messages that have come due, and as many of each carrier that waited for their turn;
        return how many were moved on.

        What the bus refuses is put back, told as ``due_refused``, and tried again after a minute, then after growing
        pauses (:mod:`.delay_refusals`), until it is taken or cancelled. What was meant for a topic that was deleted
        since is given up, and told as ``cancelled``. What its store did not take is tried again in a second, before
        all that is due later in its topic, and ``Unavailable`` is raised once all others have had their turn: here, or
        later where a store took long to fail. While that hangs, what is due there is put aside, and others do not wait
        for it.
        """
        failed: list[BaseException] = []
        number = self._promote(limit, failed)
        if failed:
            raise failed[0]
        return number

    def _promote(self, limit: int, failed: list[BaseException]) -> int:
        """The same, with what went wrong in ``failed``."""
        # Before anything is claimed: what a claim that was held comes back with must not find its topic resting.
        now_ms = self._delays.clock.now_ms()
        self._land(failed)
        self._resting = {topic: until for topic, until in self._resting.items() if until > now_ms}
        flights: defaultdict[str, _Flight] = defaultdict(_Flight)
        due, elsewhere = self._claim(limit)
        self._new(due, elsewhere, flights, failed)
        number = len(due) + self._waited(elsewhere, flights, failed)
        for carrier, flight in flights.items():
            if not self._at.begin(carrier, flight.send):
                raise AssertionError("unreachable: it was free")
            self._flights[carrier] = flight
        self._at.wait()
        self._land(failed)
        return number

    def _claim(self, limit: int) -> tuple[list[Due], set[str]]:
        """Claim what came due; and the topics of which anything is claimed beside that and what is on its way: by a
        mover that is gone or lost the answer, or longer ago than there was room for."""
        held = {item.place: (flight, item) for flight in self._flights.values() for item in flight.items}
        due: list[Due] = []
        known = set(held)
        for item in self._delays.due(limit):
            flight, sent = held.get(item.place, (None, item))
            if flight is not None and sent.body == item.body:
                # What a thread has is claimed anew where its claim ran out, and stays with it.
                flight.renewed[item.place] = item.ends_ms
            else:
                due.append(item)
                known.add(item.place)
        return due, {topic for place, topic in self._delays.moving().items() if place not in known}

    def _new(
        self,
        due: Sequence[Due],
        elsewhere: set[str],
        flights: defaultdict[str, _Flight],
        failed: list[BaseException],
    ) -> None:
        """What came due goes at once, unless others of its topic wait or its carrier is busy."""
        behind = {*self._delays.lanes(), *self._resting, *elsewhere, *(group.topic for group in self._flying())}
        for (topic, incarnation), items in _by_topic(due).items():
            if topic in behind:
                self._delays.set_aside(topic, items)
            else:
                self._route(topic, incarnation, items, flights, failed)

    def _waited(self, elsewhere: set[str], flights: defaultdict[str, _Flight], failed: list[BaseException]) -> int:
        """Claim what waits in lanes of carriers that are free, that of the oldest first."""
        number = 0
        # What lanes hold has room of its own: what comes due all the time would leave it none.
        fresh = {carrier: flight.size for carrier, flight in flights.items()}
        # Also where it goes by another carrier by now.
        not_yet = {*self._resting, *elsewhere, *(group.topic for group in self._flying())}
        for topic in self._delays.lanes():
            if topic in not_yet:
                continue
            room = BATCH
            try:
                carrier = self._producer().way(topic, meant="").carrier
                waited = flights[carrier].size - fresh.get(carrier, 0) if carrier in flights else 0
                room = (BATCH - waited) * self._at.is_free(carrier)
            except PublishRefused:
                # Each is answered by itself.
                pass
            except Unavailable as error:
                failed.append(error)
                continue
            if room <= 0:
                continue
            items = self._delays.take(topic, room)
            number += len(items)
            for (_, incarnation), group in _by_topic(items).items():
                self._route(topic, incarnation, group, flights, failed)
        return number

    def _route(
        self,
        topic: str,
        incarnation: str,
        items: Sequence[Due],
        flights: defaultdict[str, _Flight],
        failed: list[BaseException],
    ) -> None:
        """Add them to what goes to their carrier, if that is free."""
        try:
            # Here, and not on the carrier's thread: the rules of topics may have to be read from a database.
            way = self._producer().way(topic, meant=incarnation)
        except PublishRefused as error:
            self._refuse([(item, error) for item in items])
        except Unavailable as error:
            self._rest(topic)
            self._delays.set_aside(topic, items)
            failed.append(error)
        else:
            if self._at.is_free(way.carrier):
                flights[way.carrier].groups.append(_InTopic(topic, way, items))
            else:
                self._delays.set_aside(topic, items)

    def _flying(self) -> list[_InTopic]:
        return [group for flight in self._flights.values() for group in flight.groups]

    def _land(self, failed: list[BaseException]) -> None:
        """See to what is over."""
        for carrier in self._at.over():
            flight = self._flights[carrier]
            try:
                for group, answered in zip_longest(flight.groups, flight.answers):
                    # Of what was not answered, for an error of ours, nobody knows.
                    ended = answered or [(item, _UNSURE) for item in group.items]
                    self._settle(group.topic, [(flight.claimed(item), answer) for item, answer in ended])
            except Unavailable as error:
                # Next time. Until then nothing goes there, and all of it stays claimed.
                failed.append(error)
            else:
                del self._flights[carrier]
                failed += self._at.take(carrier)

    def _settle(self, topic: str, answered: Sequence[tuple[Due, object]]) -> None:
        """Forget what was published in a topic and put the rest back."""
        self._delays.complete([item for item, answer in answered if not isinstance(answer, HbusError)])
        self._refuse(answered)
        failed = [(item, answer) for item, answer in answered if isinstance(answer, Unavailable)]
        self._delays.set_aside(topic, [item for item, answer in failed if _is_untouched(answer)])
        # It may be published: who cancels it is not told that it will not be.
        unsure = [item for item, answer in failed if not _is_untouched(answer)]
        self._delays.hold(unsure, FAILED_RETRY_S)
        if unsure or (failed and len(failed) == len(answered)):
            # Not sooner than the claims that are held have ended.
            self._rest(topic)

    def _refuse(self, answered: Sequence[tuple[Due, object]]) -> None:
        """Put back what was refused, give up what can be published nowhere any more, and tell of both."""
        refused = {item.place: (item, answer) for item, answer in answered if isinstance(answer, PublishRefused)}
        gone = self._gone(list(refused.values()))
        self._delays.drop([item for item, _ in gone])
        for item, _ in gone:
            del refused[item.place]
        news = self._delays.refusals.add([(item, error.what) for item, error in refused.values()])
        now_ms = self._delays.clock.now_ms()
        told = [fact_of("cancelled", item, now_ms, detail=why) for item, why in gone]
        for item, next_ms, tries in news:
            error = refused[item.place][1]
            said = fact_of(
                "due_refused", item, now_ms, error=error.what, detail=error.remedy, attempt=tries, due_ms=next_ms
            )
            told.append(said)
        if told:
            self._producer().tell(chain.from_iterable(told))

    def _gone(self, refused: Sequence[tuple[Due, PublishRefused]]) -> list[tuple[Due, str]]:
        """What was meant for a topic that is gone, which went with it: no later try could find that topic."""
        found = [(item, error.what) for item, error in refused if isinstance(error, TopicReplaced)]
        missed = [(item, error) for item, error in refused if isinstance(error, UnknownTopic) and item.incarnation]
        stands = self._delays.refusals.at([item.place for item, _ in missed])
        for (item, error), stand in zip(missed, stands, strict=True):
            # Not at the first try: who asks may not have heard yet of a topic that was made just now.
            if stand is not None and stand.why == error.what:
                found.append((item, f"The topic {item.topic!r} that it was meant for was deleted."))
        return found

    def _rest(self, topic: str) -> None:
        self._resting[topic] = self._delays.clock.now_ms() + round(FAILED_RETRY_S * 1000)


def _sent(due: _InTopic) -> list[tuple[Due, object]]:
    answered: list[tuple[Due, object]] = []
    items: list[Due] = []
    ready: list[tuple[Message, str]] = []
    for item in due.items:
        try:
            ready.append((decode(item.body), item.claimed_key))
            items.append(item)
        except MalformedEnvelope as error:
            # It holds up none of the others.
            answered.append((item, PublishRefused(error.what, remedy=error.remedy, field=error.field)))
    answers: Sequence[object]
    try:
        answers = due.way.send_due(ready)
    except (PublishRefused, Unavailable) as error:
        answers = [error] * len(items)
    return [*answered, *zip(items, answers, strict=True)]


def _by_topic(due: Sequence[Due]) -> dict[tuple[str, str], list[Due]]:
    """Of each topic and incarnation what is due there, in order: what was claimed once before leads, or is behind."""
    found: defaultdict[tuple[str, str], list[Due]] = defaultdict(list)
    for item in sorted(due, key=lambda item: (item.due_ms, item.place)):
        found[item.topic, item.incarnation].append(item)
    return found


def _is_untouched(error: Unavailable) -> bool:
    """Whether the message was not stored, for certain."""
    return error.untouched or isinstance(error, PublishFailed)
