from __future__ import annotations

import pytest

from engine.core.clock import ManualClock
from hbus_console.evidence.totals import MOST_OF_A_ROW
from hbus_console.messages import retention
from hbus_console.messages.models import FlowRollup, FlowSample, LagSample, LedgerEvent, LedgerMessage
from hbus_console.messages.retention import DAY_MS, LedgerRetention

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

NOW = 1_790_000_100_000


def message(number: int, published_ms: int) -> None:
    LedgerMessage.objects.create(
        message_id=f"m{number}", source="/t", topic="t", type="t", size=1, published_ms=published_ms
    )
    LedgerEvent.objects.create(
        message_id=f"m{number}", kind="settled", topic="t", subscription="s", at_ms=published_ms + 5
    )


def keep(most: int) -> None:
    LedgerRetention(most, clock=ManualClock(NOW)).tick()


def test_the_newest_messages_stay_with_their_events(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "BATCH", 3)
    for number in range(20):
        message(number, NOW + number * 1_000)
    keep(5)
    kept = {f"m{number}" for number in range(15, 20)}
    assert set(LedgerMessage.objects.values_list("message_id", flat=True)) == kept
    assert set(LedgerEvent.objects.values_list("message_id", flat=True)) == kept


def test_nothing_goes_while_there_is_room() -> None:
    for number in range(5):
        message(number, NOW)
    keep(5)
    assert (LedgerMessage.objects.count(), LedgerEvent.objects.count()) == (5, 5)


def test_attempts_booked_before_their_message_stay_until_the_ledger_is_full() -> None:
    """Found by a stranger: a message that somebody else's program wrote gets its row minutes after its attempts."""
    LedgerEvent.objects.create(message_id="theirs", kind="dead", topic="t", subscription="s", at_ms=NOW - 1_000)
    for number in range(2):
        message(number, NOW)
    keep(3)
    assert LedgerEvent.objects.filter(message_id="theirs").exists()
    keep(2)
    assert not LedgerEvent.objects.filter(message_id="theirs").exists()


def test_a_delayed_message_published_late_takes_no_events_of_others_with_it() -> None:
    # Given that the first row is a delayed message which got its position only now
    message(0, NOW + 50_000)
    message(1, NOW)
    keep(2)
    assert LedgerEvent.objects.count() == 2


def test_old_flow_is_folded_without_losing_a_count() -> None:
    old = NOW - 3 * DAY_MS
    old -= old % retention.COARSE_MS
    for slot in range(45):
        FlowSample.objects.create(topic="t", bucket_ms=old + slot * 10_000, published=2)
        FlowSample.objects.create(topic="t", subscription="s", bucket_ms=old + slot * 10_000, settled=1)
    recent = FlowSample.objects.create(topic="t", bucket_ms=NOW - NOW % 10_000, published=7)
    keep(5)

    rows = FlowSample.objects.exclude(pk=recent.pk).order_by("subscription", "bucket_ms")
    assert [(row.subscription, row.bucket_ms - old, row.published, row.settled) for row in rows] == [
        ("", 0, 60, 0),
        ("", 300_000, 30, 0),
        ("s", 0, 0, 30),
        ("s", 300_000, 0, 15),
    ]
    assert FlowSample.objects.get(pk=recent.pk).published == 7


def test_flow_that_no_sum_holds_is_folded_too() -> None:
    old = NOW - 3 * DAY_MS
    old -= old % retention.COARSE_MS
    for slot in range(30):
        FlowSample.objects.create(topic="t", bucket_ms=old + slot * 10_000, settled=1, duration_us=2**63 - 1)
    keep(5)

    row = FlowSample.objects.get()
    assert (row.settled, row.duration_us) == (30, 30 * MOST_OF_A_ROW)


def test_samples_end_after_their_time() -> None:
    for age in (13, 15):
        FlowRollup.objects.create(topic="t", bucket_ms=(NOW - age * DAY_MS) // 300_000 * 300_000, published=1)
        FlowSample.objects.create(topic="t", bucket_ms=(NOW - age * DAY_MS) // 300_000 * 300_000, published=1)
        at_ms = (NOW - age * DAY_MS) // 300_000 * 300_000
        LagSample.objects.create(at_ms=at_ms, topic="t", subscription="s", waiting=0, in_flight=0, retrying=0)
    keep(5)
    assert (FlowSample.objects.count(), LagSample.objects.count()) == (1, 1)
    assert FlowRollup.objects.count() == 1


def test_the_duty_thins_old_readings_of_the_lag() -> None:
    old = (NOW - 3 * DAY_MS) // 300_000 * 300_000
    for tick in range(3):
        LagSample.objects.create(
            at_ms=old + tick * 5_000, topic="t", subscription="s", waiting=0, in_flight=0, retrying=0
        )
    keep(5)
    assert LagSample.objects.count() == 1
