"""What every test of the kit stands on: a topic, a group, and short words for what they do."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance.promises import lacking
from engine.bus.registry import Factory, open_transport
from engine.bus.transport import (
    Admin,
    Attempt,
    Delivery,
    Lag,
    Outcome,
    Outgoing,
    Priority,
    Receiver,
    Settlement,
    Status,
    Transport,
    Verdict,
)
from engine.core.clock import ManualClock
from engine.core.ids import new_id

#: Seconds of real time after which something that should have come is given up.
PATIENCE_S = 60.0
#: How the reason of a skip begins that a transport's own declaration has caused.
NOT_DECLARED = "not declared: "


class Workbench:
    """One topic with one group on a transport, and the verbs the tests are written in."""

    def __init__(
        self, transport: Transport, lease_ms: int, clock: ManualClock, *, quiet_s: float = 0.0, heard_s: float = 0.0
    ) -> None:
        self.transport = transport
        self.lease_ms = lease_ms
        self.clock = clock
        self.quiet_s = quiet_s
        self.heard_s = heard_s
        self.topic = f"conformance.{secrets.token_hex(6)}"
        self.group = "readers"
        self._topics: list[str] = []
        self._receivers: list[Receiver] = []
        self._places: dict[int, tuple[str, str]] = {}
        self.make_topic(self.topic)
        self.admin.create_group(self.topic, self.group)

    @property
    def admin(self) -> Admin:
        return self.transport.admin

    def make_topic(self, name: str = "") -> str:
        """A further topic, deleted at the end."""
        name = name or f"conformance.{secrets.token_hex(6)}"
        self._topics.append(name)
        self.admin.create_topic(name)
        return name

    def outgoing(self, body: bytes, priority: Priority = Priority.NORMAL) -> Outgoing:
        return Outgoing(new_id(self.clock.now_ms()), body, priority)

    def publish(self, *bodies: bytes, priority: Priority = Priority.NORMAL, topic: str = "") -> list[Outcome]:
        """Publish one message per body and insist that all were stored."""
        outcomes = self.transport.publish(topic or self.topic, [self.outgoing(body, priority) for body in bodies])
        assert [outcome.status for outcome in outcomes] == [Status.OK] * len(bodies)
        return outcomes

    def receiver(self, consumer: str = "one", *, group: str = "", topic: str = "") -> Receiver:
        """A consumer's end, closed when the test ends."""
        topic, group = topic or self.topic, group or self.group
        made = self.transport.receiver(topic, group, consumer=consumer, lease_ms=self.lease_ms)
        self._receivers.append(made)
        self._places[id(made)] = topic, group
        return made

    def take(self, receiver: Receiver, number: int) -> list[Delivery]:
        """Exactly ``number`` deliveries, in as many calls as it takes; none loses its lease meanwhile."""
        taken: list[Delivery] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(taken) < number and time.monotonic() < deadline:
            taken += receiver.receive(number - len(taken), 0.2)
            if len(taken) < number:
                receiver.extend([each.receipt for each in taken])
        assert len(taken) == number
        return taken

    def take_some(self, receiver: Receiver, limit: int) -> list[Delivery]:
        """What one successful call gives: at least one, at most ``limit``."""
        deadline = time.monotonic() + PATIENCE_S
        while not (taken := receiver.receive(limit, 0.5)) and time.monotonic() < deadline:
            pass
        assert 1 <= len(taken) <= limit
        return taken

    def take_one(self, receiver: Receiver) -> Delivery:
        return self.take(receiver, 1)[0]

    def drain(self, receiver: Receiver) -> list[Delivery]:
        """Take and acknowledge everything that can be had now."""
        taken: list[Delivery] = []
        quiet_since = time.monotonic()
        while True:
            if batch := receiver.receive(500, 0):
                assert all(settle(receiver, batch))
                taken += batch
                quiet_since = time.monotonic()
            elif (
                time.monotonic() - quiet_since >= self.quiet_s
                or not self.admin.lag(*self._places[id(receiver)]).unsettled
            ):
                return taken

    def lag(self) -> Lag:
        """The group's, when the store has heard of what was settled."""
        time.sleep(self.heard_s)
        return self.admin.lag(self.topic, self.group)

    def expect(self, taken: Sequence[Delivery] | Sequence[bytes], expected: Sequence[bytes]) -> None:
        """Insist on just these messages; in this order where the transport keeps one."""
        found = [each.body if isinstance(each, Delivery) else each for each in taken]
        if self.transport.capabilities.ordered:
            assert found == list(expected)
        else:
            assert sorted(found) == sorted(expected)

    def expect_all_settled(self) -> None:
        """Insist that nothing is left of the group's; a store may hear of a settlement a moment after it was taken."""
        deadline = time.monotonic() + PATIENCE_S
        while (lag := self.admin.lag(self.topic, self.group)).unsettled and time.monotonic() < deadline:
            time.sleep(0.02)
        assert lag.unsettled == 0

    def close(self) -> None:
        for receiver in self._receivers:
            receiver.close()
        for topic in self._topics:
            self.admin.delete_topic(topic)


