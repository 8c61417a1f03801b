"""The consumer: one subscription's deliveries handled by a few threads, settled, and evidenced."""

from __future__ import annotations

import random
import threading
from collections.abc import Sequence

from engine.bus.breaker_board import BreakerBoard
from engine.bus.consuming.attempts import Attempts
from engine.bus.consuming.breaker import Breaker
from engine.bus.consuming.dispatch import Dispatcher, FifoDispatcher
from engine.bus.consuming.heartbeat import Heartbeat
from engine.bus.consuming.hung import Hung
from engine.bus.consuming.lanes import KeyedDispatcher
from engine.bus.consuming.partition_assignment import PartitionAssignment
from engine.bus.consuming.reader import Reader
from engine.bus.consuming.recovery import Recovery
from engine.bus.consuming.scope import ConsumerScope, RestartingThread
from engine.bus.consuming.settler import Settler
from engine.bus.consuming.status import ConsumerStatus, Left
from engine.bus.consuming.worker import Handler, Worker
from engine.bus.consuming.worker_pool import WorkerPool
from engine.bus.dead import RetryDecider
from engine.bus.inbox import Inbox, Positions
from engine.bus.partitions import Partitioned, PartitionedReceiver
from engine.bus.policy import MOST_THREADS, SubscriptionPolicy
from engine.bus.transport import Receiver, Transport
from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput, ConfigurationError
from engine.core.facts import Emitter
from engine.core.pacing import Pacing

__all__ = ["Consumer", "ConsumerStatus", "Handler", "Left"]

#: The share of a drain's time in which handlers may end; the rest is for settling.
HANDLERS_SHARE = 0.9
#: How long the assignment thread may take to end its last call to the store, in (real) seconds.
ASSIGNMENT_END_S = 2.0
#: How long presence and ownership of partitions last without a turn: how soon others take over from one that died.
SEAT_S = 10.0
#: What goes on until nothing is in hand any more.
DRAINING = ("settler", "heartbeat", "assignment")
#: The shortest time over which a rate is measured, in seconds.
RATE_LEAST_S = 1.0


