"""An operation tells what became of what it published, and is not done before that is known."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from engine.bus.conformance.running import FactRecorder
from engine.core.clock import ManualClock, SystemClock
from hbus_console.access.permissions import Actor
from hbus_console.accounts.models import User
from hbus_console.audit.models import AuditEntry
from hbus_console.deadletters.services import redrive_now
from hbus_console.evidence.freshness import Freshness
from hbus_console.messages.models import LedgerEvent
from hbus_console.operations import live, reading, services, watching
from hbus_console.operations.models import Operation, OperationItem
from hbus_console.operations.outcomes import PATIENCE
from hbus_console.operations.runner import OperationRunner
from hbus_console.operations.watching import OutcomeWatcher
from hbus_console.subscriptions.models import Subscription
from tests.hbus_console.deadletters.conftest import MakeLetter
from tests.hbus_console.kept import kept

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

SPEC = {"topic": "booking.changed"}
#: The keeper goes on.
BOOKED = Freshness(0, known=True)


@dataclass
class Bench:
    """Somebody who redrives, and the two duties under one clock."""

    operator: Actor
    runner: OperationRunner
    watcher: OutcomeWatcher
    clock: ManualClock

    def redrive(self, *, rate_per_s: int = 0, first: int = 0) -> Operation:
        started = services.start(
            self.operator, "redrive", SPEC, reason="room map deployed", rate_per_s=rate_per_s, first=first
        )
        self.runner.tick()
        started.operation.refresh_from_db()
        return started.operation


@pytest.fixture
def bench(operator: Actor, facts: FactRecorder, clock: ManualClock, subscription: Subscription) -> Bench:
    Subscription.objects.update(handler_name="hotel.sync")
    return Bench(operator, OperationRunner(clock), OutcomeWatcher(clock), clock)


def copies() -> list[str]:
    items = OperationItem.objects.order_by("pk")
    return [item.made.name for item in items if item.made]


def said(message_id: str, kind: str) -> None:
    LedgerEvent.objects.create(
        message_id=message_id, kind=kind, topic="booking.changed", subscription="partner-sync", at_ms=1, attempt=1
    )


def sentence(operation: Operation) -> str:
    operation.refresh_from_db()
    return reading.sentences([operation], BOOKED)[operation.pk]


def counts(operation: Operation) -> tuple[int, ...]:
    operation.refresh_from_db()
    names = ("copies", "settled", "died", "unhandled", "unknown", "waiting", "retrying")
    return tuple(getattr(operation, name) for name in names)


def test_it_is_done_when_the_last_copy_is_decided(bench: Bench, make_letter: MakeLetter) -> None:
    for _ in range(5):
        make_letter()
    operation = bench.redrive()
    assert (operation.state, operation.done, operation.percent) == ("settling", 5, 0)
    end = AuditEntry.objects.get(action="operation.end")
    assert (end.after["state"], end.after["copies"], end.after["waiting"]) == ("settling", 5, 5)

    first, second, third, fourth, fifth = copies()
    said(first, "settled")
    said(second, "dead")
    said(third, "expired")
    said(fourth, "retried")
    bench.watcher.tick()
    assert counts(operation) == (5, 1, 1, 1, 0, 2, 1)
    assert (operation.state, operation.percent) == ("settling", 60)
    assert sentence(operation) == (
        "copied; 1 settled, 1 died again, 1 ended unhandled, 1 is retrying, 1 waits to be handled"
    )
    assert not AuditEntry.objects.filter(action="operation.outcome").exists()

    said(fourth, "settled")
    said(fifth, "settled")
    bench.clock.advance(60)
    bench.watcher.tick()
    assert counts(operation) == (5, 3, 1, 1, 0, 0, 0)
    assert (operation.state, operation.percent, operation.moves) == ("done", 100, False)
    assert sentence(operation) == "3 settled, 1 died again, 1 ended unhandled"
    told = AuditEntry.objects.get(action="operation.outcome")
    assert (told.before, told.after["state"], told.after["settled"]) == ({"state": "settling"}, "done", 3)
    bench.watcher.tick()
    assert AuditEntry.objects.filter(action="operation.outcome").count() == 1


def test_at_no_moment_more_are_told_than_were_published(
    bench: Bench, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        make_letter()
    operation = bench.redrive()
    first, second, third = copies()
    for each in (first, second):
        said(each, "retried")
    bench.watcher.tick()
    assert counts(operation) == (3, 0, 0, 0, 0, 3, 2)
    # Somebody reads between the pages of a look, and before it has come to its end.
    for each in (first, third):
        said(each, "settled")
    monkeypatch.setattr(watching, "PAGE", 1)
    monkeypatch.setattr(watching, "PAGES", 1)
    bench.clock.advance(60)
    seen = []
    while operation.items.filter(outcome="settled").count() < 2:
        bench.watcher.tick()
        seen.append((counts(operation)[1], counts(operation)[5:], sentence(operation)))
    assert (1, (2, 1), "copied; 1 settled, 1 is retrying, 1 waits to be handled") in seen
    assert seen[-1] == (2, (1, 1), "copied; 2 settled, 1 is retrying")


def test_of_what_nobody_told_it_is_unknown_as_soon_as_that_is_found_and_stays_so(
    bench: Bench, make_letter: MakeLetter
) -> None:
    make_letter()
    operation = bench.redrive()
    said(copies()[0], "passed")
    bench.watcher.tick()
    assert counts(operation) == (1, 0, 0, 0, 1, 0, 0)
    assert (operation.state, sentence(operation)) == ("done", "1 cannot be known")
    detail = "the store is done with it, and nobody told what became of it"
    assert OperationItem.objects.get().outcome_detail == detail
    said(copies()[0], "settled")
    bench.clock.advance(60)
    bench.watcher.tick()
    assert counts(operation) == (1, 0, 0, 0, 1, 0, 0)


def test_what_waits_behind_an_open_breaker_is_said_to(
    bench: Bench, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        make_letter()
    operation = bench.redrive()
    said(copies()[0], "settled")
    bench.watcher.tick()
    opened = {("booking.changed", "partner-sync"): "open"}
    monkeypatch.setattr("hbus_console.subscriptions.holding.open_breakers", lambda pairs: opened)
    assert sentence(operation) == "copied; 1 settled, 2 wait behind the open breaker of partner-sync"

    client = Client()
    client.force_login(User.objects.get(username="olga"))
    kept(SystemClock().now_ms())
    page = client.get(f"/operations/{operation.pk}/").content.decode()
    assert "2 wait behind the open breaker of partner-sync" in page
    assert 'hx-trigger="every 1s"' in page, "it follows them until the last is decided"
    assert "2 wait behind the open breaker" in client.get("/operations/").content.decode()
    body = client.get(f"/api/v1/operations/{operation.pk}").json()
    assert (body["state"], body["settled"], body["waiting"]) == ("settling", 1, 2)
    assert body["outcome"] == sentence(operation)
    listed = client.get("/api/v1/operations").json()["results"]
    assert [each["outcome"] for each in listed] == [sentence(operation)]


@pytest.mark.parametrize(("state", "before"), [("cancelled", "cancel"), ("paused", "pause")])
def test_what_was_published_is_followed_although_the_rest_is_held_or_cancelled(
    bench: Bench, make_letter: MakeLetter, state: str, before: str
) -> None:
    for _ in range(3):
        make_letter()
    operation = bench.redrive(rate_per_s=1)
    getattr(services, before)(bench.operator, operation.pk, "enough")
    bench.watcher.tick()
    assert counts(operation)[0] == 1
    assert operation.decided_at is None
    said(copies()[0], "settled")
    bench.watcher._due.clear()
    bench.watcher.tick()
    assert (counts(operation)[1], operation.state) == (1, state)
    assert (operation.decided_at is None) == (state == "paused"), "more may follow"


def test_waiting_has_an_end_which_is_said(bench: Bench, make_letter: MakeLetter) -> None:
    make_letter(), make_letter()
    operation = bench.redrive()
    said(copies()[0], "settled")
    bench.clock.advance(PATIENCE.total_seconds() - 60)
    bench.watcher.tick()
    assert counts(operation)[5] == 1
    assert operation.state == "settling"
    bench.clock.advance(120)
    bench.watcher.tick()
    assert sentence(operation) == "1 settled, 1 not decided after 7 days"
    assert (operation.state, operation.percent) == ("done", 100)


def test_a_long_one_is_looked_at_a_part_at_a_time(
    bench: Bench, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "PAGE", 2)
    monkeypatch.setattr(watching, "PAGES", 2)
    for _ in range(9):
        make_letter()
    operation = bench.redrive()
    for copy in copies():
        said(copy, "settled" if copy != copies()[4] else "retried")
    bench.watcher.tick()
    assert counts(operation)[1] == 4
    with CaptureQueriesContext(connection) as asked:
        bench.watcher.tick()
    assert len(asked) <= 24
    bench.watcher.tick()
    assert counts(operation) == (9, 8, 0, 0, 0, 1, 1)


def test_two_watchers_count_each_once(bench: Bench, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch) -> None:
    make_letter(), make_letter()
    operation = bench.redrive()
    for copy in copies():
        said(copy, "settled")
    other = OutcomeWatcher(bench.clock)
    real = watching.fates

    def meanwhile(made: list[object]) -> object:
        told = real(made)  # type: ignore[arg-type]
        monkeypatch.setattr(watching, "fates", real)
        other.tick()
        return told

    monkeypatch.setattr(watching, "fates", meanwhile)
    bench.watcher.tick()
    assert counts(operation)[:2] == (2, 2)
    assert AuditEntry.objects.filter(action="operation.outcome").count() == 1


def test_the_longer_nothing_moves_the_less_often_it_is_looked_at(bench: Bench, make_letter: MakeLetter) -> None:
    make_letter()
    operation = bench.redrive()

    def looks(seconds: int) -> int:
        seen = set()
        for _ in range(seconds):
            bench.watcher.tick()
            operation.refresh_from_db()
            seen.add(operation.looked_at)
            bench.clock.advance(1)
        return len(seen)

    assert looks(10) == 10
    bench.clock.advance(3_600)
    assert looks(62) == 3
    said(copies()[0], "retried")
    bench.clock.advance(30)
    assert looks(10) == 10, "it moves again"


def test_the_first_few_go_ahead_and_the_rest_waits_for_a_person(bench: Bench, make_letter: MakeLetter) -> None:
    for _ in range(8):
        make_letter()
    Subscription.objects.update(handler_name="")
    operation = bench.redrive(first=5)
    assert (operation.state, operation.done, operation.first) == ("paused", 5, 5)
    bench.runner.tick()
    assert OperationItem.objects.count() == 5
    held = AuditEntry.objects.get(action="operation.pause")
    assert (held.actor, held.reason) == ("system", "the first 5 are done, and wait to be looked at")
    for copy in copies()[:4]:
        said(copy, "settled")
    bench.watcher.tick()
    assert sentence(operation) == "4 settled, 1 waits because partner-sync has no handler"
    services.resume(bench.operator, operation.pk, "they were settled")
    bench.runner.tick()
    operation.refresh_from_db()
    assert (operation.state, operation.done) == ("settling", 8)


def test_the_pause_in_which_a_person_looks_is_no_part_of_the_speed(bench: Bench, make_letter: MakeLetter) -> None:
    for _ in range(100):
        make_letter()
    operation = bench.redrive(first=5, rate_per_s=20)
    bench.clock.advance(1)
    bench.runner.tick()
    operation.refresh_from_db()
    assert (operation.state, operation.handled) == ("paused", 5)
    bench.clock.advance(600)
    services.resume(bench.operator, operation.pk, "they were settled")
    bench.runner.tick()
    operation.refresh_from_db()
    assert reading.pace(operation) == reading.Speed(None, None), "nobody knows after the first step"
    for _ in range(2):
        bench.clock.advance(1)
        bench.runner.tick()
    operation.refresh_from_db()
    speed = reading.pace(operation)
    assert (operation.state, speed.per_s) == ("running", 20)
    assert speed.left == timedelta(seconds=(100 - operation.handled) / 20)
    services.pause(bench.operator, operation.pk, "lunch")
    bench.clock.advance(600)
    services.cancel(bench.operator, operation.pk, "enough", clock=bench.clock)
    operation.refresh_from_db()
    assert reading.pace(operation) == reading.Speed(20, None), "nor is it once it was ended in one"


def test_a_place_that_is_told_no_more_keeps_no_old_count(
    bench: Bench, make_letter: MakeLetter, subscription: Subscription, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MOST_PLACES", 2)
    for group, letters in (("a", 5), ("b", 4), ("c", 3)):
        Subscription.objects.create(topic=subscription.topic, group=group, handler_name="sync")
        for _ in range(letters):
            make_letter(subscription=group)
    operation = bench.redrive()
    bench.watcher.tick()

    def told() -> dict[str, int]:
        return {each.subject.name: each.waiting for each in operation.places.exclude(waiting=0)}

    assert told() == {"a": 5, "b": 4}
    # What waited most is nearly done: it is the third now, and not told.
    for item in operation.items.filter(facets__subscription="a").order_by("pk")[:4]:
        assert item.made is not None
        LedgerEvent.objects.create(
            message_id=item.made.name, kind="settled", topic="booking.changed", subscription="a", at_ms=1, attempt=1
        )
    bench.clock.advance(60)
    bench.watcher.tick()
    assert told() == {"b": 4, "c": 3}


def test_what_may_still_change_is_marked_however_many_came_since(
    bench: Bench, make_letter: MakeLetter, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_letter()
    operation = bench.redrive()
    assert operation.state == "settling"
    monkeypatch.setattr(live, "LATEST", 0)
    assert str(operation.subject) in live.cells(0, ("*",)).marks
    Operation.objects.filter(pk=operation.pk).update(state="cancelled")
    assert str(operation.subject) in live.cells(0, ("*",)).marks
    Operation.objects.filter(pk=operation.pk).update(decided_at=operation.ended_at)
    assert str(operation.subject) not in live.cells(0, ("*",)).marks


def test_no_more_than_the_first_few_are_not_held(bench: Bench, make_letter: MakeLetter) -> None:
    for _ in range(5):
        make_letter()
    assert bench.redrive(first=5).state == "settling"


def test_the_place_that_was_reached_leads_to_the_operation(bench: Bench, make_letter: MakeLetter) -> None:
    make_letter(), make_letter()
    operation = bench.redrive()
    places = [str(each.subject) for each in operation.places.all()]
    assert places == ["subscription:booking.changed/partner-sync"]


def test_an_operation_of_the_version_before_is_not_followed(bench: Bench) -> None:
    old = Operation.objects.create(
        kind="redrive", spec={}, digest="x", state="done", actor="a", actor_kind="user", audit_seq=1, done=3, total=3
    )
    bench.watcher.tick()
    old.refresh_from_db()
    assert (old.moves, old.percent, reading.sentences([old], BOOKED)) == (False, 100, {})


def test_the_letter_the_subscription_and_the_chart_lead_to_it(bench: Bench, make_letter: MakeLetter) -> None:
    letter = make_letter()
    operation = bench.redrive()
    said(copies()[0], "retried")
    bench.watcher.tick()
    client = Client()
    client.force_login(User.objects.get(username="olga"))
    kept(SystemClock().now_ms())

    panel = client.get(f"/dead-letters/?letter={letter.pk}").content.decode()
    assert f'href="/operations/{operation.pk}/"' in panel
    assert '<span class="badge warn">retrying</span>' in panel

    page = client.get("/subscriptions/booking.changed/partner-sync/").content.decode()
    assert f'href="/operations/{operation.pk}/"' in page
    assert "copied; 1 is retrying" in page

    drawn = client.get("/charts/flow/?topic=booking.changed").json()
    assert any(
        f"operation {operation.pk} “{operation.title}” started by olga" in each["label"] for each in drawn["marks"]
    )


def test_a_dry_run_says_what_was_redriven_and_is_not_decided(bench: Bench, make_letter: MakeLetter) -> None:
    make_letter()
    first = bench.redrive()
    plan = services.dry_run(bench.operator, "redrive", SPEC)
    assert (plan.total, [str(each) for each in plan.taken or ()]) == (
        0,
        [f"1 of these is being redriven by operation {first.pk} (done, and not decided yet what becomes of it)"],
    )
    again = services.start(bench.operator, "redrive", SPEC, reason="once more")
    assert (again.new, again.operation) == (False, first)
    said(copies()[0], "settled")
    bench.watcher.tick()
    assert services.dry_run(bench.operator, "redrive", SPEC).taken == []


@pytest.mark.parametrize(("died", "settled", "tone"), [(0, 2, ""), (1, 1, "warn"), (2, 0, "bad")])
def test_done_is_no_success_of_what_died_again(died: int, settled: int, tone: str) -> None:
    row = Operation(state=Operation.State.DONE, done=2, copies=2, died=died, settled=settled)
    assert row.tone == tone


def test_what_others_decided_before_it_came_to_them_is_said(bench: Bench, make_letter: MakeLetter) -> None:
    letters = [make_letter() for _ in range(3)]
    started = services.start(bench.operator, "redrive", SPEC, reason="map", rate_per_s=0).operation
    redrive_now(bench.operator, letters[1], "quicker")
    bench.runner.tick()
    started.refresh_from_db()
    assert (started.total, started.done) == (3, 2)
    assert started.note == "1 thing was no longer there when it came to them: decided by others meanwhile."
