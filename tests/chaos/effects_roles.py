"""The processes that ``test_ten_kills`` kills: a worker with effects in SQLite, and a keeper with delayed messages.

Arguments: role, prefix, name, database; the store's address comes in the environment. They run until they are killed,
or until SIGTERM.
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
from collections.abc import Callable

import redis

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.consumer import Consumer
from engine.bus.context import Context
from engine.bus.delay_mover import DelayMover
from engine.bus.delays import RedisDelays
from engine.bus.message import Message
from engine.bus.policy import BreakerPolicy, RetryPolicy, SubscriptionPolicy
from engine.bus.producer import Producer
from engine.bus.transports.redis_stream import open_transport
from engine.core.duties import DutyRunner
from engine.core.facts import NullFacts
from engine.core.leases import Lease

TOPIC = "hotel.event"
GROUP = "effects"
#: Both processes work by it; the window covers the whole test.
POLICY = TopicPolicy(TOPIC, "hotel", idempotency_window_s=3_600)
#: Fails its first attempt.
STUMBLES = 97
#: Fails every attempt, until the parent says that the cause is mended.
POISON = 2_503
TABLES = """
CREATE TABLE inbox (source TEXT, id TEXT, PRIMARY KEY (source, id)) WITHOUT ROWID;
CREATE TABLE effect (event TEXT);
CREATE TABLE failed (id TEXT);
CREATE TABLE repeated (id TEXT);
CREATE TABLE mended (yes INTEGER);
"""


class Effects:
    """An inbox whose rows commit with the effects; nothing in the tables stops an effect from being there twice."""

    def __init__(self, database: str) -> None:
        self._connection = sqlite3.connect(database, timeout=60, isolation_level=None, check_same_thread=False)
        # What a killed process has written is the kernel's already; the machine itself stays up.
        self._connection.executescript("PRAGMA journal_mode=WAL; PRAGMA synchronous=OFF;")
        self._lock = threading.Lock()

    def once(self, subscription: str, source: str, message_id: str, effect: Callable[[], object]) -> bool:
        with self._lock:
            run = self._connection.execute
            run("BEGIN IMMEDIATE")
            try:
                fresh = run("INSERT OR IGNORE INTO inbox VALUES (?, ?)", (source, message_id)).rowcount == 1
                if fresh:
                    effect()
                else:
                    run("INSERT INTO repeated VALUES (?)", (message_id,))
            except BaseException:
                run("ROLLBACK")
                run("INSERT INTO failed VALUES (?)", (message_id,))
                raise
            run("COMMIT")
            return fresh

    def handle(self, message: Message, context: Context) -> None:
        """The effect itself; runs inside :meth:`once`."""
        event = message.json()
        number = event["n"]
        run = self._connection.execute
        if number % POISON == 0 and run("SELECT 1 FROM mended").fetchone() is None:
            raise ValueError("the rate of this room is not known")
        if number % STUMBLES == 0 and context.attempt == 1:
            raise ConnectionError("stumbled")
        run("INSERT INTO effect VALUES (?)", (event["event"],))


def main() -> None:
    role, prefix, name, database = sys.argv[1:]
    url = os.environ["REDIS_URL"]
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    transport = open_transport(BusConfig(url=url, prefix=prefix))
    if role == "worker":
        effects = Effects(database)
        policy = SubscriptionPolicy(
            TOPIC,
            GROUP,
            RetryPolicy(3, (0.2,)),
            concurrency=4,
            lease_s=3.0,
            transactional=True,
            breaker=BreakerPolicy(0),
        )
        consumer = Consumer(transport, policy, effects.handle, name=name, facts=NullFacts(), inbox=effects)
        consumer.start()
        over.wait()
        consumer.stop(10.0)
        return
    store = redis.Redis.from_url(url)
    delays = RedisDelays(store, prefix)
    producer = Producer(lambda _: transport, StaticCatalog(POLICY), source="/hotel", facts=NullFacts(), delays=delays)
    duties = DutyRunner(
        [DelayMover(delays, lambda: producer)], leases=lambda duty: Lease(store, prefix, duty, owner=name, ttl_s=3.0)
    )
    duties.start()
    over.wait()
    duties.stop(5.0)


if __name__ == "__main__":
    main()
