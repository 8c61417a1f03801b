"""One process among those that share limits: its limiters, what they want, and whether the control plane is there."""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import os
import random
import threading
from collections.abc import Callable, Iterable
from weakref import WeakSet, WeakValueDictionary

from engine.core.clock import Clock, SystemClock, jitter
from engine.core.error_text import text_of
from engine.core.errors import BadInput, Unavailable
from engine.core.ids import new_id
from engine.quota.book import Book, read_book
from engine.quota.distributed import DistributedLimiter
from engine.quota.held import IDLE_S, HeldLimiter
from engine.quota.limiter import LimiterStatus
from engine.quota.periods import Period
from engine.quota.plane import ControlPlane, KeptBook
from engine.quota.protocol import Alloc, Answer, Want
from engine.quota.standin import StandIns
from engine.quota.terms import Name, Terms

#: How often a node that hears nothing else looks whether there are newer rules, in seconds.
LOOK_S = 0.5
#: One that hears of newer rules looks no sooner after the last time, in seconds: they may change by the hundred.
HURRY_S = 0.25
#: How often it is said that the control plane cannot read its own, in seconds.
TELL_BROKEN_S = 60.0
#: The first and the longest pause between two tries to reach a control plane that is away.
PROBE_S, PROBE_MOST_S = 0.1, 2.0
#: The most Wants of one round trip.
AT_ONCE = 200
#: A limiter that is closed gives back all it has within so many Wants: the one under way, and one of its own.
STOP_ROUNDS = 2

_log = logging.getLogger(__name__)
#: Of this process, for a child that it forks.
_nodes: WeakSet[QuotaNode] = WeakSet()
#: The parts of a limiter's name.
_Key = tuple[str, str, str, bool]


