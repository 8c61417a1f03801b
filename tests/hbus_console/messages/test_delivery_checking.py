"""What a killed consumer told nobody is found by what the store is past, and nothing stays "not handled yet"."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Sequence

import pytest
from django.test import Client
from pytest_django import Settings

from engine.bus.facts import Fact, batches
from engine.bus.producer import BatchItem
from engine.bus.transport import Outgoing
from engine.core.clock import ManualClock, SystemClock, to_datetime
from engine.core.facts import FactBatch, NullFacts
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.fact_stream import FactReader
from hbus_console.messages import delivery_checking
from hbus_console.messages.became import unsettled
from hbus_console.messages.checking import GRACE_MS, SKEW_MS, EvidenceCheck
from hbus_console.messages.delivery_checking import DeliveryEvidenceCheck
from hbus_console.messages.models import DeliveryCheck, LagSample, LedgerEvent, LedgerMessage
from hbus_console.publishing.producer import shared_producer
from hbus_console.state import ROOT
from hbus_console.subscriptions.models import Subscription
from hbus_console.traffic.sampler import LagSampler
from hbus_console.wiring import bus, store
from tests.hbus_console.messages.conftest import BOOKING, TOPIC, publish

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

GROUP = "billing"
#: Its facts go to the store after what they tell of. The process does not live to see that.
KILLED = """
import os, signal, sys, time
from engine.bus.config import BusConfig
from engine.bus.consumer import Consumer
from engine.bus.policy import SubscriptionPolicy
from engine.bus.registry import open_transport
from engine.core.fact_log import FactLog

class Busy:
    def write(self, facts):
        time.sleep(3600)

url, prefix, topic, group, many = sys.argv[1:]
transport = open_transport(BusConfig(url=url, prefix=prefix))
consumer = Consumer(transport, SubscriptionPolicy(topic, group), lambda m, c: None, name="w", facts=FactLog(Busy()))
consumer.start()
while transport.admin.counts(topic, group).get("settled", 0) < int(many):
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""


class Check:
    """Both duties and the sampler, each some minutes after the one before."""

    def __init__(self, prefix: str) -> None:
        self.began_ms = SystemClock().now_ms()
        self.clock = ManualClock(self.began_ms)
        self.counted: list[FactBatch] = []
        self._prefix = prefix

    def sample(self) -> None:
        LagSampler(bus.admin, NullFacts(), clock=self.clock).tick()

    def later(self) -> None:
        """Long enough that the sample before may be judged by."""
        self.clock.advance((GRACE_MS + SKEW_MS) / 1000 + 1)

    def tick(self) -> None:
        def newest() -> str:
            return FactReader(store.client(), self._prefix).end()[0]

        EvidenceCheck(bus.transport, newest, self._count, clock=self.clock).tick()
        DeliveryEvidenceCheck(bus.transport, newest, self._count, clock=self.clock).tick()

    def whole(self) -> None:
        self.later()
        self.sample()
        self.later()
        self.tick()

    def _count(self, told: Sequence[FactBatch]) -> None:
        self.counted += [batch for batch in told if batch.kind == "passed"]

    @property
    def found(self) -> int:
        return sum(batch.count for batch in self.counted)


@pytest.fixture
def check(installation: None, prefix: str) -> Check:
    # What the ledger has begins with a message of long ago, so that all of today is looked at.
    LedgerMessage.objects.create(
        message_id="first", topic="gone", type="t", source="/s", size=1, published_ms=SystemClock().now_ms() - 10**7
    )
    Subscription.objects.exclude(group=GROUP).delete()
    return Check(prefix)


def looked_at() -> tuple[int, int]:
    """How many, and of how many of these nobody had told."""
    rows = list(DeliveryCheck.objects.filter(topic=TOPIC, subscription=GROUP).values_list("checked", "found"))
    return rows[0] if rows else (0, 0)


