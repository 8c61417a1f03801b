"""NSQ transports with one topic and one group, on a real nsqd with the real Valkey beside it; leases are short."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from engine.bus.config import BusConfig
from engine.bus.transport import Delivery, Outcome, Outgoing, Receiver, Settlement, Status, Verdict
from engine.bus.transports.nsq import NsqTransport, open_transport
from hbus_console.supervisor.standalone_nsqd import StandaloneNsqd

TOPIC = "booking.created"
GROUP = "billing"
LEASE_MS = 1_000
PATIENCE_S = 60.0


class Bench:
    """A transport and short words for what tests do with it."""

    def __init__(self, url: str, nsqd: str, prefix: str, **options: str) -> None:
        self.config = BusConfig(type="nsq", url=url, prefix=prefix, options={"nsqd": nsqd, **options})
        self.prefix = prefix
        self.nsq_topic = f"{prefix}.{TOPIC}"
        self.transport: NsqTransport = open_transport(self.config)
        self.transport.admin.create_topic(TOPIC)
        self.transport.admin.create_group(TOPIC, GROUP)
        self._receivers: list[Receiver] = []

    @property
    def admin(self):  # type: ignore[no-untyped-def]
        return self.transport.admin

    def try_to_publish(self, *bodies: bytes) -> list[Outcome]:
        return self.transport.publish(TOPIC, [Outgoing(f"id-{body[:20]!r}", body) for body in bodies])

    def publish(self, *bodies: bytes) -> None:
        assert {outcome.status for outcome in self.try_to_publish(*bodies)} == {Status.OK}

    def receiver(self, consumer: str = "one", lease_ms: int = LEASE_MS) -> Receiver:
        made = self.transport.receiver(TOPIC, GROUP, consumer=consumer, lease_ms=lease_ms)
        self._receivers.append(made)
        return made

    def close(self) -> None:
        for receiver in self._receivers:
            receiver.close()
        self.transport.close()


def take(receiver: Receiver, number: int, patience_s: float = PATIENCE_S) -> list[Delivery]:
    """Exactly so many, or fail."""
    taken: list[Delivery] = []
    deadline = time.monotonic() + patience_s
    while len(taken) < number and time.monotonic() < deadline:
        taken += receiver.receive(number - len(taken), 0.2)
    assert len(taken) == number
    return taken


def settle(receiver: Receiver, deliveries: Sequence[Delivery], verdict: Verdict = Verdict.ACK) -> list[bool]:
    return receiver.settle([Settlement(each.receipt, verdict) for each in deliveries])


def eventually(holds: Callable[[], object], patience_s: float = PATIENCE_S) -> None:
    """Wait until it holds: nsqd and the loop have a life of their own."""
    deadline = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.02)


def noted(server: StandaloneNsqd) -> bool:
    """Whether nsqd has noted that the channel's file is read to its end."""
    notes = [each for each in server.folder.glob("*.diskqueue.meta.dat") if GROUP in each.name]
    return bool(notes) and all(each.read_text().split("\n")[0] == "0" for each in notes)


@pytest.fixture
def bench(redis_url: str, nsqd_url: str, prefix: str) -> Iterator[Bench]:
    """On the nsqd that all tests share."""
    made = Bench(redis_url, nsqd_url, prefix)
    yield made
    made.close()


@pytest.fixture
def own_bench(redis_url: str, own_nsqd: StandaloneNsqd, prefix: str) -> Iterator[Bench]:
    """On an nsqd that the test may kill."""
    made = Bench(redis_url, own_nsqd.url, prefix)
    yield made
    made.close()


@pytest.fixture
def without_copies(redis_url: str, own_nsqd: StandaloneNsqd, prefix: str) -> Iterator[Bench]:
    """The same, where nothing is kept beside what goes to it."""
    made = Bench(redis_url, own_nsqd.url, prefix, keep="never")
    yield made
    made.close()
