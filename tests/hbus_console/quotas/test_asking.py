"""Limits of messages and jobs: who acts is refused whole, what goes on by itself waits, and neither loses anything."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pytest_django import Settings

from engine.bus.consumer import Consumer
from engine.bus.errors import PublishFailed, PublishUnknown
from engine.bus.options import PublishOptions
from engine.core.clock import SystemClock
from engine.core.errors import QuotaExceeded
from engine.core.facts import MemoryFacts
from engine.core.pacing import all_go
from engine.quota.planes.memory import MemoryControlPlane
from hbus_console.access.acts import Role
from hbus_console.access.permissions import SYSTEM
from hbus_console.audit.models import AuditEntry
from hbus_console.consumers.factory import consumer_for
from hbus_console.imports.publishing import SteadyPublisher
from hbus_console.outbox.relay import OutboxRelay
from hbus_console.outbox.services import send_on_commit
from hbus_console.publishing import services as publishing
from hbus_console.publishing.producer import shared_producer
from hbus_console.quotas import door as doors
from hbus_console.quotas.asking import CONSUME, JOBS, PUBLISH, QuotaPacing, limits_anything, pacing, take
from hbus_console.quotas.door import QuotaDoor
from hbus_console.quotas.services.books import give, newest_book
from hbus_console.subscriptions.models import Subscription
from hbus_console.topics.models import Topic
from hbus_console.wiring import bus, store
from tests.hbus_console.quotas.conftest import MakePolicy
from tests.hbus_console.topics.conftest import OPERATOR, Caller, topic

__all__ = ["topic"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])
Opened = Callable[[], QuotaDoor]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> Iterator[Opened]:
    """Opens the door of this process, by the policies that there are."""
    made: list[QuotaDoor] = []

    def open_door() -> QuotaDoor:
        moments = iter([0.0])
        plane = MemoryControlPlane(now=lambda: next(moments, 1e6 + time.monotonic()))
        if (book := newest_book()) is not None:
            give(plane, book)
        made.append(QuotaDoor("here", plane, MemoryFacts(), book=newest_book()))
        made[0].node.start()
        settings.HBUS_QUOTAS = True
        monkeypatch.setattr(doors, "door", lambda: made[0])
        return made[0]

    yield open_door
    settings.HBUS_QUOTAS = False
    for each in made:
        each.close()


def _stored(topic: Topic) -> int:
    return len(bus.admin().browse(topic.name).entries)


def _used(door: QuotaDoor, topic: Topic, tenant: str) -> tuple[int, int]:
    used = door._uses.drain().get((PUBLISH, topic.name, tenant))
    return (used.admitted, used.refused) if used else (0, 0)


def test_who_publishes_too_much_is_told_the_policy_and_nothing_is_stored(
    topic: Topic, make_policy: MakePolicy, opened: Opened
) -> None:
    make_policy("writers", 0.01, 2, service="publish", resource=topic.name)
    opened()
    for number in range(2):
        publishing.publish(OPERATOR, topic.name, {"n": number})
    with pytest.raises(QuotaExceeded, match="may publish no more messages to") as refused:
        publishing.publish(OPERATOR, topic.name, {"n": 3})
    assert refused.value.policies == ("writers",)
    assert _stored(topic) == 2
    publishing.publish(SYSTEM, topic.name, {"n": 4})
    assert _stored(topic) == 3, "another has a bucket of its own"


def test_an_act_by_hand_that_is_refused_leaves_no_entry(topic: Topic, make_policy: MakePolicy, opened: Opened) -> None:
    make_policy("nothing", 0, 0, service="publish")
    opened()
    with pytest.raises(QuotaExceeded):
        publishing.publish_by_hand(OPERATOR, topic.name, {})
    assert not AuditEntry.objects.filter(action="message.publish").exists()
    assert _stored(topic) == 0


def test_what_certainly_came_to_nothing_costs_nothing_and_what_may_be_there_does(
    topic: Topic, make_policy: MakePolicy, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_policy("writers", 0.01, 5, service="publish")
    door = opened()

    def fails(error: Exception) -> Callable[..., Any]:
        def publish(*_: object, **__: object) -> None:
            raise error

        return publish

    for error, admitted in ((PublishFailed("away"), 0), (PublishUnknown("lost"), 1)):
        monkeypatch.setattr(shared_producer(), "publish", fails(error))
        with pytest.raises(type(error)):
            publishing.publish(OPERATOR, topic.name, {})
        assert _used(door, topic, OPERATOR.name) == (admitted, 0)


def test_a_batch_is_refused_whole_and_what_is_refused_of_one_costs_nothing(
    topic: Topic, make_policy: MakePolicy, opened: Opened, calling: Callable[..., Caller]
) -> None:
    make_policy("writers", 0.01, 4, service="publish")
    door, call = opened(), calling(Role.OPERATOR)
    tenant = "p-operator-1/test"
    good, bad = {"data": {"n": 1}}, {"data": {"n": 1}, "priority": "never"}
    answer = call("post", f"topics/{topic.name}/messages/batch", {"messages": [good, bad, good]})
    assert answer.status_code == 200, answer.content
    assert _used(door, topic, tenant) == (2, 0), answer.content
    refused = call("post", f"topics/{topic.name}/messages/batch", {"messages": [good] * 3})
    assert (refused.status_code, refused.json()["violated-policies"]) == (429, ["writers"])
    assert int(refused["Retry-After"]) >= 1
    assert _stored(topic) == 2
    never = call("post", f"topics/{topic.name}/messages/batch", {"messages": [good] * 9})
    assert "never 9 at once: the limit lets 4 go together" in never.json()["detail"]
    assert call("post", f"topics/{topic.name}/messages/batch", {"messages": [good] * 2}).status_code == 200


def test_what_was_accepted_once_is_relayed_whatever_the_limits_are(
    topic: Topic, make_policy: MakePolicy, opened: Opened, committed: Callable[..., None]
) -> None:
    make_policy("nothing", 0, 0, service="publish")
    opened()
    message = shared_producer().prepare(topic.name, {"n": 1}, PublishOptions())
    committed(lambda: send_on_commit(topic.name, message))
    OutboxRelay(shared_producer, store.client).tick()
    assert _stored(topic) == 1


def test_in_shadow_all_is_stored_and_counted(topic: Topic, make_policy: MakePolicy, opened: Opened) -> None:
    make_policy("nothing", 0, 0, service="publish", shadow=True)
    door = opened()
    for number in range(3):
        publishing.publish(OPERATOR, topic.name, {"n": number})
    used = door._uses.drain()[PUBLISH, topic.name, OPERATOR.name]
    assert (used.admitted, used.refused, used.shadowed) == (3, 0, 3)


def test_whoever_goes_on_by_itself_takes_what_is_there_and_says_what_holds_it(
    make_policy: MakePolicy, opened: Opened
) -> None:
    make_policy("readers", 0.01, 5, service="consume")
    door = opened()
    held = pacing(CONSUME, "booking.created", "billing")
    assert isinstance(held, QuotaPacing)
    assert held.holds
    got = sum(held.take(4) for _ in range(4))
    assert got == 5
    assert held.take(4) == 0
    assert held.why == "It waits for its turn: the quota policy readers lets no more through for now."
    assert 0 < held.again_s() <= 1
    stop = threading.Event()
    stop.set()
    assert not all_go(held, 3, SystemClock(), stop)
    used = door._uses.drain()[CONSUME, "booking.created", "billing"]
    assert (used.admitted, used.refused) == (5, 0), "who waits is not refused"
    held.give_back(2)
    assert limits_anything(CONSUME)
    assert not limits_anything(JOBS)


def test_an_import_waits_and_a_stop_ends_its_wait(topic: Topic, make_policy: MakePolicy, opened: Opened) -> None:
    make_policy("nothing", 0, 0, service="publish")
    opened()
    stop, waits = threading.Event(), threading.Event()

    class Waiting(SystemClock):
        def wait(self, event: threading.Event, seconds: float) -> bool:
            if event is stop:
                waits.set()
            return super().wait(event, seconds)

    publisher = SteadyPublisher(
        shared_producer(), clock=Waiting(), stop=stop, pacing=pacing(PUBLISH, topic.name, "ada")
    )
    stops = threading.Thread(target=lambda: (waits.wait(60), stop.set()))
    stops.start()
    with pytest.raises(Exception, match="Run it again"):
        publisher.publish(topic.name, [object()])  # type: ignore[list-item]
    stops.join()
    assert waits.is_set(), "it waited before it was stopped"
    assert _stored(topic) == 0


def test_without_quotas_nothing_is_asked(topic: Topic, make_policy: MakePolicy, settings: Settings) -> None:
    make_policy("nothing", 0, 0)
    assert not settings.HBUS_QUOTAS
    assert pacing(CONSUME, topic.name, "billing") is None
    assert not limits_anything(PUBLISH)
    take(PUBLISH, topic.name, "ada", "publish no more messages", 5)(5)
    publishing.publish(OPERATOR, topic.name, {})


def test_consumers_are_made_with_the_limit_of_their_subscription(
    topic: Topic, opened: Opened, make_policy: MakePolicy
) -> None:
    make_policy("readers", 1, 1, service="consume")
    opened()
    row = Subscription.objects.create(
        topic=topic,
        group="billing",
        team=topic.team,
        handler=Subscription.Handler.WEBHOOK,
        webhook_url="https://1.1.1.1/",
        webhook_secret="s" * 32,
    )
    made = consumer_for(row)
    assert isinstance(made, Consumer)
    assert made._reader._paced is not None
    assert isinstance(made._reader._paced._pacing, QuotaPacing)