def passed() -> list[str]:
    return list(LedgerEvent.objects.filter(kind="passed").order_by("message_id").values_list("message_id", flat=True))


def source_of(message_id: str) -> str:
    return LedgerMessage.objects.get(message_id=message_id).source


def tell(kind: str, message_id: str, group: str = GROUP) -> None:
    told, source = Booking(), source_of(message_id)
    fact = Fact(kind, SystemClock().now_ms(), TOPIC, subscription=group, message_id=message_id, source=source)
    told.add(batches([fact]))
    told.write()


def open_messages() -> list[str]:
    newest = LedgerMessage.objects.filter(topic=TOPIC).order_by("-pk")
    return [message.message_id for message in unsettled(lambda cursor, most: (list(newest), ""), "", 100).messages]


def settle(number: int, redis_url: str, prefix: str) -> None:
    """By a consumer that is killed before it has told of any."""
    ended = subprocess.run(
        [sys.executable, "-c", KILLED, redis_url, prefix, TOPIC, GROUP, str(number)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def test_what_a_killed_consumer_told_nobody_is_told_as_that_once(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str, sign_in: Callable[..., Client]
) -> None:
    answers = shared_producer().publish_batch(TOPIC, [BatchItem(BOOKING) for _ in range(30)])
    book()
    ids = sorted(answer.message_id for answer in answers)  # type: ignore[union-attr]
    settle(30, redis_url, prefix)
    book()
    assert LedgerEvent.objects.count() == 0
    assert len(open_messages()) == 30

    check.whole()
    assert passed() == ids
    assert (*looked_at(), check.found) == (30, 30, 30)
    assert open_messages() == []
    client = sign_in("admin")
    page = " ".join(client.get(f"/topics/{TOPIC}/audit/").content.decode().split())
    assert ">30 of 30 messages</a> published up to" in page
    assert f"?topic={TOPIC}&amp;outcome=nobody-told" in page
    found = client.get("/api/v1/messages", {"outcome": "nobody-told"}).json()["results"]
    assert sorted(each["id"] for each in found) == ids
    timeline = client.get(f"/messages/{ids[0]}").content.decode()
    assert "Nobody told what became of it in" in timeline
    assert ">nobody told<" in timeline
    listed = client.get("/api/v1/messages", {"topic": TOPIC}).json()["results"]
    assert {tuple(each["outcome"]["nobody_told"]) for each in listed} == {(GROUP,)}

    check.whole()
    assert (*looked_at(), check.found, len(passed())) == (30, 30, 30, 30)


def test_what_the_store_is_not_past_waits(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str, sign_in: Callable[..., Client]
) -> None:
    settled = publish()
    book()
    settle(1, redis_url, prefix)
    waiting = publish()
    book()
    check.whole()
    assert (looked_at(), passed(), open_messages()) == ((1, 1), [settled], [waiting])
    held = "What came later waits for an older message that is not settled."
    client = sign_in("admin")
    assert held not in client.get(f"/topics/{TOPIC}/audit/").content.decode()
    DeliveryCheck.objects.update(until_ms=SystemClock().now_ms() - 10**6)
    assert held in client.get(f"/topics/{TOPIC}/audit/").content.decode()


@pytest.mark.parametrize("kind", ["settled", "dead", "expired", "skipped", "deduplicated"])
def test_what_was_told_is_not_told_again(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str, kind: str
) -> None:
    told = publish()
    book()
    settle(1, redis_url, prefix)
    tell(kind, told)
    check.whole()
    assert (*looked_at(), passed()) == (1, 0, [])


def test_an_outcome_of_another_subscription_or_of_an_attempt_is_none_of_this_one(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str
) -> None:
    told = publish()
    book()
    settle(1, redis_url, prefix)
    tell("retried", told)
    tell("settled", told, group="somebody-else")
    check.whole()
    assert passed() == [told]


def test_a_death_of_which_nobody_told_is_told_by_its_letter(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str, sign_in: Callable[..., Client]
) -> None:
    """It stood as retrying for good."""
    told = publish()
    book()
    settle(1, redis_url, prefix)
    tell("retried", told)
    at = to_datetime(check.clock.now_ms())
    history = [{"number": 3, "at_ms": 1, "duration_us": 1_500, "consumer": "w7", "error": "E: no"}]
    DeadLetter.objects.create(
        topic=TOPIC, subscription=GROUP, message_id=told, body=b"", attempts=3, first_failed_at=at, died_at=at,
        error="E: no", fingerprint="7c1f9a", history=history, source=source_of(told),
    )  # fmt: skip
    for _ in range(2):
        check.whole()
    assert (passed(), looked_at()) == ([], (1, 0))
    event = LedgerEvent.objects.get(kind="dead")
    assert (event.message_id, event.subscription, event.attempt) == (told, GROUP, 3)
    assert (event.at_ms, event.error, event.fingerprint, event.node) == (check.began_ms, "E: no", "7c1f9a", "w7")
    outcome = sign_in("admin").get("/api/v1/messages", {"topic": TOPIC}).json()["results"][0]["outcome"]
    assert (outcome["dead"], outcome["retrying"]) == ([GROUP], [])


def test_a_death_that_may_be_told_yet_is_waited_for(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str
) -> None:
    told = publish()
    book()
    settle(1, redis_url, prefix)
    died_ms = check.clock.now_ms() + 2 * (GRACE_MS + SKEW_MS) + 1_000
    at = to_datetime(died_ms)
    DeadLetter.objects.create(
        topic=TOPIC, subscription=GROUP, message_id=told, source=source_of(told), body=b"", attempts=3,
        first_failed_at=at, died_at=at,
    )  # fmt: skip
    check.whole()
    assert not LedgerEvent.objects.filter(kind="dead").exists()
    for _ in range(2):
        check.whole()
    assert LedgerEvent.objects.filter(kind="dead").count() == 1


def test_the_consumer_that_tells_after_all_is_believed(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str, sign_in: Callable[..., Client]
) -> None:
    told = publish()
    book()
    settle(1, redis_url, prefix)
    check.whole()
    tell("settled", told)
    outcome = sign_in("admin").get("/api/v1/messages", {"topic": TOPIC}).json()["results"][0]["outcome"]
    assert (outcome["settled"], outcome["nobody_told"]) == ([GROUP], [])


def test_one_in_five_thousand_is_found_over_pages_and_moments(
    check: Check, book: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery_checking, "PAGE", 700)
    now_ms = check.clock.now_ms() + 1_000
    rows = [
        # A hundred share each moment.
        LedgerMessage(message_id=f"m{n}", topic=TOPIC, type="t", source="/s", size=1, published_ms=now_ms + n // 100)
        for n in range(5_000)
    ]
    LedgerMessage.objects.bulk_create(rows)
    settled = [each for each in rows if each.message_id != "m3141"]
    LedgerEvent.objects.bulk_create(
        LedgerEvent(message_id=each.message_id, kind="settled", topic=TOPIC, subscription=GROUP, at_ms=now_ms)
        for each in settled
    )
    check.whole()
    assert (*looked_at(), passed()) == (5_000, 1, ["m3141"])


def test_where_nobody_knows_what_waits_nothing_is_judged(check: Check, book: Callable[[], None]) -> None:
    publish()
    book()
    check.later()
    at_ms = check.clock.now_ms()
    for waiting, oldest_ms in ((None, None), (1, None), (1, at_ms - 10**6)):
        LagSample.objects.all().delete()
        LagSample.objects.create(
            at_ms=at_ms, topic=TOPIC, subscription=GROUP, waiting=waiting, in_flight=0, retrying=0, oldest_ms=oldest_ms
        )
        check.later()
        check.tick()
        assert DeliveryCheck.objects.filter(checked__gt=0).count() == 0


def test_a_newer_subscription_answers_for_nothing_before_it_and_one_that_is_gone_is_forgotten(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str
) -> None:
    publish()
    book()
    Subscription.objects.filter(group=GROUP).update(created_at=to_datetime(check.clock.now_ms() + 1_000))
    settle(1, redis_url, prefix)
    check.whole()
    assert (DeliveryCheck.objects.count(), *looked_at()) == (1, 0, 0)
    Subscription.objects.get(group=GROUP).delete()
    check.tick()
    assert DeliveryCheck.objects.count() == 0


def test_without_a_ledger_nothing_is_looked_at(check: Check, settings: Settings) -> None:
    settings.HBUS_LEDGER = False
    check.whole()
    assert DeliveryCheck.objects.count() == 0


def test_copies_for_another_subscription_are_none_of_its_messages(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str
) -> None:
    original = publish()
    book()
    settle(1, redis_url, prefix)
    tell("settled", original)
    at = to_datetime(check.clock.now_ms())
    for copy, group in (("for-us", GROUP), ("for-them", "partner-sync")):
        LedgerMessage.objects.create(
            message_id=copy, topic=TOPIC, type="t", source=source_of(original), size=1,
            published_ms=check.clock.now_ms() + 1_000, causation_id=original,
        )  # fmt: skip
        DeadLetter.objects.create(
            topic=TOPIC, subscription=group, message_id=original, body=b"", attempts=3, first_failed_at=at, died_at=at,
            source=source_of(original), state="redriven", redriven_as=copy, entry_digest=copy,
        )  # fmt: skip
    check.whole()
    assert (*looked_at(), passed()) == (2, 1, ["for-us"])


def test_a_message_that_names_another_subscription_is_none_of_its_messages(
    check: Check, prefix: str, redis_url: str
) -> None:
    """Also one that a plain client wrote, of which nothing but the envelope says so."""
    envelope = b'{"specversion":"1.0","id":"%s","source":"/plain","type":"t","hbustarget":"%s"}'
    bus.transport("").publish(
        TOPIC,
        [
            Outgoing("for-us", envelope % (b"for-us", GROUP.encode())),
            Outgoing("for-them", envelope % (b"for-them", b"partner-sync")),
        ],
    )
    settle(2, redis_url, prefix)
    for _ in range(2):
        check.whole()
    assert (*looked_at(), passed()) == (1, 1, ["for-us"])


def test_a_publisher_whose_clock_is_behind_makes_nothing_look_past(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str
) -> None:
    waiting = publish()
    book()
    LedgerMessage.objects.filter(message_id=waiting).update(published_ms=check.clock.now_ms() - 100_000)
    Subscription.objects.update(created_at=to_datetime(check.clock.now_ms() - 10**6))
    check.whole()
    assert (looked_at(), open_messages()) == ((0, 0), [waiting])
    settle(1, redis_url, prefix)
    check.whole()
    assert (looked_at(), passed()) == ((1, 1), [waiting])


def test_what_the_store_no_longer_has_is_judged_by_what_its_publisher_said(
    check: Check, book: Callable[[], None]
) -> None:
    now_ms = check.clock.now_ms()
    for message_id, at_ms in (("old", now_ms + 1_000), ("young", now_ms + 2 * GRACE_MS + SKEW_MS // 2)):
        LedgerMessage.objects.create(
            message_id=message_id, topic=TOPIC, type="t", source="/s", size=1, published_ms=at_ms, position="1-1"
        )
    LagSample.objects.create(
        at_ms=now_ms + 2 * (GRACE_MS + SKEW_MS), topic=TOPIC, subscription=GROUP, waiting=0, in_flight=0, retrying=0
    )
    check.clock.advance(3 * (GRACE_MS + SKEW_MS) / 1000)
    check.tick()
    assert passed() == ["old"]
