"""What every test of the kit stands on: a topic, a group, and short words for what they do."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from engine.bus.transport import (
    Admin,
    Attempt,
    Delivery,
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
PATIENCE_S = 20.0


class Workbench:
    """One topic with one group on a transport, and the verbs the tests are written in."""

    def __init__(self, transport: Transport, lease_ms: int, clock: ManualClock) -> None:
        self.transport = transport
        self.lease_ms = lease_ms
        self.clock = clock
        self.topic = f"conformance.{secrets.token_hex(6)}"
        self.group = "readers"
        self._topics: list[str] = []
        self._receivers: list[Receiver] = []
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
        made = self.transport.receiver(
            topic or self.topic, group or self.group, consumer=consumer, lease_ms=self.lease_ms
        )
        self._receivers.append(made)
        return made

    def take(self, receiver: Receiver, number: int) -> list[Delivery]:
        """Exactly ``number`` deliveries, in as many calls as it takes."""
        taken: list[Delivery] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(taken) < number and time.monotonic() < deadline:
            taken += receiver.receive(number - len(taken), 0.5)
        assert len(taken) == number
        return taken

    def take_one(self, receiver: Receiver) -> Delivery:
        return self.take(receiver, 1)[0]

    def drain(self, receiver: Receiver) -> list[Delivery]:
        """Take and acknowledge everything that can be had now."""
        taken: list[Delivery] = []
        while batch := receiver.receive(500, 0):
            assert all(settle(receiver, batch))
            taken += batch
        return taken

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


class TransportTests:
    """Fixtures of the kit. Override ``transport``; the rest where your store needs it."""

    #: How long a delivery is reserved.
    lease_ms = 30_000

    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def transport(self, clock: ManualClock) -> Iterator[Transport]:
        """The transport under test; it must read ``clock``, or ``pass_time`` must wait."""
        raise NotImplementedError("a conformance test class gives its own transport fixture")

    @pytest.fixture
    def pass_time(self, clock: ManualClock) -> Callable[[float], None]:
        """Lets so many seconds go by for the transport."""
        return clock.advance

    @pytest.fixture
    def bench(self, transport: Transport, clock: ManualClock) -> Iterator[Workbench]:
        made = Workbench(transport, self.lease_ms, clock)
        yield made
        made.close()
