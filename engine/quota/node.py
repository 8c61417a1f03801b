"""One process among those that share limits: its limiters, what they want, and whether the control plane is there."""

from __future__ import annotations

import heapq
import logging
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from weakref import WeakValueDictionary

from engine.core.clock import Clock, SystemClock, jitter
from engine.core.error_text import text_of
from engine.core.errors import BadInput, Unavailable
from engine.quota.book import Book, read_book
from engine.quota.book_index import BookIndex
from engine.quota.common import CommonStandIns
from engine.quota.distributed import DistributedLimiter
from engine.quota.held import HeldLimiter, shared_rules
from engine.quota.limiter import LimiterStatus
from engine.quota.plane import ControlPlane, KeptBook
from engine.quota.protocol import Alloc, Answer, Want
from engine.quota.terms import Name, Terms

#: How often a node that hears nothing else looks whether there are newer rules, in seconds.
LOOK_S = 0.5
#: The first and the longest pause between two tries to reach a control plane that is away.
PROBE_S, PROBE_MOST_S = 0.1, 2.0
#: How often limiters are looked for that nobody uses, in seconds.
FORGET_S = 60.0
#: The most Wants of one round trip.
AT_ONCE = 200
#: A limiter that is closed gives back all it has within so many Wants: the one under way, and one of its own.
STOP_ROUNDS = 2

#: Later than any period ends.
_NEVER_MS = 2**62
_Key = tuple[str, str, str, bool]
_log = logging.getLogger(__name__)


