"""The demonstration: play a feed, wait until all of it is settled, and judge what came out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import msgspec

from engine.bus.errors import GroupLost
from engine.core.clock import SystemClock
from engine.core.errors import Unavailable
from examples.hotel import partner, player, verify
from examples.hotel.bookings import Feed
from examples.hotel.events import BookingCancelled
from examples.hotel.killing import kill_consumer
from examples.hotel.lifecycle import Moment, moments
from examples.hotel.seed import subscriptions
from hbus_console.deadletters.models import DeadLetter
from hbus_console.imports.publishing import SteadyPublisher, Tally
from hbus_console.outbox.relay import outbox_state
from hbus_console.publishing.producer import shared_producer
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus

#: Seconds without any progress after which waiting is given up.
STUCK_S = 120.0
#: Seconds between two looks.
LOOK_S = 0.5
#: Messages published together before the consumer is killed, so that it has some in hand.
BURST = 100


class Poison(msgspec.Struct, frozen=True):
    """A message that dies until its cause is mended."""

    message_id: str
    booking_id: str
    room: str


class Outcome(msgspec.Struct):
    """What the demonstration saw. ``settled`` is what it had to be: all, but for the poison."""

    source: str
    bookings: int
    events: int
    published: int
    deduplicated: int
    settled: bool
    unsettled: int
    invoices_waiting: int
    #: Known to die, and dead now.
    poison: list[Poison]
    #: Dead letters that nobody expected: their message ids.
    unexpected: list[str]
    publish_s: float
    settle_s: float
    comparison: verify.Comparison

    @property
    def holds(self) -> bool:
        return self.settled and not self.unexpected and self.comparison.equal


Progress = Callable[[str, int, int], None]


def run(feed: Feed, *, speed: float, kill: bool, progress: Progress, stop: threading.Event) -> Outcome:
    """Play ``feed`` at ``speed`` days a second (0: as fast as it goes) and judge; ``kill``: the consumer, half-way.
    Raises what publishing raises.

    ``progress(what, done, of)`` hears how far it is. Playing it again publishes nothing twice.
    """
    score = list(moments(feed))
    begun = time.monotonic()
    tally = _play(feed.source, score, speed, progress, stop, kill=kill)
    published_at = time.monotonic()
    doomed = poison(score)
    unsettled = _await_settled(doomed, progress, stop)
    dead = set(
        DeadLetter.objects.filter(source=feed.source, state=DeadLetter.State.DEAD).values_list("message_id", flat=True)
    )
    known = {one.message_id for one in doomed}
    return Outcome(
        source=feed.source,
        bookings=len(feed.bookings),
        events=len(score),
        published=tally.published,
        deduplicated=tally.deduplicated,
        settled=not unsettled,
        unsettled=unsettled,
        invoices_waiting=outbox_state().waiting,
        poison=[one for one in doomed if one.message_id in dead],
        unexpected=sorted(dead - known),
        publish_s=round(published_at - begun, 3),
        settle_s=round(time.monotonic() - published_at, 3),
        comparison=verify.compare(feed),
    )


def poison(score: Sequence[Moment]) -> list[Poison]:
    """The cancellations that the partner would refuse as its catalogue stands now."""
    cancelled = [(moment.id, moment.event) for moment in score if isinstance(moment.event, BookingCancelled)]
    unknown = partner.unknown_rooms({event.released.room for _, event in cancelled})
    return [
        Poison(message_id, event.booking_id, event.released.room)
        for message_id, event in cancelled
        if event.released.room in unknown
    ]


def _play(
    source: str, score: Sequence[Moment], speed: float, progress: Progress, stop: threading.Event, *, kill: bool
) -> Tally:
    clock = SystemClock()
    publisher = SteadyPublisher(shared_producer(), clock=clock, stop=stop)
    timeline = player.timeline(score)
    total, done, begun = Tally(), 0, clock.monotonic()
    while done < len(score) and not stop.is_set():
        upto = player.due(timeline, done, speed=speed, elapsed_s=clock.monotonic() - begun)
        burst = BURST if kill and upto >= len(score) // 2 else 1
        if upto - done < min(burst, len(score) - done):
            clock.wait(stop, 0.05)
            continue
        tally = player.publish(publisher, source, score[done:upto])
        total.published += tally.published
        total.deduplicated += tally.deduplicated
        done = upto
        progress("published", done, len(score))
        # What was known before moves nothing: only where messages are new has a consumer some in hand.
        if kill and tally.published and done >= len(score) // 2:
            kill = not kill_consumer()
    return total


def _await_settled(doomed: Sequence[Poison], progress: Progress, stop: threading.Event) -> int:
    """Wait until nothing is open any more; returns what still was when nothing moved for :data:`STUCK_S` seconds."""
    best, moved = None, time.monotonic()
    most = 0
    while not stop.is_set():
        still = _open() + len(_undecided(doomed))
        most = max(most, still)
        progress("settled", most - still, most)
        if not still:
            return 0
        if best is None or still < best:
            best, moved = still, time.monotonic()
        elif time.monotonic() - moved > STUCK_S:
            break
        stop.wait(LOOK_S)
    return _open()


def _open() -> int:
    """Messages of the example on their way: in its subscriptions, in the outbox, or dead and not yet taken over."""
    count = outbox_state().waiting
    carriers = {row.name: [row.transport, *filter(None, [row.leaving])] for row in Topic.objects.all()}
    for topic, group in subscriptions():
        for carrier in carriers.get(topic, [""]):
            try:
                lag = bus.admin(carrier).lag(topic, group)
            except (GroupLost, Unavailable):
                # Being healed or restarted at this moment: certainly not settled.
                count += 1
                continue
            count += lag.dead + (1 if lag.unsettled is None else lag.unsettled)
    return count


def _undecided(doomed: Sequence[Poison]) -> set[str]:
    """Poison that has not died yet."""
    ids = {one.message_id for one in doomed}
    return ids - set(DeadLetter.objects.filter(message_id__in=ids).values_list("message_id", flat=True))
