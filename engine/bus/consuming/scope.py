"""What the parts of one consumer share: whose deliveries it handles and how, its store's health, its threads."""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable

from engine.bus.consuming.dispatch import Dispatcher, InFlightTable
from engine.bus.facts import BusFields
from engine.bus.policy import SubscriptionPolicy
from engine.bus.subjects import subscription_subject
from engine.bus.transport import Admin, Receiver
from engine.core.clock import Clock, jitter
from engine.core.error_text import storable, text_of, words_of
from engine.core.errors import OutOfConnections
from engine.core.facts import Emitter, FactBatch

#: Seconds before the first repetition, and at most between two.
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 5.0
#: Seconds before a loop that broke is started again.
RESTART_S = 1.0
#: Seconds within which a consumer says once that it has no connection left: a peak comes and goes.
SHORT_SAID_S = 60.0
#: A loop that breaks twice within this time is shown as failing, in seconds.
FAILING_S = 60.0

_log = logging.getLogger(__name__)


class ConsumerScope:
    """What travels together from the consumer to each of its parts. Made once, before its threads; then only read."""

    def __init__(
        self,
        policy: SubscriptionPolicy,
        *,
        name: str,
        receiver: Receiver,
        admin: Admin,
        dispatcher: Dispatcher,
        facts: Emitter,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self.policy = policy
        self.topic, self.group = policy.topic, policy.group
        #: What evidence calls the subscription.
        self.subject = subscription_subject(policy.topic, policy.group)
        #: The consumer's.
        self.name = name
        self.receiver = receiver
        self.admin = admin
        self.dispatcher = dispatcher
        self.facts = facts
        self.clock = clock
        self.rng = rng
        self.in_flight = InFlightTable()
        self.health = StoreHealth(self)
        #: Set when nothing more is read.
        self.stop = threading.Event()
        #: Set when leases and partitions are kept no longer.
        self.over = threading.Event()

    def __str__(self) -> str:
        return f"{self.topic}/{self.group}"

    def say(self, kind: str, *, position: str = "", error: str = "", detail: str = "", size: int = 0) -> None:
        """Emit a fact about the subscription here; one about a delivery is the settler's."""
        fields = BusFields(position=position, error=storable(error, 500), size=size)
        self.facts.emit([FactBatch(kind, self.clock.now_ms(), self.subject, self.name, detail=detail, fields=fields)])

    def backoff(self) -> Backoff:
        """Pauses for one thread that asks the store."""
        return Backoff(self.rng)

    def thread(self, duty: str, loop: Callable[[], None], *, drains: bool = False) -> RestartingThread:
        """A thread for ``loop``, not started; one that ``drains`` is needed for as long as anything is in hand."""
        return RestartingThread(
            f"hbus-{self}-{duty}",
            loop,
            stop=self.stop,
            over=self.over if drains else self.stop,
            clock=self.clock,
            report=self.health.trouble,
        )


class StoreHealth:
    """Whether the store answers: said once when it stops and once when it is back. Thread-safe."""

    def __init__(self, scope: ConsumerScope) -> None:
        self._scope = scope
        self._lock = threading.Lock()
        self.lost = False
        #: Whether the last question found no connection left; the store may be well.
        self.short = False
        #: When that was said last, monotonic seconds.
        self._short_said = float("-inf")
        #: The last trouble of any kind, for the status; kept until the next.
        self.last_error = ""
        self.last_error_ms = 0
        #: When the store was back after it was lost.
        self.recovered_ms = 0

    def trouble(self, error: BaseException | str) -> None:
        """Remember what went wrong."""
        self.last_error_ms = self._scope.clock.now_ms()
        self.last_error = error if isinstance(error, str) else text_of(error)

    def away(self, error: Exception) -> None:
        """The store did not answer, or could not be asked."""
        self.trouble(error)
        if isinstance(error, OutOfConnections):
            self._out_of_connections(error)
            return
        with self._lock:
            if self.lost:
                return
            self.lost = True
        said = words_of(error)
        _log.error("consumer %s of %s lost its store: %s", self._scope.name, self._scope, said)
        self._scope.say("store_lost", error=said)

    def _out_of_connections(self, error: OutOfConnections) -> None:
        now = self._scope.clock.monotonic()
        with self._lock:
            self.short = True
            if now - self._short_said < SHORT_SAID_S:
                return
            self._short_said = now
        said = words_of(error)
        _log.error("consumer %s of %s has no connection left: %s", self._scope.name, self._scope, said)
        self._scope.say("out_of_connections", error=said)

    def answered(self) -> None:
        """The store answered. Costs nothing while all is well."""
        if not (self.lost or self.short):
            return
        with self._lock:
            if not (self.lost or self.short):
                return
            was_lost, self.lost, self.short = self.lost, False, False
        self.recovered_ms = self._scope.clock.now_ms()
        if not was_lost:
            return
        _log.warning("consumer %s of %s has its store back", self._scope.name, self._scope)
        self._scope.say("store_back")


class Backoff:
    """Growing pauses with jitter between two tries of a call to the store. Used by one thread."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._tries = 0

    def next_s(self) -> float:
        """The next pause in seconds."""
        pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2.0**self._tries)
        self._tries = min(self._tries + 1, 16)
        return pause_s * jitter(self._rng)

    def reset(self) -> None:
        """Start again with the shortest pause."""
        self._tries = 0


class RestartingThread:
    """Runs ``loop`` until it returns. If it raises, that is logged and reported, and it is started again after a
    second, unless ``over`` is set. Once ``stop`` is, it may return."""

    def __init__(
        self,
        name: str,
        loop: Callable[[], None],
        *,
        stop: threading.Event,
        over: threading.Event,
        clock: Clock,
        report: Callable[[BaseException], None],
    ) -> None:
        self.name = name
        self.ended = threading.Event()
        self._loop = loop
        self._stop = stop
        self._over = over
        self._clock = clock
        self._report = report
        #: When it broke last, and before; monotonic seconds.
        self._broke: deque[float] = deque(maxlen=2)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def ident(self) -> int | None:
        """The interpreter's number of the thread, once it runs."""
        return self._thread.ident

    @property
    def alive(self) -> bool:
        return self._thread.is_alive()

    @property
    def died(self) -> bool:
        """Gone without having been asked to."""
        return self._thread.ident is not None and not self._thread.is_alive() and not self._stop.is_set()

    def failing(self, now: float) -> bool:
        """Whether it breaks again and again."""
        broke = tuple(self._broke)
        return len(broke) == 2 and now - broke[0] <= FAILING_S

    def _run(self) -> None:
        try:
            while True:
                try:
                    self._loop()
                    return
                except BaseException as error:  # noqa: BLE001
                    # Nothing may end a duty of a consumer silently, not even a SystemExit.
                    _log.exception("%s broke and is started again", self.name)
                    self._broke.append(self._clock.monotonic())
                    self._report(error)
                    if self._clock.wait(self._over, RESTART_S):
                        return
        finally:
            self.ended.set()
