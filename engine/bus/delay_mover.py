"""The duty that publishes delayed messages when they are due."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from engine.bus.at_carriers import AtCarriers
from engine.bus.delays import BATCH, Due, RedisDelays
from engine.bus.errors import MalformedEnvelope, PublishRefused, TopicReplaced
from engine.bus.message import Message, decode
from engine.bus.producer import Producer
from engine.bus.ways import Way
from engine.core.errors import HbusError, Unavailable

#: When a due message that the bus refused is tried again, in seconds.
REFUSED_RETRY_S = 60.0
#: When a due message that the store did not take, or that had no turn because it hangs, is tried again, in seconds.
FAILED_RETRY_S = 1.0
#: A tick hands control back after so many seconds, even with work left.
TICK_S = 10.0

_log = logging.getLogger(__name__)


class _InTopic(NamedTuple):
    """What is due in one topic, and how it is published."""

    topic: str
    way: Way
    items: Sequence[Due]


class DelayMover:
    """Run it in one place at a time; two at once only waste work.

    A crash between publishing and forgetting repeats the publish, which :meth:`Way.send_due` does once.
    """

    name = "delay-mover"
    interval_s = 0.2

    def __init__(self, delays: RedisDelays, producer: Callable[[], Producer]) -> None:
        self._delays = delays
        self._producer = producer
        self._at = AtCarriers(delays.clock)

    def tick(self) -> None:
        """Publish everything due now. Raises as :meth:`promote`, once all others have had their turn."""
        begun = self._delays.clock.monotonic()
        failed: list[BaseException] = []
        while self._promote(BATCH, failed) == BATCH and self._delays.clock.monotonic() - begun < TICK_S:
            pass
        if failed:
            raise failed[0]

    def promote(self, limit: int = BATCH) -> int:
        """Publish up to ``limit`` due messages and return how many were due.

        What the bus refuses is put back for a minute and logged; what was meant for a topic that was deleted since is
        given up. What its store did not take is put back for a second, and ``Unavailable`` is raised once all others
        have had their turn: here, or later where a store took long to fail. While that hangs, what is due there is put
        back as well, and others do not wait for it.
        """
        failed: list[BaseException] = []
        number = self._promote(limit, failed)
        if failed:
            raise failed[0]
        return number

    def _promote(self, limit: int, failed: list[BaseException]) -> int:
        """The same, with what went wrong in ``failed``."""
        due = self._delays.due(limit)
        by_topic: defaultdict[tuple[str, str], list[Due]] = defaultdict(list)
        for item in due:
            by_topic[item.topic, item.incarnation].append(item)
        by_carrier: defaultdict[str, list[_InTopic]] = defaultdict(list)
        for (topic, incarnation), items in by_topic.items():
            try:
                # Here, and not on the carrier's thread: the rules of topics may have to be read from a database.
                way = self._producer().way(topic, meant=incarnation)
            except (PublishRefused, Unavailable) as error:
                failed += self._settle(topic, [(item.place, error) for item in items])
            else:
                by_carrier[way.carrier].append(_InTopic(topic, way, items))
        for carrier, topics in by_carrier.items():
            if not self._at.begin(carrier, partial(self._publish_each, topics)):
                self._delays.postpone([item.place for each in topics for item in each.items], FAILED_RETRY_S)
        self._at.wait()
        failed += self._at.failures()
        return len(due)

    def _publish_each(self, topics: Sequence[_InTopic]) -> list[BaseException]:
        """Publish what is due in topics of one carrier; what went wrong."""
        return [error for each in topics for error in self._publish(each)]

    def _publish(self, due: _InTopic) -> Sequence[BaseException]:
        answered: list[tuple[bytes, object]] = []
        places: list[bytes] = []
        ready: list[tuple[Message, str]] = []
        for item in due.items:
            try:
                ready.append((decode(item.body), item.claimed_key))
                places.append(item.place)
            except MalformedEnvelope as error:
                # It holds up none of the others.
                answered.append((item.place, PublishRefused(error.what, remedy=error.remedy, field=error.field)))
        answers: Sequence[object]
        try:
            answers = due.way.send_due(ready)
        except (PublishRefused, Unavailable) as error:
            answers = [error] * len(places)
        return self._settle(due.topic, [*answered, *zip(places, answers, strict=True)])

    def _settle(self, topic: str, answered: Sequence[tuple[bytes, object]]) -> Sequence[BaseException]:
        """Forget what was published in a topic and put the rest back; why, if its store has not taken all of it."""
        self._delays.complete([place for place, answer in answered if not isinstance(answer, HbusError)])
        # What was meant for a topic that is gone went with it: no later try could find that topic.
        gone = [place for place, answer in answered if isinstance(answer, TopicReplaced)]
        self._delays.drop(gone)
        refused = [place for place, answer in answered if isinstance(answer, PublishRefused)]
        for place, answer in answered:
            if isinstance(answer, PublishRefused):
                shown = place.decode(errors="replace")
                _log.error("delayed message %s for %s is due but was refused: %s", shown, topic, answer)
        self._delays.postpone([each for each in refused if each not in set(gone)], REFUSED_RETRY_S)
        failed = {place: answer for place, answer in answered if isinstance(answer, Unavailable)}
        self._delays.postpone(list(failed), FAILED_RETRY_S)
        return list(failed.values())[:1]
