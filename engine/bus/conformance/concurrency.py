"""Many publishers and consumers at once: nothing is lost, nothing is handed to two."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from engine.bus.conformance.base import PATIENCE_S, TransportTests, Workbench, numbered, settle
from engine.bus.conformance.promises import keeps
from engine.bus.transport import Delivery, Settlement, Verdict


class ConcurrencyConformance(TransportTests):
    @keeps("K2")
    def test_many_publishers_and_consumers_lose_and_double_nothing(self, bench: Workbench) -> None:
        # Given 8 publishers of 250 messages each, and 8 consumers of one group at the same time
        total = 2_000
        seen: Counter[bytes] = Counter()
        lock = threading.Lock()
        started = time.monotonic()

        def publish(publisher: int) -> None:
            for start in range(0, 250, 25):
                bench.publish(*numbered(25, start=publisher * 250 + start))

        def consume(name: str) -> None:
            receiver = bench.receiver(name)
            while time.monotonic() - started < PATIENCE_S:
                batch = receiver.receive(20, 0.05)
                assert all(settle(receiver, batch))
                with lock:
                    seen.update(delivery.body for delivery in batch)
                    if seen.total() >= total:
                        return

        with ThreadPoolExecutor(16) as pool:
            work = [pool.submit(publish, number) for number in range(8)]
            work += [pool.submit(consume, f"c{number}") for number in range(8)]
            for each in work:
                each.result()

        # Then every message came exactly once
        assert seen == Counter(numbered(total))
        bench.expect_all_settled()

    @keeps("K16")
    def test_groups_read_concurrently_without_touching_each_other(self, bench: Workbench) -> None:
        names = [f"group-{number}" for number in range(4)]
        for name in names:
            bench.admin.create_group(bench.topic, name)
        bench.publish(*numbered(300))

        def drain(name: str) -> list[Delivery]:
            return bench.drain(bench.receiver(group=name))

        with ThreadPoolExecutor(4) as pool:
            results = list(pool.map(drain, names))

        for taken in results:
            bench.expect(taken, numbered(300))

    def test_settling_from_several_threads_of_one_receiver_is_safe(self, bench: Workbench) -> None:
        bench.publish(*numbered(400))
        receiver = bench.receiver()
        taken = bench.take(receiver, 400)

        with ThreadPoolExecutor(8) as pool:
            results = list(pool.map(lambda start: settle(receiver, taken[start : start + 10]), range(0, 400, 10)))

        assert all(all(batch) for batch in results)
        bench.expect_all_settled()

    def test_of_two_that_ack_the_same_message_one_is_told_it_did(self, bench: Workbench) -> None:
        bench.publish(*numbered(100))
        receiver = bench.receiver()
        taken = bench.take(receiver, 100)

        with ThreadPoolExecutor(4) as pool:
            answers = list(pool.map(lambda _: settle(receiver, taken), range(4)))

        assert [sum(column) for column in zip(*answers, strict=True)] == [1] * 100

    @keeps("K8")
    def test_failing_consumers_delay_nobody_for_ever(self, bench: Workbench) -> None:
        # Given consumers that fail each message twice
        bench.publish(*numbered(200))
        done: Counter[bytes] = Counter()
        lock = threading.Lock()
        started = time.monotonic()

        def consume(name: str) -> None:
            receiver = bench.receiver(name)
            while time.monotonic() - started < PATIENCE_S:
                batch = receiver.receive(10, 0.05)
                verdicts = [
                    Settlement(each.receipt, Verdict.ACK if each.attempt == 3 else Verdict.RETRY) for each in batch
                ]
                assert all(receiver.settle(verdicts))
                with lock:
                    done.update(each.body for each in batch if each.attempt == 3)
                    if done.total() >= 200:
                        return

        with ThreadPoolExecutor(6) as pool:
            for each in [pool.submit(consume, f"c{number}") for number in range(6)]:
                each.result()

        # Then each message was done once, at its third attempt
        assert done == Counter(numbered(200))
        assert bench.admin.counts(bench.topic, bench.group)["retried"] == 400
