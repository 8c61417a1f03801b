"""What cannot go on in one topic or subscription keeps the search for untold things from no other."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest

from engine.bus.producer import BatchItem
from engine.core.clock import ManualClock
from engine.core.errors import ConfigurationError, HbusError
from hbus_console.access.permissions import SYSTEM
from hbus_console.evidence.fact_stream import FactReader
from hbus_console.messages import setting_aside
from hbus_console.messages.checking import EvidenceCheck
from hbus_console.messages.delivery_checking import DeliveryEvidenceCheck
from hbus_console.messages.models import DeliveryAside, DeliveryCheck, LedgerCheck, LedgerMessage
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store
from tests.hbus_console.messages.conftest import BOOKING, TOPIC, publish
from tests.hbus_console.messages.test_checking import by_hand
from tests.hbus_console.messages.test_delivery_checking import Check, check, passed, settle

__all__ = ["check"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

NOWHERE = "redis_stream@nowhere"


class OneTurn(ManualClock):
    """Each turn takes so long that a tick has time for no other."""

    def monotonic(self) -> float:
        self.advance(0)
        self._monotonic += 2.0
        return self._monotonic


@pytest.fixture
def newest(prefix: str) -> Callable[[], str]:
    return lambda: FactReader(store.client(), prefix).end()[0]


@pytest.fixture
def held(check: Check, django_capture_on_commit_callbacks: Callable[..., object]) -> str:
    """A subscription before ``billing`` that never settles anything."""
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[attr-defined]
        subscriptions.create_subscription(SYSTEM, SubscriptionDraft(topic=TOPIC, group="archive", owner="Reservations"))
        subscriptions.pause_subscription(SYSTEM, TOPIC, "archive", "moves to another database")
    return "archive"


def transport_of(name: str) -> object:
    if name == NOWHERE:
        raise ConfigurationError("There is no store called 'nowhere'.")
    return bus.transport(name)


def ready(check: Check) -> None:
    """A sample that may be judged by, and publishes compared up to now."""
    check.later()
    check.sample()
    check.later()
    LedgerCheck.objects.update_or_create(topic=TOPIC, defaults={"until_ms": check.clock.now_ms()})


def test_a_subscription_that_holds_more_than_is_set_aside_stops_no_other(  # noqa: PLR0917
    held: str,
    check: Check,
    newest: Callable[[], str],
    book: Callable[[], None],
    prefix: str,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(setting_aside, "MOST_ASIDE", 2)
    ids = [answer.message_id for answer in shared_producer().publish_batch(TOPIC, [BatchItem(BOOKING)] * 4)]  # type: ignore[union-attr]
    book()
    settle(4, redis_url, prefix)
    ready(check)
    clock = OneTurn(check.clock.now_ms())
    duty = DeliveryEvidenceCheck(bus.transport, newest, lambda told: None, clock=clock)
    # It is the furthest behind, and stays so.
    DeliveryCheck.objects.create(
        topic=TOPIC, subscription=held, until_ms=LedgerMessage.objects.earliest("pk").published_ms
    )
    for _ in range(6):
        duty.tick()
    assert passed() == sorted(ids)
    assert DeliveryAside.objects.filter(check_of__subscription=held).count() == 2


def test_what_cannot_go_on_is_not_asked_about_all_the_time(
    held: str,
    check: Check,
    newest: Callable[[], str],
    book: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(setting_aside, "MOST_ASIDE", 2)
    Subscription.objects.exclude(group=held).delete()
    shared_producer().publish_batch(TOPIC, [BatchItem(BOOKING)] * 4)
    book()
    ready(check)
    duty = DeliveryEvidenceCheck(bus.transport, newest, lambda told: None, clock=check.clock)
    duty.tick()
    looks: list[int] = []
    monkeypatch.setattr(DeliveryEvidenceCheck, "_look", lambda *_: bool(looks.append(1)))
    for _ in range(3):
        check.clock.advance(duty.interval_s)
        duty.tick()
    assert looks == []
    check.clock.advance(duty.interval_s)
    duty.tick()
    assert looks == [1]


def test_a_store_that_nobody_knows_stops_neither_search_elsewhere(
    check: Check, newest: Callable[[], str], book: Callable[[], None], prefix: str, redis_url: str
) -> None:
    untold = publish()
    book()
    settle(1, redis_url, prefix)
    by_hand(prefix, "*", "by-hand")
    away = Topic.objects.get(name="stay.completed")
    Topic.objects.filter(pk=away.pk).update(transport=NOWHERE)
    Subscription.objects.create(topic=away, group="a", team=away.team)
    check.later()
    with contextlib.suppress(HbusError):
        check.sample()
    check.later()
    clock = OneTurn(check.clock.now_ms())
    # It can never be asked, so it would be the furthest behind for ever.
    LedgerCheck.objects.create(topic=away.name, until_ms=1)
    published = EvidenceCheck(transport_of, newest, lambda told: None, clock=clock)  # type: ignore[arg-type]
    delivered = DeliveryEvidenceCheck(transport_of, newest, lambda told: None, clock=clock)  # type: ignore[arg-type]
    for duty in (published, delivered):
        said = []
        for _ in range(6):
            try:
                duty.tick()
            except Exception as error:  # noqa: BLE001 - whatever is told of the one that cannot be asked
                said.append(str(error))
        assert [each for each in said if "There is no store called 'nowhere'" in each]
    assert LedgerMessage.objects.filter(message_id="by-hand").exists()
    assert untold in passed()


def test_who_waits_for_room_holds_up_nobody_elses_late_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting_aside, "MOST_ASIDE", 1)
    monkeypatch.setattr(setting_aside, "MOST_LATE", 3)
    monkeypatch.setattr(setting_aside, "TOGETHER", 8)
    full = DeliveryCheck.objects.create(topic="a", subscription="a", until_ms=10**6, booked_id=1)
    DeliveryAside.objects.create(check_of=full, row_id=10**9, asked_ms=1)
    other = DeliveryCheck.objects.create(topic="b", subscription="b", until_ms=10**6, booked_id=1)
    rows = [
        LedgerMessage(message_id=str(n), topic=topic, type="t", source="/s", size=1, published_ms=1)
        for n, topic in enumerate("aaaaaaaaab")
    ]
    LedgerMessage.objects.bulk_create(rows)
    last = LedgerMessage.objects.order_by("pk").last()
    assert last is not None
    for row in (full, other):
        row.booked_id = rows[0].pk - 1
        row.save()
    for _ in range(4):
        late = setting_aside.late_rows([full, other], last.pk, 10**6)
        for row in (full, other):
            if (look := setting_aside.take_late(row, late, last.pk, 10**6)) is not None:
                look.write(row)
    assert [each.row_id for each in other.aside.all()] == [last.pk]
    # And nothing of its own is passed over meanwhile
    full.aside.all().delete()
    late = setting_aside.late_rows([full, other], last.pk, 10**6)
    look = setting_aside.take_late(full, late, last.pk, 10**6)
    assert look is not None
    assert [each.row_id for each in look.aside] == [rows[0].pk]
