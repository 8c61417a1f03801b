"""The handler threads: one delivery each at a time, and nothing that a handler raises, or hangs in, can stop them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from engine.bus import context as contexts
from engine.bus.consuming.attempts import Attempts
from engine.bus.consuming.breaker import Breaker
from engine.bus.consuming.dispatch import InFlight
from engine.bus.consuming.reader import Reader
from engine.bus.consuming.scope import Backoff, ConsumerScope, RestartingThread
from engine.bus.consuming.settler import Finished, Settler
from engine.bus.context import Context
from engine.bus.dead import RetryDecider
from engine.bus.errors import HandlerHung, InboxAway, MalformedEnvelope, Unrecoverable
from engine.bus.inbox import Inbox
from engine.bus.message import LONGEST, Message, decode
from engine.bus.transport import Attempt, Verdict
from engine.core.error_text import text_of, words_of

#: What handles a message: returning settles it, raising fails the attempt.
Handler = Callable[[Message, Context], object]
#: What a handler was given, and when (monotonic seconds): read at once, never of two calls.
HandlerCall = tuple[InFlight, float]

_log = logging.getLogger(__name__)


class Worker:
    """One handler thread's loop; ``running`` is what it has now."""

    def __init__(
        self,
        scope: ConsumerScope,
        handler: Handler,
        *,
        inbox: Inbox | None,
        attempts: Attempts,
        decider: RetryDecider,
        settler: Settler,
        reader: Reader,
        breaker: Breaker | None,
    ) -> None:
        self._scope = scope
        self._handler = handler
        self._inbox = inbox
        self._decider = decider
        self._settler = settler
        self._breaker = breaker
        # What every message needs, one step away.
        self._clock, self._dispatcher = scope.clock, scope.dispatcher
        self._reader, self._prefetch = reader, reader.prefetch
        self._topic, self._group, self._lease_s = scope.topic, scope.group, scope.policy.lease_s
        self._attempts, self._last_attempt, self._ordered = attempts, attempts.last, attempts.ordered
        #: Decides between a handler's return and its being given up; needed only where there is a limit.
        self._end = threading.Lock() if scope.policy.max_handler_s else None
        self._given_up = False
        #: The call of the handler under way in this thread, even if it was given up.
        self.call: HandlerCall | None = None
        self.running: InFlight | None = None

    def run(self) -> None:
        """The worker thread; ends when the dispatcher tells it to."""
        take, handle, done, reader = self._dispatcher.take, self._handle, self._dispatcher.done, self._reader
        while True:
            held = take()
            if held is None:
                return
            self.running = held
            try:
                kept = handle(held)
            except BaseException as error:  # noqa: BLE001
                kept = self._decided(held, error)
            finally:
                self.running = None
            if self._given_up:
                # Another thread has taken this one's place.
                return
            if not kept:
                done(held)
            if reader.hungry:
                reader.freed()

    def _decided(self, held: InFlight, cause: BaseException) -> bool:
        """Deciding about it broke by ``cause``: the attempt failed; if not even that can be said, it comes again."""
        # A delivery that nobody decides about would be held for ever: its lease is renewed while it is in flight.
        self._broke(held, cause, "it counts as a failed attempt")
        try:
            return self._fail(held, cause, self._clock.now_ms(), 0)
        except BaseException as error:  # noqa: BLE001
            self._broke(held, error, "it is let go")
            return self._undecided(held, text_of(error, 400))

    def _undecided(self, held: InFlight, why: str) -> bool:
        """Have it again after a lease: here where order asks for it, and otherwise when its lease has run out."""
        number, now_ms, pause_ms = held.attempt, self._clock.now_ms(), round(self._lease_s * 1000)
        attempt = Attempt(number, now_ms, 0, self._scope.name, why)
        held.attempt, held.history, held.context = number + 1, (*held.history, attempt), None
        if number <= self._last_attempt and self._dispatcher.retry(held, self._lease_s):
            self._settler.say_retry(Finished(held, "retried", now_ms, after_ms=pause_ms, attempt=attempt, error=why))
            return True
        self._settler.drop(held)
        held.lose()
        self._settler.say(held, "lease_lost", f"nothing could be decided: {why}")
        return False

    def _broke(self, held: InFlight, error: BaseException, then: str) -> None:
        self._scope.health.trouble(error)
        _log.error("deciding about %s of %s broke; %s", held.delivery.position, self._scope, then, exc_info=error)

    def _handle(self, held: InFlight) -> bool:
        """Handle one delivery; ``True`` when the dispatcher keeps it for another attempt."""
        begun = self._clock.monotonic()
        if held.lost or begun - held.leased_at >= self._lease_s:
            # It may be with another consumer by now: starting it would run it twice at once.
            self._settler.say(held, "lease_lost", "the lease ran out before its turn")
            return self._let_go(held)
        begun_ms = self._clock.now_ms()
        try:
            message = held.message
            if message is None:
                message = held.message = decode(held.delivery.body)
            if message.hbustarget and message.hbustarget != self._group:
                # A redriven copy for one subscription: to this one nothing has happened, so no fact says anything.
                return self._settle_unhandled(held, "", begun_ms)
            if message.expirytime and (message.expires_ms() or 0) <= begun_ms:
                return self._settle_unhandled(held, "expired", begun_ms, f"expired at {message.expirytime[:40]}")
            if held.attempt > self._last_attempt:
                raise self._attempts.used_up(held)
        except (MalformedEnvelope, Unrecoverable) as error:
            return self._fail(held, error, begun_ms, 0)
        except ValueError as error:
            return self._fail(held, MalformedEnvelope(f"expirytime: {error}", field="expirytime"), begun_ms, 0)
        attempt = self._announced if held.attempt > 1 and self._ordered else self._attempt
        return attempt(held, message, begun, begun_ms)

    def _announced(self, held: InFlight, message: Message, begun: float, begun_ms: int) -> bool:
        if counted := self._attempts.announce(held):
            return self._attempt(held, message, begun, begun_ms)
        return counted is None or self._let_go(held)

    def _settle_unhandled(self, held: InFlight, kind: str, at_ms: int, detail: str = "") -> bool:
        self._settler.add(Finished(held, kind, at_ms, detail=detail))
        return False

    def _attempt(self, held: InFlight, message: Message, begun: float, begun_ms: int) -> bool:
        held.context = context = Context(message, self._topic, self._group, held.attempt, begun_ms)
        self.call = (held, begun)
        repeated = False
        failure: BaseException | None = None
        token = contexts.enter(context)
        try:
            if self._inbox is None:
                self._handler(message, context)
            else:
                repeated = not self._once(self._inbox, held, message, context)
        except BaseException as error:  # noqa: BLE001
            # Foreign code: whatever it raises, also SystemExit, is a failed attempt and never the end of this thread.
            failure = error
        finally:
            contexts.leave(token)
            self.call = None
        duration_s = self._clock.monotonic() - begun
        if self._end is not None and not self._ended(held, context, duration_s):
            return True
        if isinstance(failure, InboxAway):
            return self._put_back(held)
        if duration_s >= self._prefetch.least_s:
            self._prefetch.observe(duration_s)
        duration_us = int(duration_s * 1e6)
        if failure is not None:
            return self._failed(held, failure, begun_ms, duration_us)
        if self._breaker is not None:
            self._breaker.well += 1
            if held.probe:
                self._tell_breaker(held, None)
        held.at_ms, held.duration_us = begun_ms + duration_us // 1000, duration_us
        self._settler.add(Finished(held, "deduplicated", held.at_ms, duration_us) if repeated else held)
        return False

    def _once(self, inbox: Inbox, held: InFlight, message: Message, context: Context) -> bool:
        """Whether the handler ran now, and not before. An inbox that is away is waited for, which is no attempt: raises
        ``InboxAway`` when that is to be waited for no longer."""
        backoff: Backoff | None = None
        while True:
            try:
                return inbox.once(str(self._scope), message.source, message.id, lambda: self._handler(message, context))
            except InboxAway as error:
                self._scope.health.trouble(error)
                _log.warning("%s waits with message %s: %s", self._scope, message.id[: LONGEST["id"]], words_of(error))
                backoff = backoff or self._scope.backoff()
                if not self._rests() or self._clock.wait(self._scope.stop, backoff.next_s()) or held.lost:
                    raise
                self.call = (held, self._clock.monotonic())

    def _rests(self) -> bool:
        """The handler does not run, so that nobody gives it up; ``False`` when somebody has."""
        with self._end or nullcontext():
            self.call = None
            return not self._given_up

    def give_up(self, call: HandlerCall, ran_s: float) -> bool:
        """Fail the attempt of a ``call`` that was judged, from another thread; ``False`` when it has just returned.

        The handler learns of it by ``context.lease_lost``; what it still does is its own, and this thread ends with it.
        """
        if self._end is None:
            return False
        held, _ = call
        with self._end:
            if self.call is not call or self._given_up:
                return False
            self._given_up = True
        if held.context is not None:
            held.context.lease_lost = True
        self.running = None
        most_s = self._scope.policy.max_handler_s
        error = HandlerHung(f"the handler did not return within {most_s:g} s and was given up")
        begun_ms, ran_us = self._clock.now_ms() - int(ran_s * 1e3), int(ran_s * 1e6)
        try:
            kept = self._failed(held, error, begun_ms, ran_us)
        except BaseException as defect:  # noqa: BLE001
            kept = self._decided(held, defect)
        if not kept:
            self._dispatcher.done(held)
        self._reader.freed()
        return True

    def _ended(self, held: InFlight, context: Context, duration_s: float) -> bool:
        """Whether the attempt is still this thread's to decide."""
        assert self._end is not None
        with self._end:
            if not self._given_up:
                return True
        said = f"attempt {context.attempt} was given up; its handler returned after {duration_s:.1f} s"
        self._settler.say(held, "lease_lost", said)
        return False

    def _failed(self, held: InFlight, error: BaseException, begun_ms: int, duration_us: int) -> bool:
        """An attempt of the handler failed: decide what becomes of it, and let the breaker know."""
        if self._breaker is None:
            return self._fail(held, error, begun_ms, duration_us)
        self._tell_breaker(held, error)
        kept = self._fail(held, error, begun_ms, duration_us)
        # It may withdraw what waits, this one included.
        self._breaker.decided()
        return kept

    def _tell_breaker(self, held: InFlight, error: BaseException | None) -> None:
        assert self._breaker is not None
        try:
            if error is None:
                self._breaker.worked(held)
            else:
                self._breaker.failed(held, error)
        except Exception as defect:  # noqa: BLE001
            # What has become of the message is decided elsewhere, and holds.
            self._scope.health.trouble(defect)
            _log.exception("the breaker of %s broke", self._scope)

    def _fail(self, held: InFlight, error: BaseException, begun_ms: int, duration_us: int) -> bool:
        if held.lost:
            # Another consumer has it: what becomes of it is decided there.
            self._settler.say(held, "lease_lost", f"the attempt had failed: {text_of(error, 400)}")
            return self._let_go(held)
        decision = self._decider.decide(error, held.attempt, held.history, begun_ms=begun_ms, duration_us=duration_us)
        finished = Finished(
            held,
            "dead" if decision.verdict is Verdict.DEAD else "retried",
            begun_ms + duration_us // 1000,
            duration_us,
            decision.verdict,
            round(decision.after_s * 1000),
            decision.attempt,
            decision.dead,
            decision.attempt.error,
            decision.fingerprint,
            decision.stack,
        )
        level = logging.ERROR if decision.verdict is Verdict.DEAD else logging.WARNING
        name = held.message.id[: LONGEST["id"]] if held.message else held.delivery.position
        _log.log(level, "%s attempt %d of message %s failed: %s", self._scope, held.attempt, name, finished.error)
        if decision.verdict is Verdict.DEAD and held.key and self._scope.policy.on_failed_head == "park":
            return self._park(held, finished)
        if decision.verdict is Verdict.RETRY:
            return self._retry(held, finished, decision.after_s)
        self._settler.add(finished)
        return False

    def _retry(self, held: InFlight, finished: Finished, after_s: float) -> bool:
        """Another attempt, made here where order asks for it and by the store otherwise."""
        assert finished.attempt is not None
        number, history = held.attempt, held.history
        held.context = None
        held.attempt, held.history = number + 1, (*history, finished.attempt)
        if self._dispatcher.retry(held, after_s):
            self._settler.say_retry(finished)
            return True
        held.attempt, held.history = number, history
        self._settler.add(finished)
        return False

    def _park(self, held: InFlight, finished: Finished) -> bool:
        """Set the whole key aside instead of burying its head."""
        followers = self._dispatcher.park(held)
        finished.verdict, finished.kind = Verdict.PARK, "parked"
        # The head first: what follows it is set aside only with a key that is parked.
        self._settler.add(finished)
        self._settler.set_aside(followers)
        return True

    def _let_go(self, held: InFlight) -> bool:
        """It is not ours to settle. With order it goes back, and with it what waits behind it."""
        held.lose()
        if not held.key:
            self._scope.in_flight.drop(held)
            return False
        # By an extension that was not answered the store may hold it still, and would give first what waits behind it.
        self._settler.set_aside((held, *self._dispatcher.park(held)))
        return True

    def _put_back(self, held: InFlight) -> bool:
        """No attempt was made, and nobody waits for one here any more."""
        if held.lost:
            return self._let_go(held)
        if held.lane is None:
            self._settler.release([held])
            return False
        self._settler.set_aside((held, *self._dispatcher.park(held)))
        return True


class Crew:
    """The workers of one consumer and their threads, those that were given up aside."""

    def __init__(self) -> None:
        #: Replaced, never changed: it is read without a lock.
        self.members: Sequence[tuple[Worker, RestartingThread]] = ()

    def running(self) -> int:
        """How many handlers run now."""
        return sum(worker.running is not None for worker, _ in self.members)
