"""A topic moves to another transport while it is in use: nothing is lost, and every step can be taken again."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import pytest
from django.core.management import call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from engine.bus.transport import Lag, Outgoing, Settlement, Status
from engine.core.errors import BadInput, Conflict
from hbus_console.access.command_line import command_line_actor
from hbus_console.access.permissions import SYSTEM, Forbidden
from hbus_console.audit.models import AuditEntry
from hbus_console.consumers.factory import consumer_for
from hbus_console.consumers.pair import Pair
from hbus_console.operations import services as operations
from hbus_console.operations.models import Operation
from hbus_console.operations.runner import OperationRunner
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.topics import move, topic_page
from hbus_console.topics import services as topics
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.topics.services import TopicDraft
from hbus_console.topics.services import moving as moving_services
from hbus_console.topics.services.moving import close_old, finish_move
from hbus_console.topics.transport_objects import remove
from hbus_console.wiring import bus, store
from tests.hbus_console.operations.asking import asked_in_transaction
from tests.hbus_console.topics.conftest import EDITOR
from tests.hbus_console.topics.hidden_backlog import hide_backlog
from tests.unhurried import UnhurriedClock

pytestmark = pytest.mark.django_db(databases=["default", "ledger"], transaction=True)

SPEC = {"topic": "booking.created", "to": "nsq"}


@pytest.fixture
def moving(own_keys: None, team: object, settings: Settings, nsqd_url: str, monkeypatch: pytest.MonkeyPatch) -> Topic:
    """A topic with a reader on Redis Streams, and an nsqd to go to."""
    settings.NSQD_URL = (nsqd_url,)
    store.close()
    monkeypatch.setattr(move, "QUIET_MS", 200)
    monkeypatch.setattr(move, "OLD_RULES_MS", 0)
    topics.create_topic(SYSTEM, TopicDraft("booking.created", "Reservations", priorities=False))
    draft = SubscriptionDraft(
        topic="booking.created", group="billing", owner="Reservations", handler="webhook",
        webhook_url="https://example.com/hook",
    )  # fmt: skip
    subscriptions.create_subscription(SYSTEM, draft, "for the test")
    return Topic.objects.get(name="booking.created")


def publish(*numbers: int) -> None:
    for number in numbers:
        shared_producer().publish("booking.created", {"id": number})


def settle(transport: str, number: int) -> None:
    receiver = bus.transport(transport).receiver("booking.created", "billing", consumer="c", lease_ms=30_000)
    taken = []
    deadline = time.monotonic() + 60
    while len(taken) < number and time.monotonic() < deadline:
        taken += receiver.receive(number - len(taken), 0.2)
    assert receiver.settle([Settlement(each.receipt) for each in taken]) == [True] * number
    receiver.close()


def advance(operation: Operation, until: Callable[[], bool]) -> None:
    """As the keeper does; every tick by another runner, as after a crash."""
    deadline = time.monotonic() + 60
    while not until() and time.monotonic() < deadline:
        OperationRunner(UnhurriedClock()).tick()
        operation.refresh_from_db()
        time.sleep(0.02)
    assert until(), operation.last_error or operation.note


def test_it_is_published_to_the_new_one_at_once_and_ends_when_the_old_one_is_empty(
    moving: Topic, told: Callable[[], list[str]]
) -> None:
    publish(1, 2, 3)
    operation = operations.start(SYSTEM, "move", SPEC, reason="more room").operation
    advance(operation, lambda: "3 unsettled" in operation.note)

    # When both are in use
    moving.refresh_from_db()
    assert (moving.transport, moving.leaving) == ("nsq", "redis_stream")
    publish(4, 5)
    assert bus.admin("redis_stream").counts("booking.created")["published"] == 3
    assert bus.admin("nsq").lag("booking.created", "billing").waiting == 2
    assert operation.state == "running"

    # Then it is done only when the old one is empty, and says what was counted
    settle("redis_stream", 3)
    advance(operation, lambda: operation.state == "done")
    moving.refresh_from_db()
    assert (moving.transport, moving.leaving) == ("nsq", "")
    (item,) = operation.items.all()
    assert "redis_stream: 3 published, 3 settled, 0 died, 0 unsettled" in item.detail
    assert "nsq: 2 published, 0 settled, 0 died, 2 unsettled" in item.detail
    assert StoreRemoval.objects.get().transport == "redis_stream"
    assert told()[-4:] == ["operation.start", "topic.move", "topic.moved", "operation.end"]
    settle("nsq", 2)


def test_it_ends_although_the_new_one_cannot_tell_how_much_waits_there(
    moving: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = moving_services.lag_there

    def lag_there(transport: str, topic: str, group: str) -> Lag:
        found = asked(transport, topic, group)
        return replace(found, waiting=None) if transport == "nsq" else found

    monkeypatch.setattr(moving_services, "lag_there", lag_there)
    operation = operations.start(SYSTEM, "move", SPEC, reason="more room").operation
    advance(operation, lambda: operation.state in ("done", "failed"))
    assert operation.state == "done", operation.last_error
    assert "nsq: 0 published, 0 settled, 0 died, how much is unsettled cannot be told" in operation.items.get().detail


def test_no_step_asks_a_store_while_other_writers_wait(moving: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(1)
    operation = operations.start(SYSTEM, "move", SPEC, reason="more room").operation
    asked = asked_in_transaction(monkeypatch)
    advance(operation, lambda: "1 unsettled" in operation.note)
    settle("redis_stream", 1)
    advance(operation, lambda: operation.state == "done")
    assert set(asked) == {False}


def test_a_move_begun_on_the_command_line_is_carried_out_as_that_person(moving: Topic) -> None:
    shell = command_line_actor()
    operation = operations.start(shell, "move", SPEC, reason="more room").operation
    advance(operation, lambda: operation.state == "done")
    assert AuditEntry.objects.get(action="topic.moved").actor == shell.name


def test_what_was_cancelled_on_the_way_goes_on_when_started_again(moving: Topic) -> None:
    publish(1)
    first = operations.start(SYSTEM, "move", SPEC, reason="more room").operation
    advance(first, lambda: "1 unsettled" in first.note)
    operations.cancel(SYSTEM, first.pk, "lunch")
    moving.refresh_from_db()
    assert moving.leaving == "redis_stream"

    settle("redis_stream", 1)
    second = operations.start(SYSTEM, "move", SPEC, reason="after lunch").operation
    advance(second, lambda: second.state == "done")
    moving.refresh_from_db()
    assert moving.leaving == ""


def test_a_subscription_of_a_leaving_topic_reads_both(moving: Topic) -> None:
    Topic.objects.filter(pk=moving.pk).update(leaving="redis_stream", transport="nsq")
    row = Subscription.objects.select_related("topic").get()
    pair = consumer_for(row)
    assert isinstance(pair, Pair)
    pair.start()
    try:
        deadline = time.monotonic() + 60
        while pair.status().state != "running" and time.monotonic() < deadline:
            time.sleep(0.05)
        assert pair.status().state == "running"
        pair.set_concurrency(2)
        pair.pause()
        assert pair.status().state == "paused"
    finally:
        assert pair.stop(5).clean


def test_while_it_moves_its_pages_tell_of_both_stores(moving: Topic, signed_in: Callable[..., Client]) -> None:
    publish(1, 2, 3)
    operation = operations.start(SYSTEM, "move", SPEC, reason="more room").operation
    advance(operation, lambda: "3 unsettled" in operation.note)
    publish(4, 5)
    row = Subscription.objects.select_related("topic").get()
    assert subscriptions.lag_of(row).waiting == 5
    assert topic_page.depth(row.topic).messages == 5  # type: ignore[union-attr]
    browser = signed_in()
    page = browser.get("/subscriptions/booking.created/billing/").content.decode()
    assert "5 waiting stay." in page
    assert "The store has not obeyed yet." not in page
    # When one of the two has obeyed
    Subscription.objects.update(paused=True, pause_reason="maintenance")
    bus.admin("nsq").pause("booking.created", "billing")
    assert "The store has not obeyed yet." in browser.get("/subscriptions/booking.created/billing/").content.decode()
    bus.admin("redis_stream").pause("booking.created", "billing")
    page = browser.get("/subscriptions/booking.created/billing/").content.decode()
    assert "The store has not obeyed yet." not in page
    assert "5 waiting and 0 retrying messages are handed out again" in page


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"topic": "booking.created", "to": "redis_stream"}, "to"),
        ({"topic": "booking.created", "to": "memory"}, "to"),
        ({"topic": "booking.created", "to": "kafka"}, "spec.to"),
    ],
)
def test_a_move_that_makes_no_sense_is_refused(moving: Topic, spec: dict[str, str], field: str) -> None:
    with pytest.raises(BadInput) as refused:
        operations.dry_run(SYSTEM, "move", spec)
    assert refused.value.field == field


def test_an_ordered_topic_stays_and_says_why(moving: Topic) -> None:
    Topic.objects.filter(pk=moving.pk).update(ordering="key")
    with pytest.raises(BadInput, match="order of keys"):
        operations.start(SYSTEM, "move", SPEC, reason="more room")


def test_it_takes_a_governor(moving: Topic) -> None:
    with pytest.raises(Forbidden):
        operations.start(EDITOR, "move", SPEC, reason="more room")


def test_the_page_leads_to_the_dry_run_which_says_what_will_happen(
    moving: Topic, signed_in: Callable[..., Client]
) -> None:
    browser = signed_in()
    page = browser.get("/topics/booking.created/settings/").content.decode()
    assert "/operations/plan/move/" in page
    dry = browser.get("/operations/plan/move/?topic=booking.created&carrier=nsq").content.decode()
    assert "Publishing goes to nsq at once" in dry
    assert "nothing can be replayed" in dry
    assert "nobody knows the idempotency keys from before" in dry


def test_the_page_of_a_move_shows_what_was_counted(moving: Topic, signed_in: Callable[..., Client]) -> None:
    operation = operations.start(SYSTEM, "move", SPEC, reason="more room").operation
    advance(operation, lambda: operation.state == "done")
    page = signed_in().get(f"/operations/{operation.pk}/").content.decode()
    assert "booking.created/billing" in page
    assert "0 published, 0 settled" in page


def test_the_command_tells_the_plan(moving: Topic, capsys: pytest.CaptureFixture[str]) -> None:
    call_command("move_topic", "booking.created", "--to", "nsq", "--reason", "room", "--dry-run")
    assert "redis_stream has 0 unsettled deliveries of 1 subscription\n" in capsys.readouterr().out
    assert not Operation.objects.exists()


def test_a_dry_run_does_not_say_none_of_what_the_store_cannot_count(
    moving: Topic, prefix: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide_backlog(prefix, "booking.created", "billing", monkeypatch)
    call_command("move_topic", "booking.created", "--to", "nsq", "--reason", "room", "--dry-run")
    said = "redis_stream has at least 0 unsettled deliveries of 1 subscription; of 1 it cannot tell how many\n"
    assert said in capsys.readouterr().out


def test_an_ordinary_topic_is_told_what_it_would_miss_and_may_do_without(
    moving: Topic, signed_in: Callable[..., Client], capsys: pytest.CaptureFixture[str]
) -> None:
    Topic.objects.filter(pk=moving.pk).update(priorities=True)
    # Given that nothing was said about priorities, it is refused with the way out
    with pytest.raises(BadInput, match="nsq knows no priorities") as refused:
        operations.dry_run(SYSTEM, "move", SPEC)
    assert "--without priorities" in refused.value.remedy

    # The page says so beforehand, and offers it
    browser = signed_in()
    page = browser.get("/topics/booking.created/settings/").content.decode()
    assert "nsq knows no priorities: who asks for another than normal is refused there." in page
    assert 'name="without" value="priorities" checked' in page
    dry = browser.get("/operations/plan/move/?topic=booking.created&carrier=nsq&without=priorities").content.decode()
    assert "Priorities of booking.created are switched off" in dry
    call_command(
        "move_topic", "booking.created", "--to", "nsq", "--without", "priorities", "--reason", "x", "--dry-run"
    )
    assert "Priorities of booking.created are switched off" in capsys.readouterr().out

    # And that is what happens, with the move and not before
    spec = {**SPEC, "without": ["priorities"]}
    operation = operations.start(SYSTEM, "move", spec, reason="more room").operation
    assert Topic.objects.get().priorities
    advance(operation, lambda: operation.state == "done")
    moving.refresh_from_db()
    assert (moving.transport, moving.priorities) == ("nsq", False)
    assert AuditEntry.objects.get(action="topic.move").after["priorities"] is False


@pytest.mark.parametrize("without", ["priorities", ["ordering"], [1]])
def test_what_no_topic_can_give_up_is_refused(moving: Topic, without: object) -> None:
    with pytest.raises(BadInput) as refused:
        operations.dry_run(SYSTEM, "move", {**SPEC, "without": without})
    assert refused.value.field == "spec.without"


def test_a_transport_that_is_not_set_up_is_told_on_the_page(
    moving: Topic, signed_in: Callable[..., Client], settings: Settings
) -> None:
    settings.NSQD_URL = ()
    store.close()
    page = signed_in().get("/topics/booking.created/settings/")
    assert page.status_code == 200
    assert "nsq: " in page.content.decode()


def test_it_moves_and_ends_while_publishing_goes_on(moving: Topic) -> None:
    operation = operations.start(SYSTEM, "move", SPEC, reason="more room").operation
    published = 0

    def publish_one() -> bool:
        nonlocal published
        if operation.state != "done":
            publish(published)
            published += 1
            # Whoever reads settles what is left on the old one meanwhile.
            if left := bus.admin("redis_stream").lag("booking.created", "billing").unsettled:
                settle("redis_stream", left)
        return operation.state == "done"

    publish_one()
    advance(operation, publish_one)
    before = bus.admin("redis_stream").counts("booking.created")["published"]
    after = bus.admin("nsq").lag("booking.created", "billing").waiting
    assert (before > 0, after > 0, before + after) == (True, True, published)
    settle("nsq", after)


def test_it_turns_back_at_once_and_nothing_is_lost(moving: Topic, signed_in: Callable[..., Client]) -> None:
    publish(1)
    there = operations.start(SYSTEM, "move", SPEC, reason="more room").operation
    advance(there, lambda: "1 unsettled" in there.note)
    publish(2, 3)
    page = signed_in().get("/topics/booking.created/settings/").content.decode()
    assert "Turn back to redis_stream" in page
    assert 'name="carrier" value="redis_stream"' in page

    # When it is told to turn back, in the middle
    back = operations.start(SYSTEM, "move", {**SPEC, "to": "redis_stream"}, reason="nsq is slow").operation
    advance(back, lambda: "2 unsettled" in back.note)
    moving.refresh_from_db()
    assert (moving.transport, moving.leaving) == ("redis_stream", "nsq")
    publish(4)
    advance(there, lambda: there.state == "done")
    assert "turned back to redis_stream" in there.note

    # Then what either holds is read, and only then the other is given up
    settle("nsq", 2)
    settle("redis_stream", 2)
    advance(back, lambda: back.state == "done")
    moving.refresh_from_db()
    assert (moving.transport, moving.leaving) == ("redis_stream", "")
    assert StoreRemoval.objects.get().transport == "nsq"


def test_a_move_back_after_the_end_waits_until_what_was_left_there_is_removed(moving: Topic) -> None:
    there = operations.start(SYSTEM, "move", SPEC, reason="more room").operation
    advance(there, lambda: there.state == "done")
    back = operations.start(SYSTEM, "move", {**SPEC, "to": "redis_stream"}, reason="nsq is slow").operation
    advance(back, lambda: "waiting until what booking.created once left behind is removed" in back.note)
    assert Topic.objects.get().leaving == ""
    remove(StoreRemoval.objects.get())
    advance(back, lambda: back.state == "done")
    assert Topic.objects.get().transport == "redis_stream"
    publish(1)
    settle("redis_stream", 1)


def test_a_move_that_was_overtaken_removes_nothing(moving: Topic) -> None:
    with pytest.raises(Conflict, match="not leaving redis_stream any more"):
        finish_move(SYSTEM, "booking.created", "redis_stream", "for the test")
    assert not StoreRemoval.objects.exists()


def test_it_waits_until_nobody_knows_the_old_rules(moving: Topic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who cannot reach the database publishes by them for a minute, and is told that it was stored."""
    monkeypatch.setattr(move, "OLD_RULES_MS", 600_000)
    operation = operations.start(SYSTEM, "move", SPEC, reason="more room").operation
    advance(operation, lambda: "nobody can publish to it any more" in operation.note)
    publish(1)
    moving.refresh_from_db()
    assert (operation.state, moving.leaving) == ("running", "redis_stream")
    Topic.objects.filter(name="booking.created").update(moved_at=timezone.now() - timedelta(seconds=601))
    advance(operation, lambda: operation.state == "done")


