"""Plays a feed in the background: what the console's one click starts, and no closed browser stops."""

from __future__ import annotations

import threading
from functools import partial

from django.db import transaction
from django.utils import timezone

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import words_of
from engine.core.errors import HbusError
from examples.hotel import feeds, player
from examples.hotel.lifecycle import event_count
from examples.hotel.models import Load
from examples.hotel.seed import seed
from hbus_console.access.permissions import Actor, require
from hbus_console.audit.services import record
from hbus_console.imports.publishing import SteadyPublisher
from hbus_console.jobs.feature import JOB_EDIT
from hbus_console.parts import Parts
from hbus_console.publishing.producer import shared_producer
from hbus_console.subjects import readable
from hbus_console.teams.feature import TEAM_EDIT
from hbus_console.topics.feature import TOPIC_EDIT

#: The real bookings of three and a half years pass in about four minutes, the simulated ones in two.
SPEED_DAYS = 2.0


def start(actor: Actor, file: str = "", limit: int | None = None, *, clock: Clock | None = None) -> Load:
    """Seed the example and let the keeper play its bookings; a second call while they play changes nothing.

    Raises ``Forbidden`` unless ``actor`` may make teams, topics and jobs, and ``BadInput`` for an unreadable file.
    """
    require(actor, TEAM_EDIT)
    require(actor, TOPIC_EDIT, "booking.created")
    require(actor, JOB_EDIT, "hotel.nightly-close")
    feed = feeds.open_feed(file, limit)
    seed(actor)
    with transaction.atomic():
        load, made = Load.objects.get_or_create(
            source=feed.source,
            defaults={
                "file": file,
                "bookings": len(feed.bookings),
                "speed": SPEED_DAYS,
                "events": event_count(feed),
                "started_by": actor.name,
                "started_ms": (clock or SystemClock()).now_ms(),
            },
        )
        if made:
            record(
                actor,
                "hotel.load",
                readable("feed", "", feed.source),
                after={"bookings": load.bookings, "events": load.events},
            )
    return load


class LoadDuty:
    """The keeper's duty of it: publishes what is due of every unfinished load. Repeats after a crash are recognised."""

    name = "hotel-load"
    interval_s = 0.5

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()

    def tick(self) -> None:
        """Raises what keeps a load from going on once the others have; it is tried again."""
        parts = Parts("{parts} could not go on")
        for load in Load.objects.filter(finished_at=None):
            parts.do(f"load {load.pk}", partial(self._go_on, load))
        parts.tell()

    def _go_on(self, load: Load) -> None:
        try:
            self._play(load)
        except HbusError as error:
            Load.objects.filter(pk=load.pk).update(last_error=words_of(error, 500))
            raise

    def _play(self, load: Load) -> None:
        score = feeds.score(load.file, load.bookings)
        elapsed_s = (self._clock.now_ms() - load.started_ms) / 1000
        # No patience: this thread has other loads to play, and the next tick comes soon.
        publisher = SteadyPublisher(shared_producer(), clock=self._clock, stop=threading.Event(), patience_s=0)
        upto = player.due(score.timeline, load.published, speed=load.speed, elapsed_s=elapsed_s)
        if upto > load.published:
            player.publish(publisher, load.source, score.moments[load.published : upto])
            load.published = upto
        if load.published == load.events:
            load.finished_at = timezone.now()
            feeds.score.cache_clear()
        load.last_error = ""
        load.save(update_fields=["published", "finished_at", "last_error"])
