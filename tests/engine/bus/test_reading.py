"""The way of a message stays short enough to be read: docs/consumers.md lists its files, and no others run."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from engine.bus.consumer import Handler
from engine.bus.context import Context
from engine.bus.handlers import adapt
from engine.bus.message import Message
from engine.bus.policy import RetryPolicy
from engine.bus.transport import Delivery, Receiver, Settlement, Verdict
from hbus_console.state import ROOT
from tests.engine.bus.kit import PATIENCE_S, Bus, FaultyTransport, SetInbox, running
from tests.engine.bus.reading import BUS, Trail, trail

#: Fewer than nine, and none longer than this, in lines.
MOST_FILES = 9
LONGEST = 400


class FollowedReceiver:
    """Begins the trail when a delivery is handed out, and ends it when the store has taken its verdict."""

    def __init__(self, inner: Receiver, follow: Trail) -> None:
        self._inner = inner
        self._follow = follow
        self.verdicts: list[Verdict] = []
        self.settled = threading.Event()

    def receive(self, limit: int, wait_s: float) -> list[Delivery]:
        deliveries = self._inner.receive(limit, wait_s)
        if deliveries and not self.settled.is_set():
            self._follow.begin()
        return deliveries

    def settle(self, batch: Sequence[Settlement]) -> list[bool]:
        answers = self._inner.settle(batch)
        self._follow.end()
        self.verdicts += [each.verdict for each in batch]
        self.settled.set()
        return answers

    def extend(self, receipts: Sequence[str]) -> list[bool]:
        return self._inner.extend(receipts)

    def close(self) -> None:
        self._inner.close()


class FollowedTransport(FaultyTransport):
    def __init__(self, inner: FaultyTransport, follow: Trail) -> None:
        super().__init__(inner.inner)
        self._follow = follow

    def receiver(self, topic: str, group: str, *, consumer: str, lease_ms: int, partition: int = 0) -> FollowedReceiver:
        made = self.inner.receiver(topic, group, consumer=consumer, lease_ms=lease_ms, partition=partition)
        self.end = FollowedReceiver(made, self._follow)
        return self.end


def listed() -> list[str]:
    """The table "read in this order" of docs/consumers.md."""
    text = (ROOT / "docs" / "consumers.md").read_text(encoding="utf-8")
    section = text.partition("## Read in this order")[2].partition("\n## ")[0]
    return re.findall(r"^\| \d+ \| `engine/bus/([^`]+)` \|", section, re.MULTILINE)


def fails(message: Message, context: Context) -> None:
    raise ValueError("no room")


@pytest.mark.parametrize(("attempts", "verdict"), [(3, Verdict.RETRY), (1, Verdict.DEAD)])
def test_what_a_raised_exception_leads_to_is_read_in_the_files_that_are_listed(
    bus: Bus, attempts: int, verdict: Verdict
) -> None:
    with trail() as followed:
        transport = FollowedTransport(bus.transport, followed)
        bus.publish({"n": 1})
        with running(bus.consumer(fails, transport=transport, retry=RetryPolicy(attempts, (10.0,)))):
            assert transport.end.settled.wait(PATIENCE_S)
            followed.end()
    assert transport.end.verdicts[0] is verdict
    # The consumer puts the rest together: nothing of it runs for each message, and one reads it first.
    assert {*followed.files, "consumer.py"} == set(listed())


@dataclass
class Booking:
    n: int


def typed(booking: Booking, context: Context) -> None:
    raise ValueError("no room")


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("handler", [fails, adapt(typed)], ids=["plain", "typed"])
def test_a_typed_handler_leads_to_one_more_and_a_transactional_one_to_none(
    any_bus: Bus, handler: Handler, transactional: bool
) -> None:
    with trail() as followed:
        transport = FollowedTransport(any_bus.transport, followed)
        any_bus.publish({"n": 1})
        consumer = any_bus.consumer(handler, transport=transport, transactional=transactional, inbox=SetInbox())
        with running(consumer):
            assert transport.end.settled.wait(PATIENCE_S)
            followed.end()
    assert transport.end.verdicts[0] is Verdict.RETRY
    # What of the consumer runs is its start, which may not have come to its end.
    files = followed.files - {"consumer.py"}
    assert files - set(listed()) == ({"handlers.py"} if handler is not fails else set())
    assert len(files) <= MOST_FILES, sorted(files)


def test_the_files_to_read_are_few_and_short() -> None:
    files = listed()
    assert len(files) == len(set(files)) <= MOST_FILES
    assert {name: lines for name in files if (lines := len((BUS / name).read_text().splitlines())) > LONGEST} == {}
