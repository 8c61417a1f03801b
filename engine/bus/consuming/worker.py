"""The handler threads: one delivery at a time, and nothing a handler raises can stop them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from engine.bus import context as contexts
from engine.bus.consuming.breaker import Breaker
from engine.bus.consuming.feed import Feed
from engine.bus.consuming.in_flight import InFlight, InFlightTable
from engine.bus.consuming.keyed_dispatcher import KeyedDispatcher
from engine.bus.consuming.prefetch import Prefetch
from engine.bus.consuming.retry_decider import RetryDecider
from engine.bus.consuming.settler import Finished, Settler
from engine.bus.context import Context
from engine.bus.errors import HandlerHung, MalformedEnvelope, Unrecoverable
from engine.bus.inbox import Inbox
from engine.bus.message import Message, decode
from engine.bus.policy import SubscriptionPolicy
from engine.bus.transport import Verdict
from engine.core.clock import Clock

#: How many attempts beyond the policy's last a message is given when its consumers died under it: a deployment or a
#: crash is not its fault, but a message that kills every consumer must not go round for ever.
LAPSES_FORGIVEN = 3

#: What handles a message: returning settles it, raising fails the attempt.
Handler = Callable[[Message, Context], object]

_log = logging.getLogger(__name__)


class Worker:
    """One handler thread's loop; ``running`` is what it has now."""

    def __init__(
        self,
        *,
        policy: SubscriptionPolicy,
        handler: Handler,
        inbox: Inbox | None,
        decider: RetryDecider,
        feed: Feed,
        in_flight: InFlightTable,
        settler: Settler,
        prefetch: Prefetch,
        clock: Clock,
        freed: Callable[[], None],
        dispatcher: KeyedDispatcher | None = None,
        breaker: Breaker | None = None,
    ) -> None:
        self._policy = policy
        # What every message needs, one step away.
        self._topic, self._group, self._lease_s = policy.topic, policy.group, policy.lease_s
        self._last_attempt = policy.retry.max_attempts + LAPSES_FORGIVEN
        self._handler = handler
        self._inbox = inbox
        self._decider = decider
        self._feed = feed
        self._in_flight = in_flight
        self._settler = settler
        self._prefetch = prefetch
        self._clock = clock
        self._freed = freed
        self._dispatcher = dispatcher
        self._breaker = breaker
        #: Decides between a handler's return and its being given up; needed only where there is a limit.
        self._end = threading.Lock() if policy.max_handler_s else None
        self._given_up = False
        #: What the handler has that runs in this thread, even if it was given up.
        self.at_work: InFlight | None = None
        self.running: InFlight | None = None
        #: Monotonic seconds at which the handler was last called.
        self.begun = 0.0

    def run(self) -> None:
        """The worker thread; ends when the feed is closed."""
        take, freed = self._feed.take, self._freed
        while True:
            held = take()
            if held is None:
                return
            self.running = held
            try:
                kept = self._handle(held)
            finally:
                self.running = None
            if self._given_up:
                # Another thread has taken this one's place.
                return
            if not kept:
                self._feed.done(held)
            freed()

    def _handle(self, held: InFlight) -> bool:
        """Handle one delivery; ``True`` when the feed keeps it for another attempt."""
        clock = self._clock
        begun = clock.monotonic()
        if held.lost or begun - held.leased_at >= self._lease_s:
            # It may be with another consumer by now: starting it would run it twice at once.
            self._in_flight.drop(held)
            held.lose()
            self._settler.say(held, "lease_lost", at_ms=clock.now_ms(), detail="the lease ran out before its turn")
            return self._let_go(held)
        begun_ms = clock.now_ms()
        try:
            message = held.message
            if message is None:
                message = held.message = decode(held.delivery.body)
            if message.hbustarget and message.hbustarget != self._group:
                # A redriven copy for one subscription: to this one nothing has happened, so no fact says anything.
                return self._settle_unhandled(held, "", begun_ms)
            if message.expirytime and (message.expires_ms() or 0) <= begun_ms:
                return self._settle_unhandled(held, "expired", begun_ms, f"expired at {message.expirytime}")
            if held.attempt > self._last_attempt:
                raise Unrecoverable(f"every consumer that had it vanished; its lease ran out {len(held.history)} times")
        except (MalformedEnvelope, Unrecoverable) as error:
            return self._fail(held, error, begun_ms, 0)
        except ValueError as error:
            return self._fail(held, MalformedEnvelope(f"expirytime: {error}", field="expirytime"), begun_ms, 0)
        return self._attempt(held, message, begun, begun_ms)

    def _settle_unhandled(self, held: InFlight, kind: str, at_ms: int, detail: str = "") -> bool:
        self._settler.add(Finished(held, kind, at_ms, detail=detail))
        return False

    def _attempt(self, held: InFlight, message: Message, begun: float, begun_ms: int) -> bool:
        clock = self._clock
        context = Context(message, self._topic, self._group, held.attempt, begun_ms)
        held.context = context
        self.begun = begun
        self.at_work = held
        kind = "settled"
        failure: BaseException | None = None
        token = contexts.enter(context)
        try:
            if self._inbox is None:
                self._handler(message, context)
            elif not self._once(self._inbox, message, context):
                kind = "deduplicated"
        except BaseException as error:  # noqa: BLE001
            # Foreign code: whatever it raises, also SystemExit, is a failed attempt and never the end of this thread.
            failure = error
        finally:
            contexts.leave(token)
            self.at_work = None
        duration_s = clock.monotonic() - begun
        if self._end is not None and not self._ended(held, context, duration_s):
            return True
        self._prefetch.observe(duration_s)
        if failure is not None:
            return self._failed(held, failure, begun_ms, int(duration_s * 1e6))
        if self._breaker is not None:
            self._breaker.worked(held)
        self._settler.add(Finished(held, kind, begun_ms + int(duration_s * 1e3), int(duration_s * 1e6)))
        return False

    def give_up(self, ran_s: float) -> bool:
        """Fail the attempt whose handler does not return, from another thread; ``False`` when it just has.

        The handler learns of it by ``context.lease_lost``; what it still does is its own, and this thread ends with it.
        """
        held = self.at_work
        if held is None or self._end is None:
            return False
        with self._end:
            if self.at_work is not held or self._given_up:
                return False
            self._given_up = True
        if held.context is not None:
            held.context.lease_lost = True
        self.running = None
        error = HandlerHung(f"the handler did not return within {self._policy.max_handler_s:g} s and was given up")
        kept = self._failed(held, error, self._clock.now_ms() - int(ran_s * 1e3), int(ran_s * 1e6))
        if not kept:
            self._feed.done(held)
        self._freed()
        return True

    def _ended(self, held: InFlight, context: Context, duration_s: float) -> bool:
        """Whether the attempt is still this thread's to decide."""
        assert self._end is not None
        with self._end:
            if not self._given_up:
                return True
        said = f"attempt {context.attempt} was given up; its handler returned after {duration_s:.1f} s"
        self._settler.say(held, "lease_lost", at_ms=self._clock.now_ms(), detail=said)
        return False

    def _failed(self, held: InFlight, error: BaseException, begun_ms: int, duration_us: int) -> bool:
        """An attempt of the handler failed: judge it, and let the breaker know."""
        kept = self._fail(held, error, begun_ms, duration_us)
        if self._breaker is not None:
            # Last: it may withdraw what waits, this one included.
            self._breaker.failed(held, error)
        return kept

    def _once(self, inbox: Inbox, message: Message, context: Context) -> bool:
        return inbox.once(
            f"{self._policy.topic}/{self._policy.group}",
            message.source,
            message.id,
            lambda: self._effect(message, context),
        )

    def _effect(self, message: Message, context: Context) -> None:
        self._handler(message, context)

    def _fail(self, held: InFlight, error: BaseException, begun_ms: int, duration_us: int) -> bool:
        if held.lost:
            # Another consumer has it: what becomes of it is decided there.
            self._in_flight.drop(held)
            self._settler.say(
                held, "lease_lost", at_ms=self._clock.now_ms(), detail=f"the attempt had failed: {error}"[:500]
            )
            return self._let_go(held)
        decision = self._decider.decide(error, held.attempt, held.history, begun_ms=begun_ms, duration_us=duration_us)
        after_ms = round(decision.after_s * 1000)
        finished = Finished(
            held,
            "dead" if decision.verdict is Verdict.DEAD else "retried",
            begun_ms + duration_us // 1000,
            duration_us,
            decision.verdict,
            after_ms,
            decision.attempt,
            decision.dead,
            decision.error,
            decision.fingerprint,
        )
        _log.log(
            logging.ERROR if decision.verdict is Verdict.DEAD else logging.WARNING,
            "%s/%s attempt %d of message %s failed: %s",
            self._policy.topic,
            self._policy.group,
            held.attempt,
            held.message.id if held.message else held.delivery.position,
            decision.error,
        )
        if decision.verdict is Verdict.DEAD and self._parks(held):
            return self._park(held, finished)
        if decision.verdict is Verdict.RETRY:
            held.context = None
            number, history = held.attempt, held.history
            held.attempt, held.history = number + 1, (*history, decision.attempt)
            if self._feed.retry(held, decision.after_s):
                self._settler.say_retry(finished)
                return True
            held.attempt, held.history = number, history
        self._settler.add(finished)
        return False

    def _parks(self, held: InFlight) -> bool:
        return self._policy.on_failed_head == "park" and self._dispatcher is not None and bool(held.key)

    def _park(self, held: InFlight, finished: Finished) -> bool:
        """Set the whole key aside instead of burying its head."""
        assert self._dispatcher is not None
        followers = self._dispatcher.park(held)
        finished.verdict, finished.kind = Verdict.PARK, "parked"
        # The head first: what follows it is set aside only with a key that is parked.
        self._settler.add(finished)
        self._dispatcher.put_aside(followers)
        return True

    def _let_go(self, held: InFlight) -> bool:
        if self._dispatcher is None or not held.key:
            return False
        self._dispatcher.let_go(held)
        return True
