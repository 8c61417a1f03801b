"""Fills the spools, as a duty of the keeper: what archived topics carry is finished in NSQ once it is there."""

from __future__ import annotations

import structlog

from engine.bus import GroupLost
from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.core.errors import HbusError
from engine.pipeline.spool.errors import SpoolBusy
from engine.pipeline.spool.files import folder
from engine.pipeline.spool.leaving import forget, last_touched_ms, spools_in
from engine.pipeline.spool.spooling import GROUP, Spooler, make_group
from hbus_console.pipelines.models import ArchivedTopic
from hbus_console.pipelines.spools import DUTY, spool_root, spooled_on, spooler
from hbus_console.pipelines.the_lake import lake
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus

#: About how long one turn lasts over all topics, seconds.
TICK_S = 5.0
#: The least that one topic gets of it.
LEAST_S = 0.2
#: How long the spool of a topic that is archived no further stays, ms: whoever stopped it by mistake loses nothing.
KEPT_MS = 3_600_000

_log = structlog.get_logger(__name__)
#: Topic and transport.
Key = tuple[str, str]


class SpoolFilling:
    """A duty. Two at once, as when a lease ran out, do no harm: each spool is held by one process at a time."""

    name = DUTY
    interval_s = 2.0

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._spoolers: dict[Key, Spooler] = {}

    def tick(self) -> None:
        """Move what waits, topic by topic; one that cannot be moved holds up no other. Raises what the first of these
        failed with."""
        wanted = [
            (row.topic.name, carrier)
            for row in ArchivedTopic.objects.select_related("topic")
            for carrier in spooled_on(row.topic)
        ]
        self._leave(wanted)
        failed: list[Exception] = []
        if wanted:
            # One that is not mounted is no place to put anything.
            lake()
        for key in wanted:
            try:
                self._move(key, max(LEAST_S, TICK_S / len(wanted)))
            except SpoolBusy:
                continue
            except (HbusError, OSError) as error:
                _log.warning("not_spooled", topic=key[0], error=words_of(error))
                failed.append(error)
        self._forget_spools({topic for topic, _ in wanted})
        if failed:
            raise failed[0]

    def _move(self, key: Key, budget_s: float) -> None:
        topic, carrier = key
        it = self._spoolers.get(key)
        if it is None:
            it = self._spoolers[key] = spooler(topic, carrier)
        try:
            it.turn(budget_s)
        except GroupLost as error:
            # It was deleted by hand, or the store was away when it was to be made: but for one that was meant.
            if ArchivedTopic.objects.filter(topic__name=topic).exists():
                _log.warning("archive_group_made_anew", topic=topic, error=str(error))
                make_group(bus.transport(carrier), topic)

    def _leave(self, wanted: list[Key]) -> None:
        for key in set(self._spoolers) - set(wanted):
            topic, carrier = key
            self._spoolers.pop(key).close()
            if not ArchivedTopic.objects.filter(topic__name=topic).exists():
                # Made anew between two looks, it would have what is published wait for nobody.
                bus.admin(carrier).delete_group(topic, GROUP)

    def _forget_spools(self, wanted: set[str]) -> None:
        """Of topics that are gone, and of those that are archived no further for a while."""
        root = spool_root()
        others = set(spools_in(root)) - {folder(root, topic) for topic in wanted}
        if not others:
            return
        # One that was moved to another transport is archived to its end.
        kept = {folder(root, name) for name in ArchivedTopic.objects.values_list("topic__name", flat=True)}
        there = {folder(root, name) for name in Topic.objects.values_list("name", flat=True)}
        for place in others - kept:
            if place not in there or self._clock.now_ms() - last_touched_ms(place) >= KEPT_MS:
                forget(place)


def spool_filling() -> SpoolFilling:
    """The duty of the keeper."""
    return SpoolFilling()