def settle(receiver: Receiver, deliveries: Sequence[Delivery], verdict: Verdict = Verdict.ACK) -> list[bool]:
    """Settle all alike."""
    return receiver.settle([Settlement(delivery.receipt, verdict) for delivery in deliveries])


def retry(receiver: Receiver, delivery: Delivery, *, after_ms: int = 0, error: str = "boom") -> bool:
    """Settle one as failed."""
    attempt = Attempt(delivery.attempt, 1_790_000_000_000, 1_500, "one", error)
    return receiver.settle([Settlement(delivery.receipt, Verdict.RETRY, after_ms, attempt)])[0]


def bury(receiver: Receiver, delivery: Delivery, record: bytes = b'{"cause":"poison"}') -> bool:
    """Settle one as dead."""
    return receiver.settle([Settlement(delivery.receipt, Verdict.DEAD, dead=record)])[0]


def bodies(deliveries: Sequence[Delivery]) -> list[bytes]:
    return [delivery.body for delivery in deliveries]


def numbered(number: int, start: int = 0) -> list[bytes]:
    """Bodies that tell themselves apart: ``m0``, ``m1``, …"""
    return [b"m%d" % index for index in range(start, start + number)]


class RealTime(ManualClock):
    """For a store that takes no clock: says the real time, and lets it pass by waiting."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def advance(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait(self, event: threading.Event, seconds: float) -> bool:
        return event.wait(max(0.0, seconds))


class TransportTests:
    """Fixtures of the kit. Override ``config``, or ``transport``; the rest where your store needs it."""

    #: How long a delivery is reserved. Make it short where time passes by waiting.
    lease_ms = 30_000
    #: Whether the transport goes by the clock it is opened with. If not, time passes by waiting.
    reads_clock = True
    #: Seconds for which a store may show nothing of what it has.
    quiet_s = 0.0
    #: Seconds after which a store has heard what became of a message.
    heard_s = 0.0

    @pytest.fixture
    def config(self) -> BusConfig:
        """Where the store is, with a prefix nobody else uses."""
        raise NotImplementedError("a conformance test class gives a config fixture, or a transport fixture")

    @pytest.fixture
    def factory(self) -> Factory:
        """Opens the transport, as its entry point does; not needed for one that the registry finds by its name."""
        return open_transport

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock() if self.reads_clock else RealTime()

    @pytest.fixture
    def transport(self, config: BusConfig, factory: Factory, clock: ManualClock) -> Iterator[Transport]:
        """The transport under test; it must read ``clock``, or ``reads_clock`` be false."""
        made = factory(config, clock if self.reads_clock else None)
        yield made
        made.close()

    @pytest.fixture(autouse=True)
    def _declared(self, request: pytest.FixtureRequest, transport: Transport) -> None:
        has = transport.capabilities
        kept = [number for mark in request.node.iter_markers("keeps") for number in mark.args]
        # For the matrix; they travel between processes.
        properties = request.node.user_properties
        properties.append(("hbus capabilities", {**asdict(has), "beside": sorted(has.beside), "name": transport.name}))
        properties.append(("hbus keeps", kept))
        asked = [name for mark in request.node.iter_markers("needs") for name in mark.args]
        if without := lacking(has, asked):
            pytest.skip(f"{NOT_DECLARED}{', '.join(without)}")

    @pytest.fixture
    def pass_time(self, clock: ManualClock) -> Callable[[float], None]:
        """Lets so many seconds go by for the transport."""
        return clock.advance

    @pytest.fixture
    def bench(self, transport: Transport, clock: ManualClock) -> Iterator[Workbench]:
        made = Workbench(transport, self.lease_ms, clock, quiet_s=self.quiet_s, heard_s=self.heard_s)
        yield made
        made.close()
