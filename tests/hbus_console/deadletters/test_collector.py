from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import msgspec
import pytest
from pytest_django import Settings

from engine.bus import bounds, dead
from engine.bus.config import BusConfig
from engine.bus.conformance.base import bury
from engine.bus.errors import GroupLost
from engine.bus.message import Message, encode
from engine.bus.transport import Attempt, DeadEntry, Outgoing
from engine.bus.transports.redis_stream import open_transport
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from hbus_console.deadletters.collector import DeadLetterCollector
from hbus_console.deadletters.limit import full_subscriptions
from hbus_console.deadletters.models import DeadLetter
from hbus_console.evidence.freshness import STALE_MS, dead_letters
from hbus_console.subscriptions.models import Subscription
from hbus_console.supervisor.standalone import StandaloneStore
from hbus_console.topics.models import Topic
from tests.store_work import store_reads

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

DIED_MS = 1_790_000_035_000


def entry(number: int, **more: bytes) -> DeadEntry:
    message = Message(
        id=f"m{number}", source="/hotels", type="booking.changed", partitionkey=f"b/{number}", correlationid="c1"
    )
    record = dead.DeadRecord(
        cause="UnknownRoomCode: …",
        error="UnknownRoomCode: 'DBL-SEA'",
        fingerprint="7c1f9a",
        attempts=2,
        history=(Attempt(1, DIED_MS - 9_000, 1_204_000, "n1", "X"), Attempt(2, DIED_MS, 1_000, "n1", "X\x00")),
        first_failed_ms=DIED_MS - 9_000,
        died_ms=DIED_MS,
        topic="booking.changed",
        group="partner-sync",
        consumer="n1",
        handler="h",
    )
    values = {"body": encode(message), "record": dead.encode(record), **more}
    return DeadEntry(entry=str(number), position=f"{number}-0", **values)


def body_of(message_id: str) -> bytes:
    return encode(Message(id=message_id, source="/hotels", type="booking.changed"))


class DeadStore:
    """The transport's side: what lies there, and what goes wrong."""

    def __init__(self) -> None:
        self.entries: list[DeadEntry] = []
        self.fails: dict[str, Exception] = {}
        self.dies_before_forgetting = False

    def dead(self, topic: str, group: str, limit: int = 100) -> list[DeadEntry]:
        if topic in self.fails:
            raise self.fails[topic]
        return self.entries[:limit]

    def forget_dead(self, topic: str, group: str, entries: list[str]) -> int:
        if self.dies_before_forgetting:
            raise KeyboardInterrupt
        kept = [entry for entry in self.entries if entry.entry not in entries]
        gone, self.entries = len(self.entries) - len(kept), kept
        return gone


@pytest.fixture
def store(subscription: Subscription) -> DeadStore:
    return DeadStore()


@pytest.fixture
def collector(store: DeadStore) -> DeadLetterCollector:
    return DeadLetterCollector(lambda _: store, clock=ManualClock())  # type: ignore[arg-type,return-value]


def test_a_letter_is_taken_over_whole_and_then_forgotten(store: DeadStore, collector: DeadLetterCollector) -> None:
    store.entries = [entry(1)]
    collector.tick()
    letter = DeadLetter.objects.get()
    assert (letter.topic, letter.subscription, letter.message_id) == ("booking.changed", "partner-sync", "m1")
    assert (letter.source, letter.key, letter.correlation_id, letter.position) == ("/hotels", "b/1", "c1", "1-0")
    assert (letter.cause, letter.fingerprint, letter.attempts) == ("UnknownRoomCode: …", "7c1f9a", 2)
    assert [attempt["number"] for attempt in letter.history] == [1, 2]
    assert letter.history[1]["error"] == "X"
    assert (letter.died_at - letter.first_failed_at).total_seconds() == 9
    assert bytes(letter.body) == entry(1).body
    assert store.entries == []


def test_many_are_taken_over_in_one_tick(store: DeadStore, collector: DeadLetterCollector) -> None:
    store.entries = [entry(number) for number in range(450)]
    collector.tick()
    assert DeadLetter.objects.count() == 450


def test_a_crash_between_inserting_and_forgetting_doubles_nothing(
    store: DeadStore, collector: DeadLetterCollector
) -> None:
    store.entries = [entry(1)]
    store.dies_before_forgetting = True
    with pytest.raises(KeyboardInterrupt):
        collector.tick()
    store.dies_before_forgetting = False
    collector.tick()
    assert DeadLetter.objects.count() == 1
    assert store.entries == []