class QuotaNode:
    """Makes limiters and carries their Wants. All methods are thread-safe.

    One thread of its own talks to the control plane (:meth:`start`); or whoever owns it calls :meth:`turn`. After a
    fork the child starts its own: nothing prepaid is shared, for the node's name must be another.
    """

    def __init__(
        self,
        node: str,
        plane: ControlPlane,
        *,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        book: Book | None = None,
        changed: Callable[[bool], None] = lambda away: None,
    ) -> None:
        """``book``: the rules as they are known otherwise, for a start while the control plane is away. ``changed`` is
        told when the control plane goes, and when it is back.
        """
        self.node = node
        self.away_since: float | None = None
        self.common = CommonStandIns()
        self._plane = plane
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()  # noqa: S311 - it spreads, and hides nothing
        self._changed = changed
        self._lock = threading.Lock()
        self._limiters: dict[_Key, DistributedLimiter] = {}
        #: In the order in which they called: one history has one course.
        self._called: dict[HeldLimiter, None] = {}
        self._timers: list[tuple[float, int, HeldLimiter]] = []
        self._number = 0
        self._index = None if book is None else BookIndex(book)
        #: Those that are kept by others alone, and what each of the rest had spent at the last look.
        self._idle: WeakValueDictionary[_Key, DistributedLimiter] = WeakValueDictionary()
        self._spent: dict[_Key, int] = {}
        self._forget_at = self._clock.monotonic() + FORGET_S
        #: When the first calendar period of any limiter ends.
        self._period_ends_ms = _NEVER_MS
        self._look_at = float("-inf")
        self._probe_at = float("-inf")
        self._pause_s = PROBE_S
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def limiter(self, service: str, resource: str, tenant: str, *, shadow: bool = False) -> DistributedLimiter:
        """The limiter of this name; the same object for the same name, until it is closed. While this node knows no
        rules it admits what :class:`~engine.quota.terms.Terms` without links do: everything. A ``shadow`` is held to
        the rules that only count, and to no others.

        Raises :class:`BadInput` for a name that no store could keep.
        """
        key = service, resource, tenant, shadow
        # Asked for each request: the lock, and a name's own hash and comparison, would cost more than the rest.
        if (known := self._limiters.get(key)) is not None and not known.closed:
            return known
        with self._lock:
            limiter = self._limiters.get(key) or self._idle.pop(key, None)
            if limiter is None or limiter.closed:
                name = Name(*key)
                terms = self._terms(name)
                self._period_ends_ms = min(self._period_ends_ms, _ends_ms(terms))
                limiter = DistributedLimiter(name, terms, self, self._clock, self._rng)
            self._limiters[key] = limiter
            return limiter

    def start(self) -> None:
        """Read the rules, and begin to carry Wants; no longer than one answer of the control plane takes."""
        self.turn()
        self._thread = threading.Thread(target=self._run, name="quota", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close all limiters and give back what was prepaid."""
        self._stopped.set()
        self._woken.set()
        if self._thread is not None:
            self._thread.join()
        limiters = self._all()
        for limiter in limiters:
            limiter.close()
        # What was under way is answered first, and may bring more.
        for _ in range(STOP_ROUNDS):
            self._carry(limiters, at_once=True)

    def call(self, limiter: HeldLimiter) -> None:
        with self._lock:
            self._called[limiter] = None
        self._woken.set()

    def statuses(self) -> list[tuple[Name, LimiterStatus]]:
        """How all its limiters stand."""
        return [(limiter.name, limiter.status()) for limiter in self._all()]

    @property
    def shadows(self) -> bool:
        """Whether any rule only counts."""
        return self._index is not None and self._index.shadows

    @property
    def book(self) -> Book | None:
        """The rules that its limiters are held to; ``None`` while it knows none."""
        return None if self._index is None else self._index.book

    @property
    def version(self) -> int:
        """The version of the rules that its limiters are held to; 0 while it knows none."""
        return 0 if self._index is None else self._index.book.version

    def turn(self) -> float:
        """Do all that is due; the seconds until there is more, if nobody calls."""
        now = self._clock.monotonic()
        self._woken.clear()
        if self.away_since is not None:
            if now >= self._probe_at:
                self._look(now)
        elif now >= self._look_at:
            self._look(now)
        self._carry(self._due(now))
        if now >= self._forget_at:
            self._forget_idle(now)
        now = self._clock.monotonic()
        looks_at = self._look_at if self.away_since is None else self._probe_at
        with self._lock:
            timer_at = self._timers[0][0] if self._timers else looks_at
        return max(0.0, min(looks_at, timer_at) - now)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                pause_s = self.turn()
            except Exception:  # noqa: BLE001 - a mistake of ours, or of who is told: limiters must not stand still for it
                _log.exception("a turn of the quota node broke; it goes on")
                pause_s = LOOK_S
            self._clock.wait(self._woken, pause_s)

    def _due(self, now: float) -> dict[HeldLimiter, None]:
        with self._lock:
            due, self._called = self._called, {}
            while self._timers and self._timers[0][0] <= now:
                due[heapq.heappop(self._timers)[2]] = None
        return due

    def _carry(self, limiters: Iterable[HeldLimiter], *, at_once: bool = False) -> None:
        """Ask what these want, and give them the answers."""
        now = self._clock.monotonic()
        asking = [(limiter, want) for limiter in limiters if (want := limiter.tick(now, at_once=at_once)) is not None]
        try:
            for start in range(0, len(asking), AT_ONCE):
                self._ask(asking[start : start + AT_ONCE])
        finally:
            # Whatever broke, each of them is come back to.
            for limiter, _ in asking:
                limiter.lost_if_in_air(self._clock.monotonic())
            self._set_timers(limiters)

    def _set_timers(self, limiters: Iterable[HeldLimiter]) -> None:
        now = self._clock.monotonic()
        # A limiter calls us under its lock, so that we must not call it under ours.
        timers = [(at, limiter) for limiter in limiters if (at := limiter.next_at(now)) is not None]
        with self._lock:
            for at, limiter in timers:
                self._number += 1
                heapq.heappush(self._timers, (at, self._number, limiter))

    def _ask(self, asking: list[tuple[HeldLimiter, Want]]) -> None:
        answers: list[Alloc] = []
        if self.away_since is None:
            try:
                answers = self._plane.want([want for _, want in asking])
            except Unavailable as error:
                self._went_away(error)
        now = self._clock.monotonic()
        for (limiter, _), answer in zip(asking, answers, strict=False):
            limiter.told(answer, now)
        for limiter, _ in asking[len(answers) :]:
            limiter.lost(now)
        if any(answer.version > self.version for answer in answers):
            self._look_at = now
        elif any(answer.version < self.version for answer in answers):
            self._restore()

    def _look(self, now: float) -> None:
        """Whether the control plane is there, and whether it has newer rules."""
        try:
            version = self._plane.version()
            if version > self.version:
                self._adopt(self._plane.book())
            elif version < self.version:
                self._restore()
        except Unavailable as error:
            self._went_away(error)
            return
        self._look_at = now + LOOK_S * jitter(self._rng)
        if self.away_since is not None:
            if not self._takes_a_want(now):
                return
            self.away_since, self._pause_s = None, PROBE_S
            _log.info("The quota control plane answers again.")
            self._changed(False)
            self._call_all()
        elif self._clock.now_ms() >= self._period_ends_ms:
            # Another day has begun.
            self._give_terms()

    def _takes_a_want(self, now: float) -> bool:
        """Whether the control plane writes as well as it reads; where nobody wants anything, that it reads."""
        for limiter in self._all():
            if not limiter.limited or (want := limiter.tick(now, probing=True)) is None:
                continue
            try:
                (answer,) = self._plane.want([want])
                limiter.told(answer, self._clock.monotonic())
            except Unavailable as error:
                self._went_away(error)
                return False
            finally:
                limiter.lost_if_in_air(self._clock.monotonic())
            # Of a rule that it does not know it has written nothing.
            if answer.answer is Answer.GRANTED:
                return True
        return True

    def _went_away(self, error: Unavailable) -> None:
        now = self._clock.monotonic()
        if self.away_since is None:
            self.common.begin(self._told_alone(), now)
            self.away_since = now
            _log.warning("The quota control plane is away, limits hold as their rules say: %s", text_of(error))
            self._changed(True)
            self._call_all()
        # Half open: one look at a time, and each node at its own moment.
        self._probe_at = now + self._pause_s * jitter(self._rng)
        self._pause_s = min(PROBE_MOST_S, self._pause_s * 1.5)

    def _told_alone(self) -> dict[str, tuple[float, int]]:
        """What its limiters may spend alone of each shared rule, together, and how many of them were told."""
        found: dict[str, tuple[float, int]] = {}
        for limiter in self._all():
            if (rate := limiter.told_alone) is None:
                continue
            for rule in shared_rules(limiter.terms):
                known, count = found.get(rule, (0.0, 0))
                found[rule] = known + rate, count + 1
        return found

    def _adopt(self, kept: KeptBook | None) -> None:
        if kept is None or kept.version <= self.version:
            # What was newer a moment ago may have been lost since, and older rules put in its place.
            return
        try:
            index, now_ms = BookIndex(read_book(kept)), self._clock.now_ms()
            # Whatever is wrong with it is found before anything goes by it.
            found = [(limiter, index.resolve(limiter.name, now_ms)) for limiter in self._all()]
        except BadInput as error:
            # What is in force here stays so; it is looked at again when there is another version.
            _log.error("%s", text_of(error))
            return
        self._index = index
        # One that was made meanwhile may have been by the rules before.
        known = {limiter for limiter, _ in found}
        found += [(each, index.resolve(each.name, now_ms)) for each in self._all() if each not in known]
        self._give(found)

    def _restore(self) -> None:
        """The control plane has lost the rules: each node has them. It takes none that are older than what it knows."""
        if self._index is None:
            return
        try:
            self._plane.keep_rules(*self._index.book.kept())
        except Unavailable as error:
            self._went_away(error)
            return
        for limiter in self._all():
            limiter.try_again()

    def _give_terms(self) -> None:
        self._give([(limiter, self._terms(limiter.name)) for limiter in self._all()])

    def _give(self, found: Sequence[tuple[DistributedLimiter, Terms]]) -> None:
        self._period_ends_ms = min((_ends_ms(terms) for _, terms in found), default=_NEVER_MS)
        for limiter, terms in found:
            limiter.adopt(terms)

    def _forget_idle(self, now: float) -> None:
        """Those that spent nothing since the last look and hold nothing are kept only by whoever else has them: tenants
        come once, and their limiters would stay for ever.
        """
        self._forget_at = now + FORGET_S
        for key, limiter in list(self._limiters.items()):
            spent = limiter.spent
            if limiter.idle and self._spent.get(key) == spent:
                with self._lock:
                    self._idle[key] = self._limiters.pop(key)
                self._spent.pop(key, None)
            else:
                self._spent[key] = spent

    def _call_all(self) -> None:
        with self._lock:
            self._called.update(dict.fromkeys(self._limiters.values()))
        self._woken.set()

    def _all(self) -> list[DistributedLimiter]:
        with self._lock:
            return [*self._limiters.values(), *self._idle.values()]

    def _terms(self, name: Name) -> Terms:
        return Terms() if self._index is None else self._index.resolve(name, self._clock.now_ms())


def _ends_ms(terms: Terms) -> int:
    """When its calendar periods end, the first of them."""
    return min((link.ends_ms for link in terms.chain if link.ends_ms), default=_NEVER_MS)