class QuotaNode:
    """Makes limiters and carries their Wants. All methods are thread-safe.

    One thread of its own talks to the control plane (:meth:`start`); or whoever owns it calls :meth:`turn`. In a forked
    child it is another node, called ``NAME~PID``, which has nothing prepaid, and whose thread starts with the first who
    comes to a limiter. The clients of its control plane must bear a fork, as those of redis-py do.

    A limiter that nobody comes to for ten seconds gives back what it holds and is forgotten, but by who keeps it.
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
        told when the control plane goes, and when it is back. Raises :class:`BadInput` for a name that no store could
        keep.
        """
        if not node.isprintable():
            raise BadInput(f"{node!a} can be no name of a node.", remedy="Use printable characters.", field="node")
        self._name = node
        self._plane = plane
        self._clock = clock or SystemClock()
        self._rng = rng or random.Random()  # noqa: S311 - it spreads, and hides nothing
        self._changed = changed
        self._limiters: dict[_Key, DistributedLimiter] = {}
        #: Those that were forgotten, while somebody keeps them: there are never two of one name.
        self._dozing: WeakValueDictionary[_Key, DistributedLimiter] = WeakValueDictionary()
        self._go_by(book)
        self._begin(node)
        _nodes.add(self)

    def _begin(self, node: str) -> None:
        """A life, in which nothing was said yet."""
        self.node = node
        self.life = new_id(self._clock.now_ms())
        self.alone = StandIns()
        self.away_since: float | None = None
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        #: In the order in which they called: one history has one course.
        self._called: dict[HeldLimiter, None] = {}
        self._timers: list[tuple[float, int, HeldLimiter]] = []
        self._timer = 0
        #: The calendar periods that its limiters count in began before, and end after; epoch milliseconds.
        self._periods_ms = (-math.inf, math.inf)
        self._looked_at = self._look_at = self._probe_at = self._sweep_at = self._tell_broken_at = -math.inf
        self._pause_s = PROBE_S
        self._woken = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        #: Whether its thread is to start with the next who comes.
        self._starts = False

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
            limiter = self._limiters.get(key)
            if limiter is None or limiter.closed:
                limiter = self._dozing.get(key)
                if limiter is None or limiter.closed:
                    limiter = self._made(Name(*key))
                self._limiters[key] = limiter
        self._start_again()
        return limiter

    def start(self) -> None:
        """Read the rules, and begin to carry Wants; no longer than one answer of the control plane takes."""
        self.turn()
        self._start_thread()

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

    def wake(self, limiter: HeldLimiter) -> Terms:
        with self._lock:
            # Under the lock: a book that is adopted from here on is given to it.
            terms = self._terms(limiter.name)
            self._mind_periods(terms)
            if isinstance(limiter, DistributedLimiter):
                self._limiters[_key(limiter.name)] = limiter
        self._start_again()
        return terms

    def number(self) -> int:
        return next(self._numbers)

    def statuses(self) -> list[tuple[Name, LimiterStatus]]:
        """How all its limiters stand."""
        return [(limiter.name, limiter.status()) for limiter in self._all()]

    @property
    def version(self) -> int:
        """The version of the rules that its limiters are held to; 0 while it knows none."""
        return 0 if self.book is None else self.book.version

    def turn(self) -> float:
        """Do all that is due; the seconds until there is more, if nobody calls."""
        now = self._clock.monotonic()
        self._woken.clear()
        if self.away_since is not None:
            if now >= self._probe_at:
                self._look(now)
        elif now >= self._look_at:
            self._look(now)
        if now >= self._sweep_at:
            self._sweep(now)
        self._carry(self._due(now))
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
                self._timer += 1
                heapq.heappush(self._timers, (at, self._timer, limiter))

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
        broken = [want for (_, want), answer in zip(asking, answers, strict=False) if answer.answer is Answer.BROKEN]
        if broken and now >= self._tell_broken_at:
            self._tell_broken_at = now + TELL_BROKEN_S
            _log.error("The control plane cannot read what it keeps for %s: delete its keys.", broken[0].limiter)
        versions = [answer.version for answer in answers if answer.answer is not Answer.BROKEN]
        if any(version > self.version for version in versions):
            self._look_at = min(self._look_at, max(now, self._looked_at + HURRY_S))
        elif any(version < self.version for version in versions):
            self._restore()

    def _look(self, now: float) -> None:
        """Whether the control plane is there, and whether it has newer rules."""
        self._looked_at = now
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
        elif not self._periods_ms[0] <= self._clock.now_ms() < self._periods_ms[1]:
            # Another day has begun.
            self._give_terms(self._all())

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
            self.away_since = now
            _log.warning("The quota control plane is away, limits hold as their rules say: %s", text_of(error))
            self._changed(True)
            self._call_all()
        # Half open: one look at a time, and each node at its own moment.
        self._probe_at = now + self._pause_s * jitter(self._rng)
        self._pause_s = min(PROBE_MOST_S, self._pause_s * 1.5)

    def _adopt(self, kept: KeptBook | None) -> None:
        if kept is None or kept.version <= self.version:
            # What was newer a moment ago may have been lost since, and older rules put in its place.
            return
        try:
            book = read_book(kept)
        except BadInput as error:
            # What is in force here stays so; it is looked at again when there is another version.
            _log.error("%s", text_of(error))
            return
        old = self.book
        self._go_by(book)
        changes = (lambda name: True) if old is None else book.changes_since(old)
        self._give_terms([limiter for limiter in self._all() if changes(limiter.name)])

    def _go_by(self, book: Book | None) -> None:
        #: The rules that its limiters are held to; ``None`` while it knows none. As the next two it is not to be set
        #: from elsewhere: they are attributes because they are read with each request.
        self.book = book
        #: Whether any rule only counts, and whether any is of seats.
        self.shadows = book is not None and any(rule.shadow for rule in book.rules)
        self.seats = book is not None and any(rule.period is Period.AT_ONCE for rule in book.rules)

    def _restore(self) -> None:
        """The control plane has lost the rules: each node has them. It takes none that are older than what it knows."""
        if self.book is None:
            return
        try:
            self._plane.keep_rules(*self.book.kept())
        except Unavailable as error:
            self._went_away(error)
            return
        for limiter in self._all():
            limiter.try_again()

    def _give_terms(self, limiters: Iterable[DistributedLimiter]) -> None:
        """What these are held to now. Periods are found again by all that count in some."""
        for limiter in limiters:
            limiter.adopt(self._terms(limiter.name))
        with self._lock:
            self._periods_ms = (-math.inf, math.inf)
            for limiter in self._limiters.values():
                self._mind_periods(limiter.terms)

    def _mind_periods(self, terms: Terms) -> None:
        for link in terms.chain:
            if link.ends_ms:
                began_ms, ends_ms = self._periods_ms
                self._periods_ms = max(began_ms, link.began_ms), min(ends_ms, link.ends_ms)

    def _sweep(self, now: float) -> None:
        """Forget the limiters that nobody comes to, so that who came once takes no room for ever."""
        self._sweep_at = now + IDLE_S
        for limiter in self._all():
            if limiter.doze(now):
                with self._lock:
                    key = _key(limiter.name)
                    # Whoever came meanwhile has woken it, or has another of its name, for it was closed.
                    if limiter.dozes and self._limiters.get(key) is limiter:
                        del self._limiters[key]
                        self._dozing[key] = limiter
        used = {(link.rule, link.owner) for limiter in self._all() for link in limiter.terms.chain}
        self.alone.prune(used, now)

    def _made(self, name: Name) -> DistributedLimiter:
        terms = self._terms(name)
        self._mind_periods(terms)
        return DistributedLimiter(name, terms, self, self._clock, self._rng)

    def _start_thread(self) -> None:
        self._thread = threading.Thread(target=self._run, name="quota", daemon=True)
        self._thread.start()

    def _start_again(self) -> None:
        """In a forked child, with the first who comes."""
        if self._starts:
            with self._lock:
                starts, self._starts = self._starts, False
            if starts:
                self._start_thread()

    def _is_child(self) -> None:
        """This process was forked: nothing that was prepaid is its own, and no thread of the parent's is here."""
        runs = self._starts or (self._thread is not None and not self._stopped.is_set())
        limiters = {**self._dozing, **self._limiters}
        self._limiters, self._dozing = {}, WeakValueDictionary(limiters)
        self._begin(f"{self._name}~{os.getpid()}")
        self._starts = runs
        for limiter in limiters.values():
            limiter.forget_parent()

    def _call_all(self) -> None:
        with self._lock:
            self._called.update(dict.fromkeys(self._limiters.values()))
        self._woken.set()

    def _all(self) -> list[DistributedLimiter]:
        with self._lock:
            return list(self._limiters.values())

    def _terms(self, name: Name) -> Terms:
        return Terms() if self.book is None else self.book.resolve(name, self._clock.now_ms())


def _key(name: Name) -> _Key:
    return name.service, name.resource, name.tenant, name.shadow


def _forked() -> None:
    for node in list(_nodes):
        node._is_child()


os.register_at_fork(after_in_child=_forked)