class Consumer:
    """Handles one subscription until stopped. Start it once; every other method is thread-safe.

    ``name`` is stable over restarts and unique among live consumers of the group. ``handler(message, context)``
    settles by returning and fails the attempt by raising. ``inbox`` is needed for (and used by) transactional
    subscriptions. ``positions`` tells where to begin again after the store has
    lost the group. ``breakers`` is where the group's consumers share their breaker; without it each has its own.
    ``pacing`` holds what it reads: who is held leases nothing meanwhile.
    """

    def __init__(
        self,
        transport: Transport,
        policy: SubscriptionPolicy,
        handler: Handler,
        *,
        name: str,
        facts: Emitter,
        clock: Clock | None = None,
        inbox: Inbox | None = None,
        positions: Positions | None = None,
        seat_s: float = SEAT_S,
        rng: random.Random | None = None,
        handler_name: str = "",
        breakers: BreakerBoard | None = None,
        pacing: Pacing | None = None,
    ) -> None:
        _check(policy, inbox)
        ordered: PartitionedReceiver | None = None
        receiver: Receiver
        dispatcher: Dispatcher
        clock = clock or SystemClock()
        self._order_timer: KeyedDispatcher | None = None
        if policy.ordering == "key":
            receiver = ordered = _ordered_receiver(transport, policy, name, seat_s)
            pass_on = policy.on_failed_head == "pass"
            dispatcher = self._order_timer = KeyedDispatcher(
                clock, group=policy.group, is_parked=ordered.is_parked, pass_on=pass_on
            )
        else:
            lease_ms = round(policy.lease_s * 1000)
            receiver = transport.receiver(policy.topic, policy.group, consumer=name, lease_ms=lease_ms)
            dispatcher = FifoDispatcher()
        self._scope = scope = ConsumerScope(
            policy,
            name=name,
            receiver=receiver,
            admin=transport.admin,
            dispatcher=dispatcher,
            facts=facts,
            clock=clock,
            rng=rng or random.Random(),  # noqa: S311 - jitter
        )
        self._settler = Settler(scope)
        if self._order_timer is not None:
            self._order_timer.hurry = self._settler.hurry
        self._breaker = Breaker(scope, self._settler, breakers) if policy.breaker.failures else None
        recovery = Recovery(scope, positions)
        self._pool = WorkerPool(scope, self._recruit)
        self._reader = Reader(
            scope,
            settler=self._settler,
            recovery=recovery,
            breaker=self._breaker,
            running=self._pool.running,
            pacing=pacing,
        )
        self._assignment: PartitionAssignment | None = None
        if ordered is not None:
            self._assignment = PartitionAssignment(
                scope, ordered, reader=self._reader, settler=self._settler, recovery=recovery
            )
        self._handler = handler
        self._inbox = inbox if policy.transactional else None
        self._decider = RetryDecider(
            policy,
            consumer=name,
            handler=handler_name or getattr(handler, "__qualname__", type(handler).__name__),
            rng=scope.rng,
        )
        self._attempts = Attempts(scope, self._settler)
        self._threads = self._make_threads(Heartbeat(scope, recovery))
        self._started = self._draining = self._stopped = False
        self._rate_lock = threading.Lock()
        self._rate_seen = (clock.monotonic(), 0)
        self._rate = 0.0

    def start(self) -> None:
        """Start all threads and return. An absent store is waited for."""
        self._started = True
        # Who handles is there before anything is read.
        self._pool.start()
        for thread in self._threads.values():
            thread.start()

    def stop(self, drain_s: float = 30.0) -> Left:
        """Read no more, let running handlers end, hand back the rest, settle what is decided, within ``drain_s``.

        Returns what could not be finished in time: its handlers see ``lease_lost``, and it is delivered again.
        Idempotent.
        """
        if self._draining:
            return Left()
        self._draining = True
        scope = self._scope
        if not self._started:
            scope.receiver.close()
            self._stopped = True
            return Left()
        clock = scope.clock
        begun = clock.monotonic()
        scope.stop.set()
        # Nobody begins what waits; it is handed back once the reader has ended, which would only lease it again.
        waiting, released_before = scope.dispatcher.withdraw(), self._settler.released
        self._reader.resume()
        handlers_until = begun + drain_s * HANDLERS_SHARE
        clock.wait(self._threads["reader"].ended, handlers_until - clock.monotonic())
        self._settler.release(waiting + scope.dispatcher.withdraw())
        self._pool.close(handlers_until)
        running = self._pool.running()
        self._settler.close()
        clock.wait(self._threads["settler"].ended, begun + drain_s - clock.monotonic())
        unsettled = self._settler.waiting
        self._settler.abandon()
        scope.over.set()
        for held in scope.in_flight.everything():
            held.lose()
        if self._assignment is not None:
            self._threads["assignment"].ended.wait(ASSIGNMENT_END_S)
            self._assignment.leave()
        scope.receiver.close()
        self._stopped = True
        return Left(running, unsettled, self._settler.released - released_before)

    def pause(self) -> None:
        """Stop handling new messages in this consumer; running handlers end, the rest is handed back."""
        self._reader.pause()

    def resume(self) -> None:
        """Handle messages again."""
        self._reader.resume()

    def set_concurrency(self, threads: int) -> None:
        """Handle that many messages at once from now on. Running handlers end; nothing in hand is dropped."""
        if not 1 <= threads <= MOST_THREADS:
            raise BadInput(
                f"concurrency must be from 1 to {MOST_THREADS}.", remedy="4 is the default.", field="concurrency"
            )
        self._reader.prefetch.concurrency = threads
        self._pool.resize(threads)

    def status(self) -> ConsumerStatus:
        """How it stands; costs little."""
        scope, health = self._scope, self._scope.health
        now = scope.clock.monotonic()
        hung = self._pool.hung(now)
        failing = tuple(thread.name for thread in self._threads.values() if thread.died or thread.failing(now))
        failing += self._pool.failing(now)
        return ConsumerStatus(
            name=scope.name,
            topic=scope.topic,
            group=scope.group,
            state=self._state(hung, failing),
            in_flight=self._pool.running(),
            queued=scope.dispatcher.ready() + scope.dispatcher.blocked(),
            unsettled=self._settler.waiting,
            handled=self._settler.handled,
            failed=self._settler.failed,
            rate=self._measured_rate(now),
            loop_age_s=now - self._reader.moved,
            partitions=dict(self._assignment.owned) if self._assignment else {},
            last_error=health.last_error,
            oldest_running_s=self._pool.oldest_s(now),
            dead_threads=failing,
            hung=hung,
            concurrency=self._pool.size,
            breaker=self._breaker.standing.state if self._breaker else "off",
            last_error_ms=health.last_error_ms,
            recovered_ms=health.recovered_ms,
        )

    def _recruit(self) -> Worker:
        return Worker(
            self._scope,
            self._handler,
            inbox=self._inbox,
            attempts=self._attempts,
            decider=self._decider,
            settler=self._settler,
            reader=self._reader,
            breaker=self._breaker,
        )

    def _make_threads(self, heartbeat: Heartbeat) -> dict[str, RestartingThread]:
        loops = {"settler": self._settler.run, "heartbeat": heartbeat.run, "reader": self._reader.run}
        if self._assignment is not None:
            loops["assignment"] = self._assignment.run
        if self._order_timer is not None:
            loops["order"] = self._order_timer.run_timer
        if self._scope.policy.max_handler_s:
            loops["watch"] = self._pool.watch
        return {duty: self._scope.thread(duty, loop, drains=duty in DRAINING) for duty, loop in loops.items()}

    def _state(self, hung: Sequence[Hung], failing: Sequence[str]) -> str:
        """The first that is true."""
        states = {
            "stopped": self._stopped,
            "draining": self._draining,
            "paused": self._reader.paused,
            "store lost": self._scope.health.lost,
            "out of connections": self._scope.health.short,
            "hung": sum(not one.given_up for one in hung) >= self._pool.size,
            "failing": bool(failing),
            "breaker open": self._breaker is not None and not self._breaker.closed,
            "waiting for ownership": self._assignment is not None and not self._assignment.owned,
            "running": self._reader.began,
        }
        return next((state for state, true in states.items() if true), "starting")

    def _measured_rate(self, now: float) -> float:
        with self._rate_lock:
            since, count = self._rate_seen
            handled = self._settler.handled
            if now - since >= RATE_LEAST_S:
                self._rate = (handled - count) / (now - since)
                self._rate_seen = (now, handled)
            return self._rate


def _ordered_receiver(
    transport: Transport, policy: SubscriptionPolicy, name: str, seat_s: float
) -> PartitionedReceiver:
    if not transport.capabilities.partitions or not isinstance(transport, Partitioned):
        raise ConfigurationError(
            f"The transport {transport.name} does not keep order, which {policy.topic}/{policy.group} asks for.",
            remedy="Choose ordering none, or another transport for the topic.",
            field="ordering",
        )
    return transport.partitioned_receiver(
        policy.topic,
        policy.group,
        consumer=name,
        lease_ms=round(policy.lease_s * 1000),
        partitions=policy.partitions,
        seat_ms=round(seat_s * 1000),
    )


def _check(policy: SubscriptionPolicy, inbox: Inbox | None) -> None:
    if policy.transactional and inbox is None:
        raise ConfigurationError(
            f"{policy.topic}/{policy.group} is transactional and has no inbox.",
            remedy="Give the consumer an inbox in the database its handler writes to.",
            field="transactional",
        )