@pytest.mark.parametrize(
    "message_id",
    [
        pytest.param(lambda number: "same", id="one id"),
        pytest.param(lambda number: "a" * 64 + str(number), id="ids alike in what a column keeps"),
    ],
)
def test_letters_of_one_id_and_source_that_die_in_one_millisecond_are_all_kept(
    store: DeadStore, collector: DeadLetterCollector, message_id: Callable[[int], str]
) -> None:
    store.entries = [entry(number, body=body_of(message_id(number))) for number in range(300)]
    collector.tick()
    assert sorted(DeadLetter.objects.values_list("position", flat=True)) == sorted(f"{n}-0" for n in range(300))
    assert store.entries == []


def test_one_position_that_dies_twice_in_one_millisecond_is_two_letters(
    store: DeadStore, collector: DeadLetterCollector
) -> None:
    """As of a store whose clock stands still: only the entry tells them apart."""
    store.entries = [entry(1), msgspec.structs.replace(entry(1), entry="2")]
    collector.tick()
    assert DeadLetter.objects.count() == 2


@pytest.mark.parametrize("what", ["several of one millisecond", "an unreadable record"])
def test_a_repeat_after_a_crash_is_known_as_one(store: DeadStore, collector: DeadLetterCollector, what: str) -> None:
    if what == "an unreadable record":
        store.entries = [entry(1, record=b"{")]
    else:
        store.entries = [entry(number, body=body_of("same")) for number in range(3)]
    written = len(store.entries)
    store.dies_before_forgetting = True
    with pytest.raises(KeyboardInterrupt):
        collector.tick()
    store.dies_before_forgetting = False
    later = DeadLetterCollector(lambda _: store, clock=ManualClock(start_ms=DIED_MS + 60_000))  # type: ignore[arg-type,return-value]
    later.tick()
    assert DeadLetter.objects.count() == written
    assert store.entries == []


def test_a_letter_that_the_release_before_took_over_and_did_not_forget_is_not_doubled(
    store: DeadStore, collector: DeadLetterCollector
) -> None:
    store.entries = [entry(number, body=body_of("same")) for number in range(2)]
    collector.tick()
    DeadLetter.objects.update(entry_digest=None)
    store.entries = [entry(number, body=body_of("same")) for number in range(3)]
    collector.tick()
    assert sorted(DeadLetter.objects.values_list("position", flat=True)) == ["0-0", "1-0", "2-0"]


@pytest.mark.parametrize(
    ("record", "attempts"),
    [
        pytest.param({"attempts": -1}, 0, id="fewer attempts than none"),
        pytest.param({"attempts": 2**40}, 2**31 - 1, id="more attempts than a column holds"),
        pytest.param({"died_ms": 2**60}, 0, id="died when there is no date"),
    ],
)
def test_numbers_that_no_database_takes_lose_no_letter(
    store: DeadStore, collector: DeadLetterCollector, record: dict[str, int], attempts: int
) -> None:
    odd = msgspec.structs.replace(dead.decode(entry(1).record), **record)
    store.entries = [entry(1, record=dead.encode(odd)), entry(2)]
    collector.tick()
    assert DeadLetter.objects.get(position="1-0").attempts == attempts
    assert DeadLetter.objects.count() == 2


def test_a_letter_that_nobody_can_read_is_kept(store: DeadStore, collector: DeadLetterCollector) -> None:
    store.entries = [entry(1, body=b"\xff\x00", record=b"{"), entry(2)]
    collector.tick()
    broken = DeadLetter.objects.get(position="1-0")
    assert broken.message_id == "@1-0"
    assert bytes(broken.body) == b"\xff\x00"
    assert "unreadable" in broken.cause
    assert DeadLetter.objects.count() == 2


def test_one_that_somebody_else_has_written_goes_by_its_entry(store: DeadStore, collector: DeadLetterCollector) -> None:
    store.entries = [DeadEntry("7-0", "", b"x=y", b""), DeadEntry("8-0", "", b"x=y", b""), entry(9)]
    collector.tick()
    assert set(DeadLetter.objects.values_list("message_id", flat=True)) == {"@7-0", "@8-0", "m9"}


def test_a_lost_group_or_store_does_not_keep_the_others_from_it(
    store: DeadStore, collector: DeadLetterCollector
) -> None:
    for name in ("a.lost", "b.away"):
        transport = "elsewhere" if name == "b.away" else ""
        Subscription.objects.create(topic=Topic.objects.create(name=name, transport=transport), group="g")
    store.fails = {"a.lost": GroupLost("gone"), "b.away": Unavailable("Connection refused.")}
    store.entries = [entry(1)]
    with pytest.raises(Unavailable):
        collector.tick()
    assert DeadLetter.objects.count() == 1


