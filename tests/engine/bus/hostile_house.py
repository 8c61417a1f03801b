"""A bus whose store is written to past every check, and handlers that note which genuine messages they were given."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest
import redis

from engine.bus.config import BusConfig
from engine.bus.consumer import Consumer
from engine.bus.context import Context
from engine.bus.message import Message, digest, encode
from engine.bus.policy import BreakerPolicy, RetryPolicy
from engine.bus.transport import Outgoing, Stored
from engine.bus.transports.nsq.http import HttpDoor, split_address
from engine.bus.transports.nsq.names import TopicNames
from engine.bus.transports.redis_stream.topic import TopicKeys
from engine.core.clock import Clock, ManualClock, SystemClock
from tests.engine.bus.kit import GROUP, TOPIC, Bus, make_bus, until

ONCE = RetryPolicy(1, (1.0,))
#: That most of them fail is no outage.
NEVER = BreakerPolicy(failures=0)
KEYS = ("a", "b", "c", "d", "e")


class Booking(msgspec.Struct):
    """What genuine messages hold."""

    n: int


class Journal:
    """What a handler was given of the genuine messages, by key."""

    def __init__(self) -> None:
        self.by_key: defaultdict[str, list[int]] = defaultdict(list)
        self.calls = 0

    def note(self, message: Message, number: int) -> None:
        self.calls += 1
        if message.source == "/test":
            self.by_key[message.partitionkey].append(number)

    def looking(self, message: Message, context: Context) -> None:
        """One that takes the envelope and looks at all of it."""
        assert context.trace
        assert context.correlation_id is not None
        self.note(message, message.json()["n"] if message.source == "/test" else 0)
        encode(message), digest(message), message.payload(), message.expires_ms()

    def typed(self, booking: Booking, context: Context) -> None:
        """One that takes a type of its own."""
        self.note(context.message, booking.n)

    def loose(self, payload: dict, context: Context) -> None:  # type: ignore[type-arg]
        """One that takes whatever JSON there is."""
        self.note(context.message, payload["n"])


class House:
    """A bus, and the way into its store that leads past every check."""

    def __init__(self, bus: Bus, put: Callable[[int, bytes], object]) -> None:
        self.bus = bus
        self.put = put
        self.expected: defaultdict[str, list[int]] = defaultdict(list)
        self.genuine = 0
        self.hostile: list[bytes] = []

    def publish(self) -> None:
        """One genuine message."""
        key = KEYS[self.genuine % len(KEYS)]
        self.bus.publish({"n": self.genuine}, key=key)
        self.expected[key].append(self.genuine)
        self.genuine += 1

    def feed(self, bodies: Sequence[bytes]) -> None:
        """Genuine messages ahead, between and behind ``bodies``, as far as the store takes these."""
        most = self.bus.transport.capabilities.max_bytes
        taken = [body for body in bodies if len(body) <= most]
        self.hostile += taken
        for number, body in enumerate(taken):
            if number % 4 == 0:
                self.publish()
            self.put(number % self.bus.policy.partitions, body)
        for _ in KEYS:
            self.publish()

    def consumer(self, handler: Callable[..., object], name: str = "c1", **more: Any) -> Consumer:
        return self.bus.consumer(handler, name=name, retry=ONCE, breaker=NEVER, **more)

    def finish(self) -> None:
        """Wait until nothing is unsettled, burying the heads of keys that were parked."""
        until(lambda: self.bus.unsettled() == 0, between=self.bury)

    def bury(self) -> None:
        transport = self.bus.transport
        if self.bus.policy.partitions > 1:
            for parked in transport.parked(TOPIC, GROUP):
                transport.unpark(TOPIC, GROUP, parked.key, "dead")

    def stored(self) -> list[Stored]:
        return self.bus.transport.admin.browse(TOPIC, limit=10_000).entries


def _open(config: BusConfig, clock: Clock, put: Callable[[Bus, int, bytes], object], partitions: int) -> House:
    bus = make_bus(config, clock, partitions=partitions)
    return House(bus, lambda partition, body: put(bus, partition, body))


def _past_the_producer(bus: Bus, partition: int, body: bytes) -> None:
    (answer,) = bus.transport.inner.publish(TOPIC, [Outgoing("", body, partition=partition)])
    assert answer.status == "ok", answer


MakeHouse = Callable[[str, int], House]


@pytest.fixture
def make_house(request: pytest.FixtureRequest, redis_url: str, prefix: str) -> Iterator[MakeHouse]:
    """Opens a house on a kind of transport, with a topic of so many partitions."""
    made: list[House] = []

    def make(kind: str, partitions: int) -> House:
        here = f"{prefix}{len(made)}"
        if kind == "memory":
            # Its log takes what it is given.
            house = _open(BusConfig(type=kind), ManualClock(), _past_the_producer, partitions)
        elif kind == "redis_stream":
            client = redis.Redis.from_url(redis_url)
            streams = [TopicKeys(here, TOPIC).stream_of(partition) for partition in range(partitions)]
            config = BusConfig(type=kind, url=redis_url, prefix=here)
            house = _open(
                config, ManualClock(), lambda _, at, body: client.xadd(streams[at], {"event": body}), partitions
            )
        else:
            nsqd = request.getfixturevalue("nsqd_url")
            door, name = HttpDoor(*split_address(nsqd, "nsqd")), TopicNames(here, TOPIC).nsq
            config = BusConfig(type=kind, url=redis_url, prefix=here, options={"nsqd": nsqd})
            # nsqd takes no empty message from anybody.
            house = _open(config, SystemClock(), lambda _, __, body: door.post("/pub", body or b" ", topic=name), 1)
        made.append(house)
        return house

    yield make
    for house in made:
        house.bus.transport.close()
