"""How many may be at work at once: seats that are taken before the work and left after it, by all nodes together.

A seat is held for a few seconds and renewed while the work goes on, so that those of a process that was killed are free
again soon. Unlike a token it costs a round trip: it is for work that is dearer than that.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakValueDictionary

from engine.core.clock import Clock, SystemClock
from engine.core.error_text import text_of
from engine.core.errors import Unavailable
from engine.core.ids import new_span_id
from engine.quota.terms import OnLoss

#: How long a seat is held that nobody renews, and how often it is renewed, in seconds.
SEAT_S, RENEW_S = 10.0, 3.0
#: A store that did not answer is not asked again for so long, in seconds.
ASK_AGAIN_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SeatLink:
    """The seats of one rule, or those that one tenant has of it."""

    rule: str
    #: Whose they are, spelt; empty: all share them.
    owner: str
    limit: int
    on_loss: OnLoss = OnLoss.FALLBACK
    #: How many one node may take by itself while the store is away.
    alone: int = 1
    #: It refuses nothing.
    shadow: bool = False

    @property
    def bucket(self) -> str:
        return f"{self.rule}/{self.owner}"


class SeatPlane(Protocol):
    """Where seats are kept. Thread-safe; every method raises :class:`~engine.core.errors.Unavailable`."""

    def take(self, bucket: str, seat: str, limit: int) -> bool:
        """Hold ``seat`` for :data:`SEAT_S`, unless ``limit`` others do."""
        ...

    def keep(self, seats: Mapping[str, Sequence[str]]) -> None:
        """Hold these of each bucket for :data:`SEAT_S` more, whether they are still known or not."""
        ...

    def leave(self, bucket: str, seat: str) -> None:
        """Let it go; one that is not known is let go already."""
        ...


class Seated:
    """What one piece of work has taken. Thread-safe."""

    __slots__ = ("__weakref__", "_leave", "refused", "shadowed")

    def __init__(self, leave: Callable[[], None], refused: str = "", shadowed: bool = False) -> None:
        self._leave: Callable[[], None] | None = leave
        #: The rule that had no seat; empty: it sits.
        self.refused = refused
        #: Whether a rule that only counts had none.
        self.shadowed = shadowed

    @property
    def ok(self) -> bool:
        return not self.refused

    def leave(self) -> None:
        """The work is done. Once is enough; again does nothing."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()


#: Of work that no seats are for.
FREE = Seated(lambda: None)


class SeatKeeper:
    """The seats that one process holds. Thread-safe. Renews them in a thread of its own (:meth:`start`), or whoever
    owns it calls :meth:`renew`.

    While the store is away each rule goes on as it says: *open* seats everybody, *closed* nobody, *fallback* as many on
    each node as :attr:`SeatLink.alone`, those that sit already counted.
    """

    def __init__(self, node: str, plane: SeatPlane, *, clock: Clock | None = None) -> None:
        self._node = node
        self._plane = plane
        self._clock = clock or SystemClock()
        self._numbers = itertools.count()
        self._run_id = new_span_id()
        self._lock = threading.Lock()
        self._held: dict[str, set[str]] = {}
        #: Who sits, by the seat, as long as anybody has it: whoever was cancelled may have had no chance to leave.
        self._sitting: WeakValueDictionary[str, Seated] = WeakValueDictionary()
        self._ask_at = float("-inf")
        #: Whether it was said that the store is away.
        self._said = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def enter(self, links: Sequence[SeatLink]) -> Seated:
        """A seat of each of these, or none."""
        if not links:
            return FREE
        # By the process too: one that was started anew under the same name is another.
        seat = f"{self._node} {self._run_id} {next(self._numbers)}"
        taken: list[str] = []
        seated = Seated(lambda: self._leave(taken, seat))
        with self._lock:
            self._sitting[seat] = seated
        for link in links:
            if self._take(link, seat):
                taken.append(link.bucket)
            elif link.shadow:
                seated.shadowed = True
            else:
                seated.leave()
                return Seated(lambda: None, link.rule)
        return seated

    def renew(self) -> None:
        """Hold for longer what is held, and let go what nobody has any more. Raises :class:`Unavailable`."""
        with self._lock:
            # Its references are listed in one step; walked through, it may change with the last who has a seat.
            sitting = {each.key for each in self._sitting.valuerefs() if each() is not None}
            lost = [(bucket, seat) for bucket, seats in self._held.items() for seat in seats - sitting]
        for bucket, seat in lost:
            self._leave([bucket], seat)
        with self._lock:
            held = {bucket: sorted(seats) for bucket, seats in self._held.items() if seats}
        if held:
            self._plane.keep(held)
        for bucket, seats in held.items():
            with self._lock:
                left = set(seats) - self._held.get(bucket, set())
            # Who left meanwhile may have been seated again by that.
            for seat in left:
                self._plane.leave(bucket, seat)

    def start(self) -> None:
        """Renew from now on."""
        self._thread = threading.Thread(target=self._run, name="quota-seats", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Renew no more; whoever sits may leave still, and is forgotten by the store in :data:`SEAT_S` otherwise."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def held(self) -> Counter[str]:
        """How many seats of each bucket this process holds."""
        with self._lock:
            return Counter({bucket: len(seats) for bucket, seats in self._held.items() if seats})

    def _take(self, link: SeatLink, seat: str) -> bool:
        if self._clock.monotonic() >= self._ask_at:
            try:
                if not self._plane.take(link.bucket, seat, link.limit):
                    return False
            except Unavailable as error:
                self._went_away(error)
            else:
                self._said = False
                with self._lock:
                    self._held.setdefault(link.bucket, set()).add(seat)
                return True
        with self._lock:
            seats = self._held.setdefault(link.bucket, set())
            if link.on_loss is OnLoss.CLOSED or (link.on_loss is OnLoss.FALLBACK and len(seats) >= link.alone):
                return False
            seats.add(seat)
            return True

    def _leave(self, buckets: Sequence[str], seat: str) -> None:
        for bucket in buckets:
            with self._lock:
                seats = self._held.get(bucket, set())
                seats.discard(seat)
                if not seats:
                    self._held.pop(bucket, None)
            # A store that is away forgets it by itself.
            if self._clock.monotonic() >= self._ask_at:
                try:
                    self._plane.leave(bucket, seat)
                except Unavailable as error:
                    self._went_away(error)

    def _went_away(self, error: Unavailable) -> None:
        self._ask_at = self._clock.monotonic() + ASK_AGAIN_S
        if not self._said:
            self._said = True
            _log.warning("seats hold as their rules say, the store is away: %s", text_of(error))

    def _run(self) -> None:
        while not self._clock.wait(self._stop, RENEW_S):
            try:
                self.renew()
            except Unavailable as error:
                self._went_away(error)
            except Exception:  # noqa: BLE001 - a mistake of ours: seats that nobody renews are taken by others
                _log.exception("seats could not be renewed; it goes on")
