"""`manage.py soak`: millions of messages through a producer and a consumer, to see whether memory stays flat."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import redis

from hbus_console.bench import ours
from hbus_console.bench.processes import Child
from hbus_console.evidence.fact_stream import FactReader
from hbus_console.supervisor.standalone import StandaloneStore

ENDS = "hbus_console.bench.soak_ends"
PREFIX, TOPIC, GROUP = "soak", "soak.topic", "soak"
MIB = 1024 * 1024
#: By how much each may grow from the first tenth of the messages to the last: over ten million, 2 bytes a message.
MOST_GROWTH = 16 * MIB
#: What retention leaves of the topic: so many messages, or a twentieth of all when that is less.
KEEP_AT_MOST = 50_000
#: Retention is applied and memory read so often in the whole run, and every second if that is more.
READINGS, READ_EVERY_S = 200, 1.0
#: Seconds between two lines.
LINE_EVERY_S = 10.0
#: After so many seconds without a message settled, something hangs.
PATIENCE_S = 60.0


@dataclass(frozen=True)
class MemoryReading:
    """The memory of each, in bytes, once ``messages`` were settled; 0 of a process that had ended."""

    messages: int
    producer: int
    consumer: int
    store: int


@dataclass(frozen=True)
class Growth:
    """The most memory that one of them had in the first tenth of the messages, and in the last, in bytes."""

    who: str
    first: int
    last: int

    @property
    def flat(self) -> bool:
        return self.last - self.first <= MOST_GROWTH

    def __str__(self) -> str:
        return (
            f"{self.who}: at most {self.first / MIB:.1f} MiB in the first tenth and {self.last / MIB:.1f} in the last: "
            f"{(self.last - self.first) / MIB:+.1f} MiB; flat is at most {MOST_GROWTH / MIB:+.0f} MiB"
        )


@dataclass(frozen=True)
class Result:
    """What a soak came to."""

    published: int
    handled: int
    settled: int
    facts: int
    seconds: float
    readings: Sequence[MemoryReading]

    @property
    def growth(self) -> list[Growth]:
        """Of each process and of the store."""
        total = self.readings[-1].messages
        first = [each for each in self.readings if each.messages <= total / 10] or self.readings[:1]
        last = [each for each in self.readings if each.messages >= total * 0.9]
        return [
            Growth(who, max(getattr(each, who) for each in first), max(getattr(each, who) for each in last))
            for who in ("producer", "consumer", "store")
        ]

    @property
    def problems(self) -> list[str]:
        """Why it did not hold; empty when it did."""
        found = [f"Memory is not flat: {each}." for each in self.growth if not each.flat]
        if not self.published == self.handled == self.settled:
            found.append(f"{self.published:,} published, {self.handled:,} handled and {self.settled:,} settled differ.")
        if self.facts < 2 * self.published:
            found.append(f"{self.facts:,} facts tell of {self.published:,} messages: each has at least 2.")
        return found


def run(messages: int, minutes: float, say: Callable[[str], None]) -> Result:
    """Publish and handle ``messages``, or what ``minutes`` allow. Raises ``RuntimeError`` when an end dies or hangs."""
    with tempfile.TemporaryDirectory(prefix="hbus-soak-") as folder:
        store = StandaloneStore(Path(folder) / "store").start()
        children: list[Child] = []
        try:
            task = {"url": store.url, "prefix": PREFIX, "topic": TOPIC, "group": GROUP, "size": 200, "facts": True}
            ours.prepare(task, GROUP)
            producer = Child(ENDS, {**task, "do": "produce", "count": messages, "seconds": minutes * 60})
            children.append(producer)
            consumer = Child(ENDS, {**task, "do": "consume"})
            children.append(consumer)
            return _Soak(task, messages, producer, consumer, say).run()
        finally:
            for child in children:
                child.kill()
            store.kill()


class _Soak:
    """One run over its two processes."""

    def __init__(
        self, task: dict[str, Any], messages: int, producer: Child, consumer: Child, say: Callable[[str], None]
    ) -> None:
        self._producer, self._consumer = producer, consumer
        self._say = say
        self._keep = min(KEEP_AT_MOST, messages // 20)
        self._read_every = messages / READINGS
        self._store = redis.Redis.from_url(task["url"])
        self._facts = FactReader(self._store, PREFIX)
        self._transport = ours.transport_for(task)
        self._readings = [MemoryReading(0, 0, 0, 0)]
        self._started = time.monotonic()

    def run(self) -> Result:
        self._consumer.go()
        self._producer.go()
        self._follow(lambda: self._producer.ended)
        published = int(self._producer.result()["count"])
        self._follow(lambda: self._settled() >= published)
        self._read(self._settled())
        self._consumer.tell("stop")
        handled = int(self._consumer.result()["count"])
        seconds = time.monotonic() - self._started
        return Result(published, handled, self._settled(), self._facts.end()[1], seconds, self._readings[1:])

    def _follow(self, over: Callable[[], bool]) -> None:
        """Keep the store bounded, read memory and say how it goes, until it is over."""
        said = moved = read = time.monotonic()
        settled = said_at = self._settled()
        while not over():
            time.sleep(0.02)
            self._producer.check()
            self._consumer.check()
            before, settled, now = settled, self._settled(), time.monotonic()
            if settled > before:
                moved = now
            elif now - moved > PATIENCE_S:
                raise RuntimeError(f"nothing was settled for {PATIENCE_S:g} s after {settled:,} messages")
            if settled - self._readings[-1].messages >= self._read_every or now - read >= READ_EVERY_S:
                self._read(settled)
                read = now
            if now - said >= LINE_EVERY_S:
                self._line(now - self._started, (settled - said_at) / (now - said))
                said, said_at = now, settled

    def _settled(self) -> int:
        return self._transport.admin.counts(TOPIC, GROUP).get("settled", 0)

    def _read(self, settled: int) -> None:
        self._transport.admin.trim(TOPIC, older_than_ms=None, keep_at_most=self._keep)
        # As the keeper does once it has booked them.
        end, facts = self._facts.end()
        self._facts.forget(end, facts)
        used: Any = self._store.info("memory")
        self._readings.append(
            MemoryReading(settled, _rss(self._producer), _rss(self._consumer), int(used["used_memory"]))
        )

    def _line(self, seconds: float, rate: float) -> None:
        last = self._readings[-1]
        memory = "  ".join(f"{who} {getattr(last, who) / MIB:.1f} MiB" for who in ("producer", "consumer", "store"))
        self._say(f"{seconds:6,.0f} s  {last.messages:>11,} messages  {rate:>8,.0f} msg/s  {memory}")


def _rss(child: Child) -> int:
    """Its resident memory; 0 once it has gone."""
    try:
        return int(psutil.Process(child.pid).memory_info().rss)
    except psutil.NoSuchProcess:
        return 0
