"""The consumer: one subscription's deliveries handled by a few threads, settled, and evidenced."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

from engine.bus.breaker_board import BreakerBoard
from engine.bus.consuming.breaker import Breaker
from engine.bus.consuming.feed import Feed, PlainFeed
from engine.bus.consuming.health import Backoff, StoreHealth
from engine.bus.consuming.heartbeat import Heartbeat
from engine.bus.consuming.in_flight import InFlight, InFlightTable
from engine.bus.consuming.keyed_dispatcher import KeyedDispatcher
from engine.bus.consuming.partition_assignment import PartitionAssignment
from engine.bus.consuming.prefetch import Prefetch
from engine.bus.consuming.reader import Reader
from engine.bus.consuming.recovery import Recovery
from engine.bus.consuming.retry_decider import RetryDecider
from engine.bus.consuming.settler import Finished, Settler
from engine.bus.consuming.status import ConsumerStatus, Left
from engine.bus.consuming.threads import RestartingThread
from engine.bus.consuming.worker import Handler, Worker
from engine.bus.consuming.worker_pool import Hung, WorkerPool
from engine.bus.inbox import Inbox, Positions
from engine.bus.partitions import Partitioned, PartitionedReceiver
from engine.bus.policy import MOST_THREADS, SubscriptionPolicy
from engine.bus.transport import Receiver, Transport, Verdict
from engine.core.clock import Clock, SystemClock
from engine.core.errors import BadInput, ConfigurationError
from engine.core.facts import Emitter

__all__ = ["Consumer", "ConsumerStatus", "Handler", "Left"]

#: The share of a drain's time in which handlers may end; the rest is for settling.
HANDLERS_SHARE = 0.9
#: How long the assignment thread may take to end its last call to the store, in (real) seconds.
ASSIGNMENT_END_S = 2.0
#: How long presence and ownership of partitions last without a turn: how soon others take over from one that died.
SEAT_S = 10.0
#: The shortest time over which a rate is measured, in seconds.
RATE_LEAST_S = 1.0


class Consumer:
    """Handles one subscription until stopped. Start it once; every other method is thread-safe.

    ``name`` is stable over restarts and unique among live consumers of the group. ``handler(message, context)``
    settles by returning and fails the attempt by raising. ``inbox`` is needed for (and used by) transactional
    subscriptions. ``positions`` tells where to begin again after the store has
    lost the group. ``breakers`` is where the group's consumers share their breaker; without it each has its own.
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
    ) -> None:
        _check(policy, inbox)
        self._clock = clock = clock or SystemClock()
        rng = rng or random.Random()  # noqa: S311 - jitter
        self._policy = policy
        self._name = name
        self._stop = threading.Event()
        self._beats_over = threading.Event()
        self._started = self._draining = self._stopped = False
        self._released = 0
        self._health = StoreHealth(topic=policy.topic, group=policy.group, node=name, facts=facts, clock=clock)
        self._in_flight = InFlightTable()
        self._dispatcher: KeyedDispatcher | None = None
        self._receiver: Receiver
        ordered: PartitionedReceiver | None = None
        if policy.ordering == "key":
            self._receiver = ordered = _ordered_receiver(transport, policy, name, seat_s)
            self._dispatcher = KeyedDispatcher(
                clock,
                set_aside=self._set_aside,
                is_parked=ordered.is_parked,
                pass_on=policy.on_failed_head == "pass",
            )
        else:
            self._receiver = transport.receiver(
                policy.topic, policy.group, consumer=name, lease_ms=round(policy.lease_s * 1000)
            )
        self._feed: Feed = self._dispatcher or PlainFeed()
        self._prefetch = Prefetch(policy.concurrency)
        self._breaker = None
        if policy.breaker.failures:
            self._breaker = Breaker(
                policy,
                board=breakers,
                consumer=name,
                facts=facts,
                clock=clock,
                rng=rng,
                on_open=lambda: self._release(self._feed.withdraw()),
            )
        recovery = Recovery(
            admin=transport.admin,
            topic=policy.topic,
            group=policy.group,
            node=name,
            positions=positions,
            facts=facts,
            clock=clock,
            health=self._health,
        )
        self._settler = Settler(
            receiver=self._receiver,
            in_flight=self._in_flight,
            topic=policy.topic,
            group=policy.group,
            node=name,
            facts=facts,
            clock=clock,
            health=self._health,
            backoff=Backoff(rng),
            answered=self._dispatcher.answered if self._dispatcher else None,
        )
        self._heartbeat = Heartbeat(
            receiver=self._receiver,
            in_flight=self._in_flight,
            lease_s=policy.lease_s,
            clock=clock,
            health=self._health,
            backoff=Backoff(rng),
            stop=self._beats_over,
            also=recovery.note,
        )
        self._reader = Reader(
            receiver=self._receiver,
            feed=self._feed,
            in_flight=self._in_flight,
            prefetch=self._prefetch,
            running=self._count_running,
            concurrency=policy.concurrency,
            unsettled=lambda: self._settler.waiting,
            release=self._release,
            lease_s=policy.lease_s,
            recovery=recovery,
            health=self._health,
            backoff=Backoff(rng),
            clock=clock,
            stop=self._stop,
            breaker=self._breaker,
        )
        self._assignment: PartitionAssignment | None = None
        if ordered is not None:
            self._assignment = PartitionAssignment(
                ordered,
                name=f"{name} of {policy.topic}/{policy.group}",
                wanted=lambda: not self._draining and not self._reader.paused,
                in_hand=lambda: {held.delivery.partition for held in self._in_flight.everything()},
                turns=lambda: self._reader.turns,
                on_leaving=lambda partitions: self._release(self._feed.withdraw(partitions)),
                on_lost=self._on_partitions_lost,
                recovery=recovery,
                clock=clock,
                health=self._health,
                backoff=Backoff(rng),
                stop=self._beats_over,
            )
        decider = RetryDecider(
            policy,
            consumer=name,
            handler=handler_name or getattr(handler, "__qualname__", type(handler).__name__),
            rng=rng,
        )
        self._pool = WorkerPool(
            policy.concurrency,
            recruit=lambda: Worker(
                policy=policy,
                handler=handler,
                inbox=inbox if policy.transactional else None,
                decider=decider,
                feed=self._feed,
                in_flight=self._in_flight,
                settler=self._settler,
                prefetch=self._prefetch,
                clock=clock,
                freed=self._reader.freed,
                dispatcher=self._dispatcher,
                breaker=self._breaker,
            ),
            thread_for=self._thread_for,
            feed=self._feed,
            clock=clock,
            lease_s=policy.lease_s,
            max_handler_s=policy.max_handler_s,
            stop=self._stop,
        )
        self._threads = self._make_threads()
        self._rate_lock = threading.Lock()
        self._rate_seen = (clock.monotonic(), 0)
        self._rate = 0.0

    def start(self) -> None:
        """Start all threads and return. An absent store is waited for."""
        self._started = True
        for thread in self._threads.values():
            thread.start()
        self._pool.start()

    def stop(self, drain_s: float = 30.0) -> Left:
        """Read no more, let running handlers end, hand back the rest, settle what is decided, within ``drain_s``.

        Returns what could not be finished in time: its handlers see ``lease_lost``, and it is delivered again.
        Idempotent.
        """
        if self._draining:
            return Left()
        self._draining = True
        if not self._started:
            self._receiver.close()
            self._stopped = True
            return Left()
        clock = self._clock
        begun = clock.monotonic()
        self._stop.set()
        # Nobody begins what waits; it is handed back once the reader has ended, which would only lease it again.
        waiting, released_before = self._feed.withdraw(), self._released
        self._reader.resume()
        handlers_until = begun + drain_s * HANDLERS_SHARE
        clock.wait(self._threads["reader"].ended, handlers_until - clock.monotonic())
        waiting += self._feed.withdraw()
        self._release(waiting)
        self._pool.close(handlers_until)
        running = self._pool.running()
        self._settler.close()
        settled = clock.wait(self._threads["settler"].ended, begun + drain_s - clock.monotonic())
        unsettled = 0 if settled else self._settler.waiting
        self._settler.abandon()
        self._beats_over.set()
        for held in self._in_flight.everything():
            held.lose()
        if self._assignment is not None:
            self._threads["assignment"].ended.wait(ASSIGNMENT_END_S)
            self._assignment.leave()
        self._receiver.close()
        self._stopped = True
        return Left(running, unsettled, self._released - released_before)

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
        self._prefetch.resize(threads)
        self._reader.concurrency = threads
        self._pool.resize(threads)

    def status(self) -> ConsumerStatus:
        """How it stands; costs little."""
        now = self._clock.monotonic()
        hung = self._pool.hung(now)
        return ConsumerStatus(
            name=self._name,
            topic=self._policy.topic,
            group=self._policy.group,
            state=self._state(hung),
            in_flight=self._pool.running(),
            queued=self._feed.ready() + self._feed.blocked(),
            unsettled=self._settler.waiting,
            handled=self._settler.handled,
            failed=self._settler.failed,
            rate=self._measured_rate(now),
            loop_age_s=now - self._reader.moved,
            partitions=dict(self._assignment.owned) if self._assignment else {},
            last_error=self._health.last_error,
            oldest_running_s=self._pool.oldest_s(now),
            dead_threads=tuple(thread.name for thread in self._threads.values() if thread.died),
            hung=hung,
            concurrency=self._pool.size,
            breaker=self._breaker.standing.state if self._breaker else "off",
            last_error_ms=self._health.last_error_ms,
            recovered_ms=self._health.recovered_ms,
        )

    def _make_threads(self) -> dict[str, RestartingThread]:
        loops = {
            "settler": self._settler.run,
            "heartbeat": self._heartbeat.run,
            "reader": self._reader.run,
        }
        if self._assignment is not None:
            loops["assignment"] = self._assignment.run
        if self._dispatcher is not None:
            loops["dispatcher"] = self._dispatcher.run_timer
        if self._policy.max_handler_s:
            loops["watch"] = self._pool.watch
        return {duty: self._thread_for(duty, loop) for duty, loop in loops.items()}

    def _thread_for(self, duty: str, loop: Callable[[], None]) -> RestartingThread:
        return RestartingThread(
            f"hbus-{self._policy.topic}/{self._policy.group}-{duty}",
            loop,
            stop=self._stop,
            clock=self._clock,
            report=self._health.trouble,
        )

    def _state(self, hung: Sequence[Hung]) -> str:
        """The first that is true."""
        states = {
            "stopped": self._stopped,
            "draining": self._draining,
            "paused": self._reader.paused,
            "store lost": self._health.lost,
            "hung": sum(not one.given_up for one in hung) >= self._pool.size,
            "breaker open": self._breaker is not None and not self._breaker.closed,
            "waiting for ownership": self._assignment is not None and not self._assignment.owned,
            "running": self._reader.began,
        }
        return next((state for state, true in states.items() if true), "starting")

    def _count_running(self) -> int:
        return self._pool.running()

    def _release(self, deliveries: list[InFlight]) -> None:
        now_ms = self._clock.now_ms()
        for held in deliveries:
            if held.lost:
                self._drop(held)
                continue
            self._released += 1
            # One that failed here and waited for its next attempt must not lose its count altogether.
            failed_here = held.attempt > held.delivery.attempt
            self._settler.add(
                Finished(
                    held,
                    "released",
                    now_ms,
                    verdict=Verdict.RETRY if failed_here else Verdict.RELEASE,
                    attempt=held.history[-1] if failed_here else None,
                )
            )

    def _drop(self, held: InFlight) -> None:
        self._in_flight.drop(held)
        if self._dispatcher is not None:
            self._dispatcher.answered(held)

    def _set_aside(self, deliveries: Sequence[InFlight]) -> None:
        """Send back what must not be handled now; the store parks it with its key, or puts it back in order."""
        now_ms = self._clock.now_ms()
        for held in deliveries:
            self._settler.add(
                Finished(held, "parked", now_ms, verdict=Verdict.PARK, detail="behind another of its key")
            )

    def _on_partitions_lost(self, partitions: set[int]) -> None:
        """Another may own them by now: nothing of them is begun, and who handles one learns of it."""
        for held in self._feed.withdraw(partitions):
            self._drop(held)
        for held in self._in_flight.everything():
            if held.delivery.partition in partitions:
                held.lose()

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
