"""Processes are killed, stores restarted, answers lost: nothing confirmed is lost, and nothing unsure is hidden."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance.base import PATIENCE_S, TransportTests, Workbench, bodies, numbered, settle
from engine.bus.conformance.promises import keeps, needs
from engine.bus.registry import Factory
from engine.bus.transport import Delivery, Outgoing, Status, Transport
from engine.core.errors import Unavailable

#: How the reason of a skip begins that a missing fixture has caused.
NOT_GIVEN = "not given: "
#: Leases in processes that are killed; by the store's own time.
SHORT_LEASE_MS = 1_000
#: How much later than its lease a message may come, on a machine that is busy.
MARGIN_S = 4.0

#: By when a store that is well has written down what it gave away, in seconds.
NOTED_S = 0.5

#: Longer than any lease that these tests let run out.
WINDOW_MS = 86_400_000
DONE = (Status.OK, Status.DUPLICATE)

Act = Callable[[], None]
Cut = Callable[[], AbstractContextManager[None]]


def keyed(body: bytes) -> Outgoing:
    key = body.decode()
    return Outgoing(key, body, idempotency_key=key, idempotency_digest="d", idempotency_window_ms=WINDOW_MS)


class OutageConformance(TransportTests):
    """Override ``restart`` and ``cut`` where there is a store to restart and a wire to cut."""

    @pytest.fixture
    def restart(self) -> Act:
        """Ends the store as hard as it promises to survive, and starts it on what it kept."""
        pytest.skip(f"{NOT_GIVEN}a store to restart")

    @pytest.fixture
    def cut(self) -> Cut:
        """A block in which what is published reaches the store, and its answer is lost."""
        pytest.skip(f"{NOT_GIVEN}a wire to cut")

    @keeps("K15")
    @needs("durable", "idempotent_publish")
    def test_a_store_restarted_twice_loses_nothing_that_was_confirmed(
        self, bench: Workbench, restart: Act, pass_time: Callable[[float], None]
    ) -> None:
        # Given 10 publishers, each of whom repeats what was not confirmed, and a consumer
        total, publishers = 1_000, 10
        third, half = threading.Event(), threading.Event()
        confirmed: set[bytes] = set()
        handled: set[bytes] = set()
        lock = threading.Lock()
        deadline = time.monotonic() + 3 * PATIENCE_S

        def publish(start: int) -> None:
            for body in numbered(total // publishers, start=start):
                while bench.transport.publish(bench.topic, [keyed(body)])[0].status not in DONE:
                    assert time.monotonic() < deadline, "the store did not come back"
                    time.sleep(0.01)
                with lock:
                    confirmed.add(body)
                    if len(confirmed) >= total / 3:
                        third.set()
                    if len(confirmed) >= total / 2:
                        half.set()

        def consume() -> None:
            receiver = bench.receiver("reader")
            while len(handled) < total:
                assert time.monotonic() < deadline, f"{len(handled)} of {total} came"
                taken: list[Delivery] = []
                with suppress(Unavailable):
                    taken = receiver.receive(50, 0.2)
                    # Handled before it is settled: a settlement whose answer is lost may have been made.
                    handled.update(bodies(taken))
                    settle(receiver, taken)
                if not taken:
                    # What was leased in an answer that never came
                    pass_time(bench.lease_ms / 1000)

        # When the store is restarted after a third and after a half
        with ThreadPoolExecutor(publishers + 1) as pool:
            work = [pool.submit(publish, start) for start in range(0, total, total // publishers)]
            work.append(pool.submit(consume))
            for moment in (third, half):
                assert moment.wait(PATIENCE_S)
                restart()
            for each in work:
                each.result()

        # Then all of it came
        assert confirmed == handled == {*numbered(total)}

    @keeps("K17")
    @needs("durable")
    def test_what_a_killed_process_held_comes_once_more_to_another(
        self, bench: Workbench, config: BusConfig, factory: Factory
    ) -> None:
        # Given a process that has taken everything and lets its heart beat for longer than a lease
        number = 20
        bench.publish(*numbered(number))
        with _doomed(factory, config, bench, number) as process, _by_its_own_time(factory, config) as transport:
            heir = transport.receiver(bench.topic, bench.group, consumer="heir", lease_ms=60_000)
            assert heir.receive(number, 2.5 * SHORT_LEASE_MS / 1000) == []

            # When it is killed before it acknowledged anything
            process.kill()
            killed = time.monotonic()
            taken: list[Delivery] = []
            while len(taken) < number and time.monotonic() - killed < SHORT_LEASE_MS / 1000 + MARGIN_S + self.quiet_s:
                taken += heir.receive(number - len(taken), 0.5)

            # Then another has all of it in time, once, and can see who failed
            assert sorted(bodies(taken)) == sorted(numbered(number))
            assert {each.attempt for each in taken} == {2}
            assert {past.consumer for each in taken for past in each.history} == {"doomed"}
            assert all(settle(heir, taken))
            heir.close()
        bench.expect_all_settled()

    @keeps("K39")
    @needs("durable")
    def test_a_store_and_a_consumer_killed_at_one_moment_lose_nothing(
        self, bench: Workbench, config: BusConfig, factory: Factory, restart: Act
    ) -> None:
        # Given a process that holds some of what was published, and may have read ahead of that
        held, number = 50, 200
        bench.publish(*numbered(number))
        quiet = bench.make_topic()
        bench.admin.create_group(quiet, bench.group)
        elsewhere = bench.receiver(topic=quiet)
        with _doomed(factory, config, bench, held) as process, _by_its_own_time(factory, config) as transport:
            # A store may note a moment later what it has given away
            elsewhere.receive(1, NOTED_S)

            # When the store dies, and the process has no time to do anything about it
            process.send_signal(signal.SIGSTOP)
            restart()
            process.kill()

            # Then others have all of it
            heir = transport.receiver(bench.topic, bench.group, consumer="heir", lease_ms=60_000)
            came: set[bytes] = set()
            deadline = time.monotonic() + PATIENCE_S
            while len(came) < number and time.monotonic() < deadline:
                with suppress(Unavailable):
                    taken = heir.receive(number, 0.5)
                    came.update(bodies(taken))
                    settle(heir, taken)
            assert came == {*numbered(number)}
            heir.close()
        bench.expect_all_settled()

    # What dies with its process has no wire
    @keeps("K34")
    @needs("durable")
    def test_a_publish_whose_answer_was_lost_is_unknown(self, bench: Workbench, cut: Cut) -> None:
        bench.publish(b"before")
        with cut():
            (outcome,) = bench.transport.publish(bench.topic, [bench.outgoing(b"x")])

        assert outcome.status is Status.UNKNOWN
        assert outcome.error
        assert sorted(bodies(bench.take(bench.receiver(), 2))) == [b"before", b"x"]

    @keeps("K34")
    @needs("durable", "idempotent_publish", "exact_keys")
    def test_repeating_an_unknown_publish_under_its_key_is_safe(self, bench: Workbench, cut: Cut) -> None:
        bench.publish(b"before")
        with cut():
            (lost,) = bench.transport.publish(bench.topic, [keyed(b"x")])
        (repeat,) = bench.transport.publish(bench.topic, [keyed(b"x")])

        assert (lost.status, repeat.status) == (Status.UNKNOWN, Status.DUPLICATE)
        assert bodies(bench.drain(bench.receiver())) == [b"before", b"x"]


@contextmanager
def _by_its_own_time(factory: Factory, config: BusConfig) -> Iterator[Transport]:
    """As another process would open it."""
    transport = factory(config, None)
    try:
        yield transport
    finally:
        transport.close()


@contextmanager
def _doomed(factory: Factory, config: BusConfig, bench: Workbench, number: int) -> Iterator[subprocess.Popen[str]]:
    """A process that holds so many messages by the time the block begins."""
    told = {
        "factory": f"{factory.__module__}:{factory.__qualname__}",
        "config": {**asdict(config), "options": dict(config.options)},
        "topic": bench.topic,
        "group": bench.group,
        "lease_ms": SHORT_LEASE_MS,
        "number": number,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "engine.bus.conformance.doomed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        # On its standard input: an address may hold a password.
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
        assert process.stdout.readline().strip() == "holding"
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
