"""The duty that publishes delayed messages when they are due."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Sequence

from engine.bus.delays import BATCH, Due, RedisDelays
from engine.bus.errors import MalformedEnvelope, PublishRefused, TopicReplaced
from engine.bus.message import Message, decode
from engine.bus.producer import Producer
from engine.core.errors import HbusError, Unavailable

#: When a due message that the bus refused is tried again, in seconds.
REFUSED_RETRY_S = 60.0
#: When a due message that the store did not take is tried again, in seconds.
FAILED_RETRY_S = 1.0

_log = logging.getLogger(__name__)


class DelayMover:
    """Run it in one place at a time; two at once only waste work.

    A crash between publishing and forgetting repeats the publish, which :meth:`Producer.send_due` does once.
    """

    name = "delay-mover"
    interval_s = 0.2

    def __init__(self, delays: RedisDelays, producer: Callable[[], Producer]) -> None:
        self._delays = delays
        self._producer = producer

    def tick(self) -> None:
        """Publish everything due now. Raises as :meth:`promote`."""
        while self.promote() == BATCH:
            pass

    def promote(self, limit: int = BATCH) -> int:
        """Publish up to ``limit`` due messages and return how many were due.

        What the bus refuses is put back for a minute and logged; what was meant for a topic that was deleted since is
        given up. What its store did not take is put back for a second, and ``Unavailable`` is raised once all others
        have had their turn. Others wait for it no longer than its stores take to fail.
        """
        due = self._delays.due(limit)
        by_topic: defaultdict[tuple[str, str], list[Due]] = defaultdict(list)
        for item in due:
            by_topic[item.topic, item.incarnation].append(item)
        away: list[Unavailable] = []
        for (topic, incarnation), items in by_topic.items():
            try:
                self._publish(topic, incarnation, items)
            except Unavailable as error:
                away.append(error)
        if away:
            raise away[0]
        return len(due)

    def _publish(self, topic: str, incarnation: str, items: Sequence[Due]) -> None:
        """Publish what is due in one topic. Raises ``Unavailable`` when the store has not taken all of it."""
        answered: list[tuple[bytes, object]] = []
        places: list[bytes] = []
        due: list[tuple[Message, str]] = []
        for item in items:
            try:
                due.append((decode(item.body), item.claimed_key))
                places.append(item.place)
            except MalformedEnvelope as error:
                # It holds up none of the others.
                answered.append((item.place, PublishRefused(error.what, remedy=error.remedy, field=error.field)))
        answers: Sequence[object]
        try:
            answers = self._producer().send_due(topic, due, meant=incarnation)
        except (PublishRefused, Unavailable) as error:
            answers = [error] * len(places)
        answered += zip(places, answers, strict=True)
        # What was meant for a topic that is gone went with it: no later try could find that topic.
        self._delays.complete([place for place, answer in answered if not isinstance(answer, HbusError)])
        gone = [place for place, answer in answered if isinstance(answer, TopicReplaced)]
        self._delays.drop(gone)
        refused = [place for place, answer in answered if isinstance(answer, PublishRefused)]
        for place, answer in answered:
            if isinstance(answer, PublishRefused):
                shown = place.decode(errors="replace")
                _log.error("delayed message %s for %s is due but was refused: %s", shown, topic, answer)
        self._delays.postpone([each for each in refused if each not in set(gone)], REFUSED_RETRY_S)
        failed = {place: answer for place, answer in answered if isinstance(answer, Unavailable)}
        if failed:
            self._delays.postpone(list(failed), FAILED_RETRY_S)
            raise next(iter(failed.values()))
