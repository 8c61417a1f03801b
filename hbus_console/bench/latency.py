"""How long a message takes from publish to handler, and what the ledger costs: measurements that need two ends."""

from __future__ import annotations

import math
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import redis

from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.consumer import Consumer
from engine.bus.message import Message
from engine.bus.options import PublishOptions
from engine.bus.policy import SubscriptionPolicy
from engine.bus.producer import Producer
from engine.bus.registry import open_transport
from engine.core.clock import SystemClock
from engine.core.fact_log import FactLog
from engine.core.pacing import Pace
from hbus_console.bench.processes import together
from hbus_console.bench.rows import Row
from hbus_console.evidence.fact_stream import FactStream
from hbus_console.state import ROOT

#: Messages a second while latency is measured: busy, not saturated.
PACE = 200
MESSAGES = 400
WHAT = f"publish to handler at {PACE} msg/s"


def row(area: str, url: str, prefix: str, *, samples: int, conditions: str, peer: str) -> Row:
    """Publish to handler, milliseconds; the peer is XADD to a blocked XREADGROUP."""
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(samples):
        ours += _ours(url, prefix)
        theirs += _raw(url)
    mine, other = median(ours), median(theirs)
    ratio = mine / other
    return Row(
        area,
        WHAT,
        "ms",
        mine,
        peer,
        other,
        ratio,
        None,
        None,
        samples,
        conditions,
        p50=mine,
        p99=quantiles(ours, n=100)[98],
    )


def _paced(publish: Any) -> None:
    # Who is late catches up: latency is told of a rate, not of what the publisher leaves of it.
    pace, never = Pace(PACE, SystemClock(), burst_s=math.inf), threading.Event()
    for index in range(MESSAGES):
        pace.admit(1, never)
        publish(index)


def _ours(url: str, prefix: str) -> list[float]:
    topic = "bench.latency"
    transport = open_transport(BusConfig(url=url, prefix=prefix))
    transport.admin.delete_topic(topic)
    transport.admin.create_topic(topic)
    transport.admin.create_group(topic, "bench")
    facts = FactLog(FactStream(redis.Redis.from_url(url), prefix))
    taken: list[float] = []
    done = threading.Event()

    def handle(message: Message, _: object) -> None:
        taken.append((time.perf_counter() - message.json()["at"]) * 1000)
        if len(taken) == MESSAGES:
            done.set()

    consumer = Consumer(
        transport, SubscriptionPolicy(topic=topic, group="bench", concurrency=1), handle, name="bench-0", facts=facts
    )
    producer = Producer(lambda _: transport, StaticCatalog(TopicPolicy(topic, "bench")), source="/bench", facts=facts)
    consumer.start()
    try:
        _paced(lambda _: producer.publish(topic, {"at": time.perf_counter()}, PublishOptions(type="bench.message")))
        if not done.wait(30):
            raise RuntimeError(f"only {len(taken)} of {MESSAGES} messages arrived")
    finally:
        consumer.stop(5.0)
        producer.close()
        facts.close()
        transport.close()
    return taken


def _raw(url: str) -> list[float]:
    reader, writer = redis.Redis.from_url(url), redis.Redis.from_url(url)
    writer.delete("latency")
    writer.xgroup_create("latency", "bench", id="0", mkstream=True)
    taken: list[float] = []

    def read() -> None:
        while len(taken) < MESSAGES:
            answer: Any = reader.xreadgroup("bench", "one", {"latency": ">"}, count=500, block=1000)
            entries = (answer[0][1] if isinstance(answer, list) else next(iter(answer.values()))[0]) if answer else []
            for entry_id, fields in entries:
                taken.append((time.perf_counter() - float(fields[b"at"])) * 1000)
                reader.xack("latency", "bench", entry_id)

    thread = threading.Thread(target=read)
    thread.start()
    _paced(lambda _: writer.xadd("latency", {"at": repr(time.perf_counter())}))
    thread.join()
    return taken


def consume_with_ledger(tasks: Sequence[Mapping[str, Any]], url: str, prefix: str, state: Path) -> float:
    """The rate at which messages are consumed, settled *and* booked in the ledger of an installation of its own.

    The clock stops when the last message's row is committed, not when it was handled.
    """
    state.mkdir(parents=True)
    environment = {**os.environ, "STATE": str(state), "REDIS_URL": url, "HBUS_PREFIX": prefix, "HBUS_APPS": ""}
    # What is booked lies in the ledger; the booker asks the other database nothing.
    migrate = [sys.executable, "manage.py", "migrate", "-v0", "--database", "ledger"]
    subprocess.run(migrate, cwd=ROOT, env=environment, check=True)
    expected = sum(int(task["total"]) for task in tasks[:1])
    booker = subprocess.Popen(
        [sys.executable, "-m", "hbus_console.bench.booker", str(expected)],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert booker.stdout is not None
    if booker.stdout.readline().strip() != "ready":
        raise RuntimeError("the ledger's process did not start")
    started = together("hbus_console.bench.ours", tasks).started
    line = booker.stdout.readline().split()
    if booker.wait(60) or line[0] != "booked":
        raise RuntimeError("the ledger did not book every message")
    return expected / (float(line[1]) - started)