def publish_to_old(topic: str = "booking.created") -> Status:
    """As who stood still in the midst of a publish goes on with it, long after."""
    (outcome,) = bus.transport("redis_stream").publish(topic, [Outgoing("late", b"{}")])
    return outcome.status


def test_who_stood_still_while_it_moved_is_refused_and_not_lost(moving: Topic) -> None:
    """Found by a stranger: an import that was stopped meanwhile had 2,000 confirmed where nobody read any more."""
    operation = operations.start(SYSTEM, "move", SPEC, reason="more room").operation
    assert publish_to_old() is Status.OK
    advance(operation, lambda: "1 unsettled" in operation.note)
    # By now the old rules are older than anybody may know them.
    assert publish_to_old() is Status.FAILED
    settle("redis_stream", 1)
    advance(operation, lambda: operation.state == "done")
    assert publish_to_old() is Status.FAILED
    remove(StoreRemoval.objects.get())
    assert publish_to_old() is Status.FAILED
    assert bus.admin("redis_stream").depth("booking.created").messages == 0


def test_one_that_turned_back_while_it_was_being_closed_is_open(moving: Topic) -> None:
    close_old("booking.created", "nsq")
    close_old("booking.created", "redis_stream")
    assert publish_to_old() is Status.OK
    # And the other way round, which its next step mends.
    bus.admin("redis_stream").close_topic("booking.created")
    Topic.objects.update(leaving="nsq", moved_at=timezone.now())
    back = operations.start(SYSTEM, "move", {**SPEC, "to": "redis_stream"}, reason="nsq is slow").operation
    advance(back, lambda: back.state == "done")
    assert publish_to_old() is Status.OK
