"""What a killed publisher told nobody is found in its topic, and the ledger has it after all."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from engine.bus.facts import Fact, batches
from engine.bus.producer import BatchItem
from engine.bus.transport import Outgoing
from engine.core.clock import ManualClock, SystemClock
from engine.core.facts import FactBatch
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.fact_stream import FactReader
from hbus_console.evidence.router import LEDGER
from hbus_console.messages import checking
from hbus_console.messages.checking import GRACE_MS, EvidenceCheck
from hbus_console.messages.models import FlowSample, LedgerCheck, LedgerEvent, LedgerMessage
from hbus_console.publishing.producer import shared_producer
from hbus_console.state import ROOT
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store
from tests.hbus_console.messages.conftest import BOOKING, TOPIC, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

#: Facts go to the store after the message. The process does not live to see that.
KILLED = """
import os, signal, sys, time
from engine.bus.catalog import StaticCatalog, TopicPolicy
from engine.bus.config import BusConfig
from engine.bus.producer import BatchItem, Producer
from engine.bus.registry import open_transport
from engine.core.fact_log import FactLog

class Busy:
    def write(self, facts):
        time.sleep(3600)

url, prefix, topic, many = sys.argv[1:]
facts = FactLog(Busy())
transport = open_transport(BusConfig(url=url, prefix=prefix))
producer = Producer(lambda _: transport, StaticCatalog(TopicPolicy(topic, "crm")), source="/crm", facts=facts)
for answer in producer.publish_batch(topic, [BatchItem({"n": n}) for n in range(int(many))]):
    print(answer.message_id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


class Check:
    """The duty, some minutes later."""

    def __init__(self, prefix: str) -> None:
        self.clock = ManualClock(SystemClock().now_ms() + 2 * GRACE_MS)
        self.counted: list[FactBatch] = []
        self._prefix = prefix

    def tick(self) -> None:
        def newest() -> str:
            return FactReader(store.client(), self._prefix).end()[0]

        EvidenceCheck(bus.transport, newest, self._count, clock=self.clock).tick()

    def _count(self, told: Sequence[FactBatch]) -> None:
        self.counted += told

    @property
    def found(self) -> int:
        return sum(batch.count for batch in self.counted)


@pytest.fixture
def check(installation: None, prefix: str) -> Check:
    # What the ledger has begins with a message of long ago, so that all of today is looked at.
    LedgerMessage.objects.create(
        message_id="first", topic="gone", type="t", source="/s", size=1, published_ms=SystemClock().now_ms() - 10**7
    )
    return Check(prefix)


def row(topic: str = TOPIC) -> LedgerCheck:
    return LedgerCheck.objects.get(topic=topic)


def ids(topic: str = TOPIC) -> set[str]:
    return set(LedgerMessage.objects.filter(topic=topic).values_list("message_id", flat=True))


def test_what_a_killed_publisher_told_nobody_is_booked_once(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str
) -> None:
    told = publish()
    book()
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, redis_url, prefix, TOPIC, "30"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    untold = set(ended.stdout.split())
    assert len(untold) == 30
    book()
    assert ids() == {told}

    check.tick()
    assert ids() == untold | {told}
    assert (row().checked, row().found, check.found) == (31, 30, 30)
    message = LedgerMessage.objects.get(message_id=min(untold))
    stored = bus.admin().read(TOPIC, message.position)
    assert stored is not None
    assert (message.published_ms, message.source, message.size) == (stored.at_ms, "/crm", len(stored.body))
    assert set(LedgerEvent.objects.values_list("message_id", "kind")) == {(each, "untold") for each in untold}
    # Their flow is where they were published.
    assert sum(FlowSample.objects.filter(topic=TOPIC).values_list("published", flat=True)) == 31

    check.tick()
    check.clock.advance(60)
    check.tick()
    assert (row().checked, check.found, LedgerEvent.objects.count()) == (31, 30, 30)


def test_one_in_five_thousand_is_found(check: Check, book: Callable[[], None]) -> None:
    answers = shared_producer().publish_batch("stay.completed", [BatchItem({"n": n}) for n in range(5_000)])
    book()
    lost = answers[3_141].message_id  # type: ignore[union-attr]
    LedgerMessage.objects.filter(message_id=lost).delete()
    check.tick()
    assert (row("stay.completed").checked, row("stay.completed").found) == (5_000, 1)
    assert LedgerEvent.objects.get().message_id == lost
    assert len(ids("stay.completed")) == 5_000


def test_what_is_not_booked_yet_is_not_missing(check: Check, book: Callable[[], None]) -> None:
    publish()
    book()
    later = publish()
    # Its facts lie in the store, and the keeper is behind.
    store.close()
    check.tick()
    assert check.found == 0
    assert later not in ids()
    book()
    check.tick()
    assert (check.found, row().checked) == (0, 2)


def test_what_is_young_is_left_for_later(check: Check, book: Callable[[], None]) -> None:
    publish()
    book()
    LedgerMessage.objects.filter(topic=TOPIC).delete()
    check.clock = ManualClock(SystemClock().now_ms() + GRACE_MS // 2)
    check.tick()
    assert (check.found, LedgerCheck.objects.filter(topic=TOPIC, checked__gt=0).count()) == (0, 0)
    check.clock.advance(GRACE_MS / 1000)
    check.tick()
    assert (check.found, row().checked) == (1, 1)


def test_pages_follow_each_other_over_one_millisecond_and_over_ticks(
    check: Check, book: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "PAGE", 7)
    shared_producer().publish_batch(TOPIC, [BatchItem(BOOKING) for _ in range(50)])
    book()
    kept = ids()
    LedgerMessage.objects.filter(topic=TOPIC).delete()
    # No time for more than a page.
    monkeypatch.setattr(checking, "TICK_S", 1.0)

    class Slow(ManualClock):
        def monotonic(self) -> float:
            self.advance(0.3)
            return super().monotonic()

    check.clock = Slow(check.clock.now_ms())
    for _ in range(60):
        check.tick()
    assert ids() == kept
    assert (row().checked, row().found, LedgerEvent.objects.count()) == (50, 50, 50)


def test_the_genuine_fact_that_comes_after_all_makes_no_second_message(check: Check, book: Callable[[], None]) -> None:
    message_id = publish(key="k")
    book()
    before = LedgerMessage.objects.get(message_id=message_id)
    before.delete()
    check.tick()
    told_ms = before.published_ms + 1
    fact = Fact(
        "published", told_ms, TOPIC, message_id=message_id, source=before.source, position=before.position,
        duration_us=900,
    )  # fmt: skip
    late = Booking()
    late.add(batches([fact]))
    late.write()
    found = LedgerMessage.objects.get(message_id=message_id)
    assert (found.position, found.published_ms, found.stored_us) == (before.position, told_ms, 900)


def test_strangers_messages_are_found_and_what_nobody_can_read_is_passed_over(check: Check) -> None:
    envelope = b'{"specversion":"1.0","id":"legacy-1","source":"/legacy","type":"t","data":{}}'
    bus.transport("").publish(TOPIC, [Outgoing("legacy-1", envelope), Outgoing("x", b"\xff[[[")])
    check.tick()
    assert (ids(), row().checked, row().found) == ({"legacy-1"}, 2, 1)


def test_an_id_is_unique_with_its_source_alone(check: Check) -> None:
    envelope = b'{"specversion":"1.0","id":"same","source":"%s","type":"t"}'
    bus.transport("").publish(TOPIC, [Outgoing(source, envelope % source.encode()) for source in ("/a", "/b")])
    check.tick()
    assert set(LedgerMessage.objects.filter(topic=TOPIC).values_list("message_id", "source")) == {
        ("same", "/a"),
        ("same", "/b"),
    }
    check.tick()
    check.clock.advance(60)
    check.tick()
    assert (row().checked, row().found) == (2, 2)


def test_time_of_which_the_ledger_has_let_go_is_told_as_passed_over(check: Check, book: Callable[[], None]) -> None:
    publish()
    book()
    check.tick()
    until = row().until_ms
    LedgerMessage.objects.all().delete()
    LedgerMessage.objects.create(
        message_id="later", topic="gone", type="t", source="/s", size=1, published_ms=until + 500_000
    )
    check.clock.advance(3_600)
    check.tick()
    assert row().skipped_ms == 500_000 + GRACE_MS
    assert check.found == 0


def test_a_topic_that_is_gone_is_forgotten_and_silent_ones_cost_two_statements(check: Check) -> None:
    check.tick()
    assert LedgerCheck.objects.count() == 2
    Topic.objects.filter(name="stay.completed").delete()
    with CaptureQueriesContext(connections[LEDGER]) as few:
        check.tick()
    assert list(LedgerCheck.objects.values_list("topic", flat=True)) == [TOPIC]
    Topic.objects.bulk_create([Topic(name=f"silent.{number}") for number in range(20)])
    check.tick()
    with CaptureQueriesContext(connections[LEDGER]) as many:
        check.tick()
    assert len(many) <= len(few)


def test_without_a_ledger_nothing_is_looked_at(check: Check, settings: Settings) -> None:
    publish()
    settings.HBUS_LEDGER = False
    check.tick()
    assert LedgerCheck.objects.count() == 0


def test_the_topic_says_how_far_it_was_compared(
    check: Check, book: Callable[[], None], sign_in: Callable[..., Client]
) -> None:
    def said(topic: str = TOPIC) -> str:
        return " ".join(sign_in("admin").get(f"/topics/{topic}/audit/").content.decode().split())

    check.clock = ManualClock(SystemClock().now_ms())
    check.tick()
    assert "Not compared with the topic yet" in said()
    publish()
    book()
    check.clock.advance(GRACE_MS / 500)
    check.tick()
    assert "had been told of 1 message, which is all." in said()
    assert "there was no message." in said("stay.completed")
    bus.transport("").publish(TOPIC, [Outgoing("1", b'{"specversion":"1.0","id":"1","source":"/s","type":"t"}')])
    LedgerCheck.objects.update(until_ms=0, checked=0)
    check.tick()
    assert "1 of 2 messages</span> had been told of by nobody" in said()
    LedgerCheck.objects.update(skipped_ms=90_000, found=0)
    assert "had been told of 2 messages, all that were there to be compared. Of 1 m 30 s nothing was compared" in said()


FAR = 253_402_300_799_000


def by_hand(prefix: str, entry: str, message_id: str, topic: str = TOPIC) -> None:
    """As somebody does who writes into the store, under a time of their choice."""
    envelope = f'{{"specversion":"1.0","id":"{message_id}","source":"/hand","type":"t"}}'
    store.client().xadd(f"{prefix}:{{{topic}}}:normal", {"event": envelope}, id=entry)


@pytest.mark.parametrize("far", [FAR, 2**64 - 1])
def test_an_entry_of_a_far_future_holds_up_nothing_that_follows_it(
    check: Check, book: Callable[[], None], prefix: str, sign_in: Callable[..., Client], far: int
) -> None:
    publish()
    by_hand(prefix, f"{far}-0", "from-afar")
    lost, told = publish(), publish()
    book()
    LedgerMessage.objects.filter(message_id=lost).delete()
    check.tick()
    # Whether all of their facts are booked is not known of these before.
    assert check.found == 0
    check.clock.advance(2 * GRACE_MS / 1000)
    check.tick()
    assert ids() >= {"from-afar", lost, told}
    assert (row().checked, row().found, row().ahead) == (4, 2, 3)
    # Their rows do not bear the time that was never.
    assert max(LedgerMessage.objects.filter(topic=TOPIC).values_list("published_ms", flat=True)) < far
    page = " ".join(sign_in("admin").get(f"/topics/{TOPIC}/audit/").content.decode().split())
    assert "3 bear a time that had not come" in page
    for _ in range(3):
        check.clock.advance(2 * GRACE_MS / 1000)
        check.tick()
    assert (row().checked, row().found) == (4, 2)
    later = publish()
    book()
    LedgerMessage.objects.filter(message_id=later).delete()
    for _ in range(2):
        check.clock.advance(2 * GRACE_MS / 1000)
        check.tick()
    assert (row().checked, row().found, later in ids()) == (5, 3, True)


def test_what_bears_a_time_that_has_not_come_is_looked_at_in_pages(
    check: Check, book: Callable[[], None], prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "PAGE", 7)
    by_hand(prefix, f"{FAR}-0", "from-afar")
    shared_producer().publish_batch(TOPIC, [BatchItem(BOOKING) for _ in range(50)])
    book()
    LedgerMessage.objects.filter(topic=TOPIC).delete()
    check.tick()
    check.clock.advance(2 * GRACE_MS / 1000)
    check.tick()
    assert (row().checked, row().found, row().ahead) == (51, 51, 51)


def test_an_entry_of_a_far_future_among_the_facts_makes_nothing_that_waits_look_booked(
    check: Check, book: Callable[[], None], prefix: str
) -> None:
    store.client().xadd(f"{prefix}:{{facts}}:log", {"x": "y"}, id=f"{FAR}-0")
    publish()
    book()
    publish()
    store.close()
    for _ in range(2):
        check.tick()
        check.clock.advance(60)
    assert check.found == 0
    book()
    check.tick()
    assert (check.found, row().checked) == (0, 2)


def test_what_cannot_be_read_is_told(check: Check, sign_in: Callable[..., Client]) -> None:
    bus.transport("").publish(TOPIC, [Outgoing("x", b"\xff[[["), Outgoing("y", b"[]")])
    check.tick()
    assert (row().checked, row().found, row().unreadable) == (2, 0, 2)
    page = " ".join(sign_in("admin").get(f"/topics/{TOPIC}/audit/").content.decode().split())
    assert "2 could not be read, so nothing was compared of them." in page
