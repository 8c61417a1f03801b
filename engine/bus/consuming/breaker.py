"""The breaker: while everything a handler is given fails, nothing more is delivered and no attempts are burnt."""

from __future__ import annotations

import logging
import random
import threading
from collections import deque
from collections.abc import Callable

from engine.bus.breaker_board import BreakerBoard, LocalBoard, Pauses, Standing
from engine.bus.consuming.in_flight import InFlight
from engine.bus.errors import MalformedEnvelope, RetryLater, Unrecoverable
from engine.bus.policy import JITTER_FLOOR, SubscriptionPolicy
from engine.core.clock import Clock
from engine.core.errors import Unavailable
from engine.core.facts import Emitter, Fact

#: Seconds between two looks at what other consumers of the subscription have found.
LOOK_S = 1.0

_log = logging.getLogger(__name__)


class Breaker:
    """One consumer's part in it. Workers tell what became of attempts; the reader asks what it may read.

    It opens when ``failures`` different messages have failed within the window and make up the policy's share of what
    was handled since the first of them: one poison message tried again and again does not open it, nor do failures
    that are the message's own fault (:class:`Unrecoverable`, a malformed envelope) or that the handler asked for
    (:class:`RetryLater`). Each consumer counts what it sees; what one finds holds for all.
    """

    def __init__(
        self,
        policy: SubscriptionPolicy,
        *,
        board: BreakerBoard | None,
        consumer: str,
        facts: Emitter,
        clock: Clock,
        rng: random.Random,
        on_open: Callable[[], None],
    ) -> None:
        self._policy = policy.breaker
        self._where = (policy.topic, policy.group)
        self._local = LocalBoard(clock)
        self._board = board or self._local
        self._consumer = consumer
        self._facts = facts
        self._clock = clock
        self._rng = rng
        self._on_open = on_open
        self._lock = threading.Lock()
        #: (monotonic seconds, message id, handled well until then)
        self._failed: deque[tuple[float, str, int]] = deque()
        self._well = 0
        self._looked = float("-inf")
        self._alone = False
        #: How it stood at the last look.
        self.standing = Standing()

    @property
    def closed(self) -> bool:
        """Whether deliveries flow."""
        return self.standing.state == "closed"

    @property
    def probes(self) -> bool:
        """Whether this consumer is the one that tries a message."""
        return self.standing.state == "probing" and self.standing.prober == self._consumer

    def look(self) -> None:
        """Learn what others found, and begin to probe when the pause is over. For the reader's thread, each turn."""
        now = self._clock.monotonic()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        where = self._where
        standing = self._ask(lambda board: board.look(*where))
        if standing.probe_due or standing.state == "probing":
            standing = self._ask(lambda board: board.probe(*where, self._consumer))
            self._note(standing, "breaker_probing", "")
        else:
            self._note(standing, "", "")

    def worked(self, held: InFlight) -> None:
        """An attempt ended well, or failed in a way that shows that the handler works. Costs next to nothing."""
        self._well += 1
        if held.probe and self.probes:
            where = self._where
            self._note(self._ask(lambda board: board.passed(*where, self._consumer)), "breaker_closed", "")

    def failed(self, held: InFlight, error: BaseException) -> None:
        """An attempt failed."""
        if isinstance(error, Unrecoverable | MalformedEnvelope):
            self.worked(held)
            return
        if isinstance(error, RetryLater):
            return
        why = f"{type(error).__name__}: {error}"[:500]
        where = self._where
        if held.probe and self.probes:
            standing = self._ask(lambda board: board.failed(*where, self._consumer, why, self._pauses()))
            self._note(standing, "breaker_opened", f"the message tried failed: {why}")
            return
        message_id = held.message.id if held.message else held.delivery.position
        if self.closed and self._is_outage(message_id):
            standing = self._ask(lambda board: board.trip(*where, self._consumer, why, self._pauses()))
            self._note(standing, "breaker_opened", why)

    def _is_outage(self, message_id: str) -> bool:
        policy, now = self._policy, self._clock.monotonic()
        with self._lock:
            failed = self._failed
            failed.append((now, message_id, self._well))
            while now - failed[0][0] > policy.window_s:
                failed.popleft()
            different = len({one for _, one, _ in failed})
            if different < policy.failures:
                return False
            well = self._well - failed[0][2]
            if different < policy.share * (different + well):
                # Enough to decide on; what is older would only make each decision dearer.
                while len(failed) > 4 * policy.failures:
                    failed.popleft()
                return False
            failed.clear()
            return True

    def _pauses(self) -> Pauses:
        share = JITTER_FLOOR + (1 - JITTER_FLOOR) * self._rng.random()
        return Pauses(round(self._policy.open_s * 1000), round(self._policy.longest_open_s * 1000), share)

    def _ask(self, question: Callable[[BreakerBoard], Standing]) -> Standing:
        """Ask the shared board; this process's own while that cannot be reached."""
        try:
            answer = question(self._board)
        except Unavailable as error:
            if not self._alone:
                self._alone = True
                _log.warning("breaker of %s/%s goes on alone: %s", *self._where, error)
            return question(self._local)
        self._alone = False
        return answer

    def _note(self, standing: Standing, kind: str, detail: str) -> None:
        before, self.standing = self.standing, standing
        if standing.changed and kind:
            self._say(kind, standing, detail)
        if before.state == "closed" and standing.state != "closed":
            self._on_open()
        elif before.state != "closed" and standing.state == "closed":
            with self._lock:
                self._failed.clear()

    def _say(self, kind: str, standing: Standing, error: str) -> None:
        topic, group = self._where
        pause_s = max(0, standing.until_ms - standing.now_ms) / 1000
        details = {
            "breaker_opened": f"nothing is delivered for {pause_s:.1f} s; opened {standing.opens} times in a row",
            "breaker_probing": "one message is tried",
            "breaker_closed": "the message tried was handled; deliveries flow again",
        }
        _log.warning("%s of %s/%s: %s %s", kind, topic, group, details[kind], error)
        self._facts.emit(
            [
                Fact(
                    kind,
                    self._clock.now_ms(),
                    topic=topic,
                    subscription=group,
                    node=self._consumer,
                    error=error[:500],
                    detail=details[kind],
                )
            ]
        )
