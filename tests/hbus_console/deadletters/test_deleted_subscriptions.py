"""Dead letters outlive their subscription and their topic, also those that the keeper has not taken over yet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from engine.bus.conformance.base import bury
from engine.bus.options import PublishOptions
from engine.bus.transport import Delivery, Receiver
from engine.core.clock import ManualClock
from engine.core.errors import Conflict, Unavailable
from hbus_console.access.permissions import SYSTEM
from hbus_console.deadletters.collector import DeadLetterCollector
from hbus_console.deadletters.models import DeadLetter
from hbus_console.publishing.producer import shared_producer
from hbus_console.subscriptions import services as subscriptions
from hbus_console.subscriptions.models import Subscription
from hbus_console.subscriptions.reconcile import ensure_transport_objects
from hbus_console.subscriptions.services import SubscriptionDraft
from hbus_console.teams import services as teams
from hbus_console.teams.services import TeamDraft
from hbus_console.topics import services as topics
from hbus_console.topics.models import StoreRemoval, Topic
from hbus_console.topics.services import TopicDraft
from hbus_console.wiring import bus, store

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

TOPIC, GROUP = "booking.moved", "billing"
Committed = Callable[[Callable[[], object]], None]


@pytest.fixture
def committed(django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks) -> Committed:
    def run(act: Callable[[], object]) -> None:
        with django_capture_on_commit_callbacks(execute=True):
            act()

    return run


@pytest.fixture(params=["redis_stream", "nsq"])
def carrier(request: pytest.FixtureRequest, settings: Settings, prefix: str) -> Iterator[str]:
    """A transport under keys of its own."""
    if request.param == "nsq":
        settings.NSQD_URL = (request.getfixturevalue("nsqd_url"),)
    store.close()
    settings.HBUS_PREFIX = prefix
    yield request.param
    store.close()


@pytest.fixture
def died(carrier: str, committed: Committed) -> bytes:
    """A message that lies dead in the store, and nowhere else."""
    make(committed, TopicDraft(TOPIC, "Reservations", transport=carrier, priorities=False))
    shared_producer().publish(TOPIC, {"n": 1})
    return bury_one(bus.transport(carrier).receiver(TOPIC, GROUP, consumer="c", lease_ms=30_000))


def make(committed: Committed, draft: TopicDraft) -> None:
    teams.create_team(SYSTEM, TeamDraft("Reservations", "#reservations"))
    committed(lambda: topics.create_topic(SYSTEM, draft))
    committed(create_subscription)


def create_subscription() -> None:
    subscriptions.create_subscription(SYSTEM, SubscriptionDraft(TOPIC, GROUP, "Reservations"))


def bury_one(receiver: Receiver) -> bytes:
    """What died."""
    taken: list[Delivery] = []
    while not taken:
        taken = receiver.receive(1, 5)
    assert bury(receiver, taken[0])
    receiver.close()
    return taken[0].body


def collect() -> None:
    """As the keeper does, once it runs again."""
    DeadLetterCollector(bus.admin, clock=ManualClock()).tick()


def letters() -> list[bytes]:
    return [bytes(body) for body in DeadLetter.objects.values_list("body", flat=True)]


def keys(prefix: str, *of: str) -> list[str]:
    """What the store holds with any of these in its name, but that a topic takes nothing more."""
    client = store.client()
    found = [key.decode() for key in client.scan_iter(f"{prefix}:*")]
    named = [key for key in found if any(part in key for part in of)]
    return sorted(key for key in named if client.type(key) != b"hash" or set(client.hkeys(key)) != {b"closed"})


def delete_subscription() -> None:
    subscriptions.delete_subscription(SYSTEM, TOPIC, GROUP, GROUP, "moved")


def delete_topic() -> None:
    topics.delete_topic(SYSTEM, TOPIC, TOPIC, "old")


def test_a_deletion_waits_in_the_store_for_what_is_to_be_taken_over(
    died: bytes, carrier: str, committed: Committed, prefix: str
) -> None:
    # When its subscription is deleted while the keeper stands still
    committed(delete_subscription)

    # Then it lies where it lay, of a group that is gone, and nobody takes the name meanwhile
    assert bus.admin(carrier).groups(TOPIC) == []
    assert [each.body for each in bus.admin(carrier).dead(TOPIC, GROUP)] == [died]
    with pytest.raises(Conflict, match="still being removed"):
        create_subscription()
    assert ensure_transport_objects().removed == []

    # And once the keeper goes on it is evidence, and the store holds nothing of the group
    collect()
    assert letters() == [died]
    assert ensure_transport_objects().removed == [f"{TOPIC}/{GROUP}"]
    assert not StoreRemoval.objects.exists()
    assert keys(prefix, ":group:", ":breaker:") == []


def test_a_topic_waits_for_the_letters_of_its_last_subscription(
    died: bytes, carrier: str, committed: Committed, prefix: str
) -> None:
    committed(delete_subscription)
    committed(delete_topic)
    assert ensure_transport_objects().removed == []

    collect()
    assert letters() == [died]
    ensure_transport_objects()
    assert not StoreRemoval.objects.exists()
    assert keys(prefix, TOPIC) == []
    assert bus.admin(carrier).counts(TOPIC) == {}


def test_a_topic_deleted_while_the_store_was_away_leaves_no_letter_behind(
    died: bytes, committed: Committed, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*args: object) -> None:
        raise Unavailable("The store is away.")

    with monkeypatch.context() as patched:
        patched.setattr(bus, "admin", away)
        committed(delete_subscription)
        committed(delete_topic)
    # The removal of the topic alone is known: as of a group that no row tells of
    StoreRemoval.objects.exclude(group="").delete()

    assert ensure_transport_objects().removed == []
    collect()
    assert letters() == [died]
    ensure_transport_objects()
    assert not StoreRemoval.objects.exists()


@pytest.mark.parametrize("step", ["delete_group", "forget", "dead", "forget_dead", "delete_topic"])
def test_whoever_is_killed_after_any_step_leaves_the_rest_to_the_next(
    died: bytes, carrier: str, step: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_subscription()
    delete_topic()
    killed = []
    owner = type(bus.breakers() if step == "forget" else bus.admin(carrier))
    does = getattr(owner, step)

    def then_killed(*args: object) -> None:
        killed.append(does(*args))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(owner, step, then_killed)
        for act in (ensure_transport_objects, collect, ensure_transport_objects):
            with suppress(KeyboardInterrupt):
                act()
    assert killed

    ensure_transport_objects()
    collect()
    ensure_transport_objects()
    assert letters() == [died]
    assert not StoreRemoval.objects.exists()
    assert keys(prefix, TOPIC) == []


def test_what_a_topic_left_behind_in_another_store_is_taken_over_from_there(died: bytes, carrier: str) -> None:
    # When the topic is carried by another transport by now, and read on there
    Topic.objects.update(transport="memory")
    StoreRemoval.objects.create(topic=TOPIC, transport=carrier)
    bus.breakers().force_open(TOPIC, GROUP, "the payment service is away")
    ensure_transport_objects()

    collect()
    assert letters() == [died]
    ensure_transport_objects()
    assert not StoreRemoval.objects.exists()

    # Then its subscription is the same as before, and so is its breaker
    assert Subscription.objects.get().group == GROUP
    assert bus.breakers().look(TOPIC, GROUP).forced


@pytest.mark.parametrize("carrier", ["redis_stream"], indirect=True)
def test_every_partition_is_taken_over(carrier: str, committed: Committed, prefix: str) -> None:
    make(
        committed, TopicDraft(TOPIC, "Reservations", transport=carrier, ordering="key", partitions=4, priorities=False)
    )
    for number in range(64):
        shared_producer().publish(TOPIC, {}, PublishOptions(key=f"booking/{number}"))
    for partition in range(4):
        bury_one(bus.transport(carrier).receiver(TOPIC, GROUP, consumer="c", lease_ms=30_000, partition=partition))

    committed(delete_subscription)
    committed(delete_topic)
    collect()
    ensure_transport_objects()

    assert len(letters()) == 4
    assert not StoreRemoval.objects.exists()
    assert keys(prefix, TOPIC) == []


def test_a_breaker_goes_with_its_subscription(carrier: str, committed: Committed, prefix: str) -> None:
    make(committed, TopicDraft(TOPIC, "Reservations", transport=carrier, priorities=False))
    subscriptions.set_breaker(SYSTEM, TOPIC, GROUP, "open", "the payment service is away")
    committed(lambda: subscriptions.pause_subscription(SYSTEM, TOPIC, GROUP, "for the test"))

    committed(delete_subscription)
    assert keys(prefix, ":group:", ":breaker:") == []

    # Then one of the same name has a history of its own, even where the last consumer of the other opened it once more
    bus.breakers().force_open(TOPIC, GROUP, "the payment service is away")
    committed(create_subscription)
    standing = subscriptions.breaker(SYSTEM, TOPIC, GROUP)
    assert (standing.state, standing.forced, standing.why) == ("closed", False, "")
    assert not bus.admin(carrier).lag(TOPIC, GROUP).paused
