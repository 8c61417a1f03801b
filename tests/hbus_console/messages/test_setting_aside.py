"""The search for lost outcomes passes what is not settled, sees what is booked late, and tells what a store lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import pytest
from django.test import Client

from engine.bus.producer import BatchItem
from engine.bus.transport import Receiver, Settlement
from hbus_console.messages import setting_aside
from hbus_console.messages.checking import GRACE_MS, SKEW_MS
from hbus_console.messages.models import (
    DeliveryAside,
    DeliveryCheck,
    LagSample,
    LedgerCheck,
    LedgerEvent,
    LedgerMessage,
)
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions.models import Subscription
from hbus_console.wiring import bus, store
from tests.hbus_console.messages.conftest import BOOKING, TOPIC, publish
from tests.hbus_console.messages.test_checking import FAR, by_hand
from tests.hbus_console.messages.test_delivery_checking import (
    GROUP,
    Check,
    check,
    looked_at,
    open_messages,
    passed,
    settle,
    tell,
)

__all__ = ["check"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


@pytest.fixture
def hand(installation: None) -> Iterator[Receiver]:
    """Somebody who takes messages and does not settle them."""
    made = bus.transport("").receiver(TOPIC, GROUP, consumer="hand", lease_ms=10**7)
    yield made
    made.close()


def lost() -> list[str]:
    return list(LedgerEvent.objects.filter(kind="lost").order_by("message_id").values_list("message_id", flat=True))


def page(sign_in: Callable[..., Client]) -> str:
    return " ".join(sign_in("admin").get(f"/topics/{TOPIC}/audit/").content.decode().split())


def test_what_is_lost_behind_a_message_that_is_not_settled_is_found(  # noqa: PLR0917
    check: Check,
    book: Callable[[], None],
    prefix: str,
    redis_url: str,
    hand: Receiver,
    sign_in: Callable[..., Client],
) -> None:
    # Given one that is in somebody's hand for ever, and one behind it of which nobody told
    stuck = publish()
    (delivery,) = hand.receive(1, 5)
    behind = publish()
    book()
    settle(1, redis_url, prefix)
    for _ in range(3):
        check.whole()
    assert (looked_at(), passed(), open_messages()) == ((1, 1), [behind], [stuck])
    assert "1 is not settled yet and looked at again." in page(sign_in)
    assert "What came later waits" not in page(sign_in)
    # When it is settled at last and that is told, it is looked at like any other
    assert hand.settle([Settlement(delivery.receipt)]) == [True]
    tell("settled", stuck)
    check.whole()
    assert (looked_at(), passed(), DeliveryAside.objects.count()) == ((2, 1), [behind], 0)


def test_what_is_settled_a_moment_ago_may_be_told_yet(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str, hand: Receiver
) -> None:
    publish()
    hand.receive(1, 5)
    behind = publish()
    book()
    check.later()
    check.sample()
    check.later()
    settle(1, redis_url, prefix)
    check.tick()
    assert (passed(), DeliveryAside.objects.filter(over_ms__gt=0).count()) == ([], 1)
    check.clock.advance(GRACE_MS / 2000)
    check.tick()
    assert passed() == []
    check.clock.advance(GRACE_MS / 1000)
    check.tick()
    assert passed() == [behind]


def test_beyond_the_bound_the_search_waits(  # noqa: PLR0917
    check: Check,
    book: Callable[[], None],
    prefix: str,
    redis_url: str,
    hand: Receiver,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(setting_aside, "MOST_ASIDE", 2)
    shared_producer().publish_batch(TOPIC, [BatchItem(BOOKING) for _ in range(3)])
    assert len(hand.receive(3, 5)) == 3
    behind = publish()
    book()
    settle(1, redis_url, prefix)
    for _ in range(3):
        check.whole()
    assert (passed(), DeliveryAside.objects.count()) == ([], 2)
    monkeypatch.setattr(setting_aside, "MOST_ASIDE", 4)
    for _ in range(3):
        check.whole()
    assert (passed(), DeliveryAside.objects.count()) == ([behind], 3)


@pytest.mark.parametrize("published_ms", [None, 1, FAR])
def test_a_row_that_is_booked_late_is_found_and_so_is_one_of_an_impossible_time(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str, published_ms: int | None
) -> None:
    publish()
    late = publish()
    book()
    settle(2, redis_url, prefix)
    held_back = LedgerMessage.objects.get(message_id=late)
    held_back.delete()
    check.later()
    check.sample()
    check.later()
    # The comparison of publishes must not book it before its own fact.
    LedgerCheck.objects.update_or_create(topic=TOPIC, defaults={"until_ms": check.clock.now_ms()})
    check.tick()
    assert looked_at() == (1, 1)
    held_back.pk = None
    if published_ms is not None:
        held_back.published_ms = published_ms
    held_back.save(force_insert=True)
    for _ in range(3):
        check.whole()
    assert (looked_at(), late in passed(), DeliveryAside.objects.count()) == ((2, 2), True, 0)


def test_positions_that_are_none_and_times_that_are_none_stop_nothing(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str
) -> None:
    by_hand(prefix, f"{FAR}-0", "from-afar")
    behind = publish()
    book()
    now_ms = check.clock.now_ms() + 1
    LedgerMessage.objects.create(
        message_id="odd", topic=TOPIC, type="t", source="/s", size=1, published_ms=now_ms, position="nowhere"
    )
    settle(2, redis_url, prefix)
    for _ in range(4):
        check.whole()
    assert passed() == sorted([behind, "from-afar", "odd"])


def test_what_an_emptied_store_had_is_lost_and_what_it_was_done_with_is_not(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str, sign_in: Callable[..., Client]
) -> None:
    untold = publish()
    book()
    settle(1, redis_url, prefix)
    waiting = publish()
    book()
    check.sample()
    LagSample.objects.update(at_ms=LedgerMessage.objects.get(message_id=waiting).published_ms + 1)
    empty(prefix)
    bus.admin().create_group(TOPIC, GROUP)
    for _ in range(3):
        check.whole()
    assert (passed(), lost(), open_messages()) == ([untold], [waiting], [])
    assert DeliveryCheck.objects.get().lost == 1
    assert "1 was lost</a>: the store no longer has it" in page(sign_in)
    timeline = sign_in("admin").get(f"/messages/{waiting}").content.decode()
    assert "Lost: the store no longer has it for" in timeline
    listed = sign_in("admin").get("/api/v1/messages", {"topic": TOPIC, "outcome": "lost"}).json()["results"]
    assert [(each["id"], each["outcome"]["lost"]) for each in listed] == [(waiting, [GROUP])]


def test_of_an_emptied_store_nobody_is_told_that_retention_took_the_payload(
    check: Check, book: Callable[[], None], prefix: str, sign_in: Callable[..., Client]
) -> None:
    settled = publish()
    book()

    def told() -> str:
        return sign_in("admin").get(f"/messages/{settled}").content.decode()

    store.client().xtrim(f"{prefix}:{{{TOPIC}}}:normal", maxlen=0)
    assert "Retention has removed the payload; what happened" in told()
    LedgerMessage.objects.filter(message_id=settled).update(published_ms=check.began_ms - SKEW_MS)
    empty(prefix)
    bus.admin().create_group(TOPIC, GROUP)
    assert "Its store was emptied since, and the payload is gone; what happened" in told()


def test_what_waited_is_lost_also_when_the_store_was_emptied_once_more_before_anybody_asked(
    check: Check, book: Callable[[], None], prefix: str
) -> None:
    waiting = publish()
    book()
    published_ms = check.began_ms - 10 * SKEW_MS
    LedgerMessage.objects.filter(message_id=waiting).update(published_ms=published_ms)
    Subscription.objects.update(created_at=datetime.fromtimestamp(published_ms / 1000 - 1, UTC))
    for at_ms in (published_ms + 1, 0):
        check.sample()
        sample = LagSample.objects.latest("pk")
        # In the second life nothing waits, and it is seen while that lasts.
        sample.began_ms = sample.began_ms if not at_ms else published_ms - 1
        sample.at_ms, sample.oldest_ms = at_ms or sample.began_ms, (at_ms and published_ms) or None
        sample.save()
        empty(prefix)
        bus.admin().create_group(TOPIC, GROUP)
    assert list(LagSample.objects.order_by("pk").values_list("waiting", flat=True)) == [1, 0]
    for _ in range(3):
        check.whole()
    assert (passed(), lost()) == ([], [waiting])


def test_what_one_old_message_kept_open_in_an_emptied_store_is_lost_and_of_the_rest_nobody_knows(
    check: Check, book: Callable[[], None], prefix: str, redis_url: str, hand: Receiver
) -> None:
    kept = publish()
    hand.receive(1, 5)
    untold = publish()
    book()
    settle(1, redis_url, prefix)
    tell("retried", kept)
    check.sample()
    sample = LagSample.objects.get()
    assert (sample.waiting, sample.in_flight) == (0, 1)
    long_ago_ms = check.began_ms - 10 * SKEW_MS
    LedgerMessage.objects.filter(topic=TOPIC).update(published_ms=long_ago_ms)
    LagSample.objects.update(oldest_ms=long_ago_ms)
    Subscription.objects.update(created_at=datetime.fromtimestamp(long_ago_ms / 1000 - 1, UTC))
    waiting = publish()
    book()
    empty(prefix)
    bus.admin().create_group(TOPIC, GROUP)
    for _ in range(3):
        check.whole()
    assert (passed(), lost()) == ([untold], sorted([kept, waiting]))


def test_what_somebody_took_out_of_the_store_is_lost(
    check: Check, book: Callable[[], None], prefix: str, hand: Receiver
) -> None:
    taken = publish()
    hand.receive(1, 5)
    book()
    position = LedgerMessage.objects.get(message_id=taken).position
    check.whole()
    assert DeliveryAside.objects.count() == 1
    store.client().xdel(f"{prefix}:{{{TOPIC}}}:normal", position)
    for _ in range(3):
        check.whole()
    assert (lost(), passed(), DeliveryAside.objects.count()) == ([taken], [], 0)


def test_what_the_ledger_let_go_of_before_is_counted(
    check: Check, book: Callable[[], None], hand: Receiver, sign_in: Callable[..., Client]
) -> None:
    gone = publish()
    hand.receive(1, 5)
    book()
    check.whole()
    LedgerMessage.objects.filter(message_id=gone).delete()
    check.whole()
    row = DeliveryCheck.objects.get()
    assert (row.skipped, DeliveryAside.objects.count()) == (1, 0)
    until_ms = row.until_ms
    LedgerMessage.objects.all().delete()
    LedgerMessage.objects.create(
        message_id="later", topic="gone", type="t", source="/s", size=1, published_ms=until_ms + 500_000
    )
    check.clock.advance(3_600)
    check.whole()
    assert DeliveryCheck.objects.get().skipped_ms == 500_000 + GRACE_MS
    assert "Not looked at before the ledger let go of it: 1 message, and what was published in" in page(sign_in)


def empty(prefix: str) -> None:
    """As FLUSHALL does; what stands beside it is other tests'."""
    keys = list(store.client().scan_iter(f"{prefix}:{{{TOPIC}}}*"))
    store.client().delete(*keys)
