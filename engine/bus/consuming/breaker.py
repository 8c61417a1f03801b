"""The breaker: stops what a subscription reads while its handler fails whatever it is given."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from engine.bus.breaker_board import WHY_LIMIT, BreakerBoard, LocalBoard, Pauses, Standing
from engine.bus.consuming.dispatch import InFlight
from engine.bus.consuming.scope import ConsumerScope
from engine.bus.consuming.settler import Settler
from engine.bus.errors import MalformedEnvelope, RetryLater, Unrecoverable
from engine.core.clock import jitter
from engine.core.error_text import text_of
from engine.core.errors import Unavailable

#: Seconds between two looks at what other consumers of the subscription have found.
LOOK_S = 1.0

_log = logging.getLogger(__name__)


class Breaker:
    """One consumer's part in it. Workers tell what became of attempts; the reader asks what it may read.

    It opens when ``failures`` different messages have failed within the window and make up the policy's share of what
    was handled since the first of them. What it measures is whether the handler works, and of that a message tells
    once: when it failed before and fails again, that says nothing new, however many such there are. Nor do failures
    that are the message's own fault (:class:`Unrecoverable`, a malformed envelope) or that the handler asked for
    (:class:`RetryLater`): these open none, and of a message that is tried they open it again. Each consumer counts what
    it sees; what one finds holds for all.
    """

    def __init__(self, scope: ConsumerScope, settler: Settler, board: BreakerBoard | None) -> None:
        self._scope = scope
        self._settler = settler
        self._policy = scope.policy.breaker
        self._where = (scope.topic, scope.group)
        self._clock = scope.clock
        self._local = LocalBoard(scope.clock)
        self._board = board or self._local
        self._lock = threading.Lock()
        #: (monotonic seconds, message id, handled well until then)
        self._failed: deque[tuple[float, str, int]] = deque()
        #: How many attempts ended well, or failed in a way that shows that the handler works. Counted by who runs the
        #: handler, after each delivery; a lost update does no harm.
        self.well = 0
        self._looked = float("-inf")
        self._alone = False
        #: How often workers told what decides.
        self._judged = 0
        #: How it stood at the last look.
        self.standing = Standing()

    @property
    def closed(self) -> bool:
        """Whether deliveries flow."""
        return self.standing.state == "closed"

    @property
    def probes(self) -> bool:
        """Whether this consumer is the one that tries a message."""
        return self.standing.state == "probing" and self.standing.prober == self._scope.name

    def look(self) -> None:
        """Learn what others found, and begin to probe when the pause is over. For the reader's thread, each turn."""
        now = self._clock.monotonic()
        if now - self._looked < LOOK_S:
            return
        self._looked = now
        where, judged = self._where, self._judged
        standing = self._ask(lambda board: board.look(*where))
        kind = ""
        if standing.probe_due or standing.state == "probing":
            standing, kind = self._ask(lambda board: board.probe(*where, self._scope.name)), "breaker_probing"
        # What a worker has decided meanwhile is newer than what was asked for before.
        if judged == self._judged:
            self._note(standing, kind, "")

    def worked(self, held: InFlight) -> None:
        """The message that was let through to be tried was handled well, or failed by its own fault."""
        if held.probe and self.probes:
            self._judged += 1
            self._note(self._ask(lambda board: board.passed(*self._where, self._scope.name)), "breaker_closed", "")

    def failed(self, held: InFlight, error: BaseException) -> None:
        """An attempt failed. Told before anything becomes of the message: one that was tried is in flight until then,
        and as long as it is the reader lets no other through.
        """
        self._judged += 1
        first = held.attempt == 1
        if isinstance(error, Unrecoverable | MalformedEnvelope):
            self.well += 1
            self.worked(held)
            return
        why = text_of(error, WHY_LIMIT)
        where = self._where
        if held.probe and self.probes:
            # Who was tried and asks for a pause has not handled it either: else one after the other would be tried.
            asked_s = error.seconds if isinstance(error, RetryLater) else 0.0
            pauses = self._pauses(grow=first, least_s=asked_s)
            standing = self._ask(lambda board: board.failed(*where, self._scope.name, why, pauses))
            self._note(standing, "breaker_opened", f"the message tried failed{'' if first else ' again'}: {why}")
            return
        if isinstance(error, RetryLater):
            return
        message_id = held.message.id if held.message else held.delivery.position
        if first and self.closed and self._is_outage(message_id):
            standing = self._ask(lambda board: board.trip(*where, self._scope.name, why, self._pauses()))
            self._note(standing, "breaker_opened", why)

    def decided(self) -> None:
        """What becomes of a message that failed is decided."""
        if not self.closed:
            # Where order asks for it, what failed waits here for its next attempt, which nobody may make now.
            self._hand_back()

    def _is_outage(self, message_id: str) -> bool:
        policy, now = self._policy, self._clock.monotonic()
        with self._lock:
            failed = self._failed
            failed.append((now, message_id, self.well))
            while now - failed[0][0] > policy.window_s:
                failed.popleft()
            different = len({one for _, one, _ in failed})
            if different < policy.failures:
                return False
            well = self.well - failed[0][2]
            if different < policy.share * (different + well):
                # Enough to decide on; what is older would only make each decision dearer.
                while len(failed) > 4 * policy.failures:
                    failed.popleft()
                return False
            failed.clear()
            return True

    def _pauses(self, *, grow: bool = True, least_s: float = 0.0) -> Pauses:
        policy = self._policy
        first_ms, longest_ms = round(policy.open_s * 1000), round(policy.longest_open_s * 1000)
        least_ms = round(min(max(0.0, least_s), policy.longest_open_s) * 1000)
        return Pauses(first_ms, longest_ms, jitter(self._scope.rng), grow, least_ms)

    def _ask(self, question: Callable[[BreakerBoard], Standing]) -> Standing:
        """Ask the shared board; this process's own while that cannot be reached."""
        try:
            answer = question(self._board)
        except Unavailable as error:
            if not self._alone:
                self._alone = True
                _log.warning("breaker of %s goes on alone: %s", self._scope, error)
            return question(self._local)
        self._alone = False
        return answer

    def _note(self, standing: Standing, kind: str, detail: str) -> None:
        before, self.standing = self.standing, standing
        if standing.changed and kind:
            self._say(kind, standing, detail)
        if before.state == "closed" and standing.state != "closed":
            self._hand_back()
        elif before.state != "closed" and standing.state == "closed":
            with self._lock:
                self._failed.clear()

    def _hand_back(self) -> None:
        """What nobody has begun goes back to the store."""
        self._settler.release(self._scope.dispatcher.withdraw())

    def _say(self, kind: str, standing: Standing, error: str) -> None:
        pause_s = max(0, standing.until_ms - standing.now_ms) / 1000
        details = {
            "breaker_opened": f"nothing is delivered for {pause_s:.1f} s; opened {standing.opens} times in a row",
            "breaker_probing": "one message is tried",
            "breaker_closed": "the message tried was handled; deliveries flow again",
        }
        _log.warning("%s of %s: %s %s", kind, self._scope, details[kind], error)
        self._scope.say(kind, error=error, detail=details[kind])