def test_beyond_the_limit_letters_are_collected_like_any_other(
    store: DeadStore, collector: DeadLetterCollector, settings: Settings
) -> None:
    """A limit calls for people. It never decides that a message is lost."""
    settings.DEAD_LETTER_LIMIT = 2
    store.entries = [entry(number) for number in range(5)]
    collector.tick()
    store.entries = [entry(number) for number in range(5, 7)]
    collector.tick()
    assert DeadLetter.objects.filter(state="dead").count() == 7
    assert store.entries == []
    assert [(full.group, full.count) for full in full_subscriptions(("*",))] == [("partner-sync", 7)]


def test_three_hundred_subscriptions_are_asked_in_a_few_round_trips(
    subscription: Subscription, own_store: StandaloneStore
) -> None:
    topics = Topic.objects.bulk_create(Topic(name=f"t{number}") for number in range(300))
    Subscription.objects.bulk_create(Subscription(topic=topic, group="g") for topic in topics)
    transport = open_transport(BusConfig(type="redis_stream", url=own_store.url, prefix="t"))
    transport.admin.create_group("t7", "g")
    transport.publish("t7", [Outgoing("m1", entry(1).body)])
    receiver = transport.receiver("t7", "g", consumer="c", lease_ms=30_000)
    (delivery,) = receiver.receive(1, 1.0)
    assert bury(receiver, delivery, entry(1).record)

    collector = DeadLetterCollector(lambda _: transport.admin, clock=ManualClock())
    with store_reads(own_store.url) as cost:
        collector.tick()

    assert [letter.topic for letter in DeadLetter.objects.all()] == ["t7"]
    cost.at_most(20, "reads for 301 subscriptions")
    receiver.close()
    transport.close()


def test_large_letters_are_taken_few_at_a_time_and_all_in_order(
    subscription: Subscription, own_store: StandaloneStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounds, "DEAD_BYTES", 5_000_000)
    topic, group = subscription.topic.name, subscription.group
    with closing(open_transport(BusConfig(type="redis_stream", url=own_store.url, prefix="t"))) as transport:
        transport.admin.create_group(topic, group)
        # Large ones behind small ones, by which nobody could tell
        bodies = [b"%02d" % number + b"x" * (10 if number < 30 else 2_000_000) for number in range(36)]
        for body in bodies:
            transport.publish(topic, [Outgoing(body[:2].decode(), body)])
        with closing(transport.receiver(topic, group, consumer="c", lease_ms=30_000)) as receiver:
            taken = 0
            while taken < len(bodies):
                (delivery,) = receiver.receive(1, 1.0)
                assert bury(receiver, delivery, entry(1).record)
                taken += 1

        created: list[int] = []
        bulk_create = DeadLetter.objects.bulk_create

        def noted(letters: list[DeadLetter]) -> list[DeadLetter]:
            created.append(sum(len(letter.body) for letter in letters))
            return bulk_create(letters)

        monkeypatch.setattr(DeadLetter.objects, "bulk_create", noted)
        DeadLetterCollector(lambda _: transport.admin, clock=ManualClock()).tick()

        assert transport.admin.dead(topic, group) == []
    found = [bytes(letter.body)[:2] for letter in DeadLetter.objects.order_by("pk")]
    assert found == [body[:2] for body in bodies]
    assert len(created) >= 3
    assert max(created) <= bounds.DEAD_BYTES


def test_names_that_no_database_takes_do_not_keep_letters_from_being_taken_over(
    store: DeadStore, collector: DeadLetterCollector
) -> None:
    odd = Message(id="m\x00" * 60, source="/s\x00" * 300, type="t", partitionkey="\x00k", correlationid="c\x00")
    store.entries = [entry(1), entry(2, body=encode(odd)), entry(3)]
    collector.tick()
    assert store.entries == []
    letter = DeadLetter.objects.get(position="2-0")
    # Cut as the ledger cuts them, so that both speak of one message.
    assert (letter.message_id, letter.key, letter.correlation_id) == ("m" * 32, "k", "c")


def test_it_notes_until_when_all_letters_are_taken_over(store: DeadStore, collector: DeadLetterCollector) -> None:
    clock = collector._clock
    assert isinstance(clock, ManualClock)

    def known() -> bool:
        return dead_letters(clock.now_ms()).known

    assert not known()
    collector.tick()
    assert known()
    clock.advance(STALE_MS / 1_000)
    assert not known()
    store.fails["booking.changed"] = Unavailable("Connection refused.")
    with pytest.raises(Unavailable):
        collector.tick()
    assert not known(), "some may lie in a store that did not answer"
