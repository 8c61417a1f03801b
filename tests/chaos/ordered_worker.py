"""A process that consumes an ordered topic until it is told to stop (SIGTERM) or killed. Run by ``test_ordering``.

Arguments: prefix, name, on_failed_head, seconds between two attempts; the store's address comes in the environment.
Everything it does goes to one list in the store, or in the one of ``JOURNAL_URL``, so that what several processes did
has one order: ``begin``, ``end``, ``fail`` and ``settled``.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence

import redis

from engine.bus.config import BusConfig
from engine.bus.consumer import Consumer
from engine.bus.context import Context
from engine.bus.facts import facts_of
from engine.bus.message import Message
from engine.bus.policy import RetryPolicy, SubscriptionPolicy
from engine.bus.transports.redis_stream import open_transport
from engine.core.facts import FactBatch

TOPIC = "booking.created"
GROUP = "availability"
PARTITIONS = 8
#: Longer than a starved machine holds a live process up, so that only a kill or a stop lets one run out.
LEASE_S = 4.0
THREADS = 4
#: What a handler takes: long enough that a kill finds it at work.
WORK_S = 0.004
#: Fails its first attempt.
STUMBLES = 37
#: How often a message is tried.
ATTEMPTS = 3
#: Fails every attempt, until the parent says that the cause is mended.
POISON = 1_999


class Journal:
    """Appends to the list; also an emitter of facts, of which it keeps what was settled."""

    def __init__(self, url: str, prefix: str, name: str) -> None:
        self._client = redis.Redis.from_url(url)
        self._list, self._mended = f"{prefix}:journal", f"{prefix}:mended"
        self._name = name

    def note(self, what: str, key: str, n: int) -> None:
        self._client.rpush(self._list, f"{what} {self._name} {key} {n}")

    def mended(self) -> bool:
        return bool(self._client.exists(self._mended))

    def emit(self, facts: Sequence[FactBatch]) -> None:
        lines = [f"settled {self._name} {fact.key} {fact.type}" for fact in facts_of(facts) if fact.kind == "settled"]
        if lines:
            self._client.rpush(self._list, *lines)


def main() -> None:
    prefix, name, on_failed_head, pause_s = sys.argv[1:]
    # What fails on demand would bury what a test says of itself.
    logging.disable(logging.ERROR)
    url = os.environ["REDIS_URL"]
    journal = Journal(os.environ.get("JOURNAL_URL", url), prefix, name)
    transport = open_transport(BusConfig(url=url, prefix=prefix))

    def handle(message: Message, context: Context) -> None:
        n = int(message.type)
        journal.note("begin", message.partitionkey, n)
        poisoned = n % POISON == POISON - 1 and not journal.mended()
        if poisoned or (n % STUMBLES == 0 and context.attempt == 1):
            journal.note("fail", message.partitionkey, n)
            raise ValueError("on demand")
        time.sleep(WORK_S)
        journal.note("end", message.partitionkey, n)

    policy = SubscriptionPolicy(
        TOPIC,
        GROUP,
        RetryPolicy(ATTEMPTS, (float(pause_s),)),
        concurrency=THREADS,
        lease_s=LEASE_S,
        ordering="key",
        partitions=PARTITIONS,
        on_failed_head=on_failed_head,
    )
    consumer = Consumer(transport, policy, handle, name=name, facts=journal, seat_s=LEASE_S)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    consumer.start()
    print("started", flush=True)
    over.wait()
    left = consumer.stop(10.0)
    print("clean" if left.clean else f"left {left}", flush=True)


if __name__ == "__main__":
    main()
