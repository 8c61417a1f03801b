"""A beat sends each slot that has come once, whatever others do, and says what it does not send."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
import redis
from celery import Celery
from celery.beat import BeatLazyFunc
from celery.schedules import crontab
from celery.signals import after_task_publish
from kombu import Exchange, Queue

from engine.core.clock import ManualClock
from engine.core.errors import ConfigurationError
from engine.core.store import open_client
from engine.cron.beat import SlotScheduler
from engine.cron.beat.scheduler import AWAY_S, task_id_of
from engine.cron.beat.settings import settings_of
from engine.cron.beat.store import BeatStore, SlotClaim
from hbus_console.supervisor.standalone import StandaloneStore
from tests.engine.cron.beat.conftest import MakeBeat, key_of, messages, rule_in

HOUR_S = 3_600


def half_past() -> crontab:
    """Half an hour ago, and in half an hour: however slow the test is, no further slot comes."""
    return crontab((time.gmtime().tm_min + 30) % 60)


def hourly() -> dict[str, Any]:
    return {"tick": {"task": "hotel.tick", "schedule": half_past()}}


def now(client: redis.Redis) -> int:
    return int(client.time()[0])


def behind(client: redis.Redis, beat: SlotScheduler, by_s: int = HOUR_S, entry: str = "tick") -> int:
    """As if this entry had been sent until so long ago; when that was."""
    cursor = now(client) - by_s
    client.hset(key_of(beat, entry), "cursor", cursor)
    return cursor


def first_after(beat: SlotScheduler, cursor: int, entry: str = "tick") -> int:
    """The slot that comes behind it."""
    return rule_in(beat, entry).slots.next_after(cursor) or 0


@dataclass(frozen=True)
class Place:
    """Where the state of the entries lies, with the settings that say so."""

    client: redis.Redis
    settings: dict[str, Any]


@pytest.fixture(params=["in the broker", "elsewhere"])
def place(request: pytest.FixtureRequest, client: redis.Redis, redis_url: str, prefix: str) -> Iterator[Place]:
    if request.param == "in the broker":
        yield Place(client, {})
        return
    other = open_client(redis_url)
    yield Place(other, {"hbus_beat_url": redis_url, "hbus_beat_name": prefix})
    other.close()


def test_what_is_new_is_sent_from_now_on(beat: MakeBeat, client: redis.Redis) -> None:
    began = now(client)
    made = beat({"tick": {"task": "hotel.tick", "schedule": 1, "args": (1,), "kwargs": {"a": 2}}})
    made.tick()
    assert messages(client) == []
    while not messages(client):
        time.sleep(made.tick())
    (sent,) = messages(client)[:1]
    assert (sent["task"], sent["body"][:2]) == ("hotel.tick", [[1], {"a": 2}])
    assert (sent["hbus_entry"], sent["celery_beat_task"]) == ("tick", True)
    assert sent["id"] in {task_id_of("hotel", "tick", slot) for slot in range(began, now(client) + 1)}


def test_after_a_downtime_the_last_that_was_missed_is_sent_alone(
    place: Place, beat: MakeBeat, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    made = beat(hourly(), **place.settings)
    cursor = behind(place.client, made, 4 * HOUR_S)
    made.tick()
    made.tick()
    last = first_after(made, cursor + 3 * HOUR_S)
    assert [each["id"] for each in messages(client)] == [task_id_of(settings_of(made.app).name, "tick", last)]
    assert place.client.hgetall(key_of(made, "tick"))[b"cursor"] == str(last).encode()
    assert "beat: 3 slots of 'tick' from " in caplog.text


def test_what_was_missed_longer_ago_than_the_window_is_not_sent(
    beat: MakeBeat, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    month = time.gmtime(now(client)).tm_mon % 12 + 1
    made = beat({"tick": {"task": "t", "schedule": crontab(0, 0, day_of_month=15, month_of_year=month)}})
    behind(client, made, 800 * 86_400)
    made.tick()
    made.tick()
    assert messages(client) == []
    assert "longer than its window of 86,400 s" in caplog.text
    client.hset(key_of(made, "tick"), "cursor", now(client))


def test_slots_that_are_little_late_are_all_sent_in_their_order(beat: MakeBeat, client: redis.Redis) -> None:
    made = beat({"tick": {"task": "t", "schedule": 1}})
    cursor = behind(client, made, 9)
    for _ in range(9):
        made.tick()
    ids = [each["id"] for each in messages(client)]
    assert ids[:9] == [task_id_of("hotel", "tick", cursor + number) for number in range(1, 10)]


def test_of_many_beats_one_sends_a_slot(beat: MakeBeat, client: redis.Redis) -> None:
    entries = {f"tick-{number}": {"task": "t", "schedule": half_past()} for number in range(120)}
    beats = [beat(entries) for _ in range(3)]
    for name in entries:
        behind(client, beats[0], HOUR_S, name)
    for _ in range(4):
        for each in beats:
            each.tick()
    sent = messages(client)
    assert len({each["id"] for each in sent}) == len(sent)
    assert {each["hbus_entry"] for each in sent} == set(entries)


def test_a_slot_of_a_beat_that_died_before_it_sent_is_sent_once_its_lease_is_over(
    beat: MakeBeat, client: redis.Redis
) -> None:
    made = beat(hourly(), hbus_beat_lease=1)
    cursor = behind(client, made)
    key = key_of(made, "tick")
    store = BeatStore(client, "")
    assert [each.won for each in store.claim([SlotClaim(key, "dead", cursor, cursor + 1)], 1.0)] == [True]
    made.tick()
    assert messages(client) == []
    deadline = time.monotonic() + 10
    while not messages(client) and time.monotonic() < deadline:
        time.sleep(made.tick())
    assert len(messages(client)) == 1
    assert client.hget(key, "holder") is None


@pytest.fixture
def after_sending() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Does something between the broker's having a task and the beat's knowing of it."""
    connected: list[Any] = []

    def do(act: Callable[[], None]) -> None:
        def receiver(**_: Any) -> None:
            connected.pop()
            after_task_publish.disconnect(receiver)
            act()

        connected.append(receiver)
        after_task_publish.connect(receiver, weak=False)

    yield do
    for each in connected:
        after_task_publish.disconnect(each)


def dies() -> None:
    raise SystemExit


def test_a_beat_that_dies_once_the_broker_has_a_task(
    place: Place, beat: MakeBeat, client: redis.Redis, after_sending: Callable[[Callable[[], None]], None]
) -> None:
    """Where the state lies in the broker, that has learnt both at once; else it is sent again, under the same id."""
    dying, other = (beat(hourly(), hbus_beat_lease=1, **place.settings) for _ in range(2))
    cursor = behind(place.client, dying)
    after_sending(dies)
    with pytest.raises(SystemExit):
        dying.tick()
    deadline = time.monotonic() + 20
    while place.client.hget(key_of(other, "tick"), "cursor") == str(cursor).encode() and time.monotonic() < deadline:
        time.sleep(other.tick())
    other.tick()
    ids = [each["id"] for each in messages(client)]
    assert ids == [task_id_of(settings_of(other.app).name, "tick", first_after(other, cursor))] * (
        2 if place.settings else 1
    )


def test_a_beat_that_stood_still_beyond_its_lease_sends_nothing_of_what_others_have_sent(
    beat: MakeBeat, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    """Its claim is lost between its claiming and its sending, which is when arguments are computed."""
    other = beat(hourly())
    made: list[SlotScheduler] = []

    def stands_still() -> int:
        if len(made) == 1:
            key = key_of(other, "tick")
            # Its lease runs out, and another beat comes to it.
            client.hdel(key, "holder", "until")
            made.append(other)
            other.tick()
        return 1

    lazy = {"tick": {"task": "hotel.tick", "schedule": half_past(), "kwargs": {"a": BeatLazyFunc(stands_still)}}}
    made.append(beat(lazy))
    behind(client, made[0])
    made[0].tick()
    assert len(made) == 2
    assert len(messages(client)) == 1
    assert "cannot be sent" not in caplog.text


def test_what_was_claimed_half_a_lease_ago_is_claimed_anew_before_it_is_sent(
    beat: MakeBeat, client: redis.Redis
) -> None:
    """Sending what came before it took so long: another beat may have it by the time that it is its turn."""
    clock = ManualClock()

    def takes_long() -> int:
        clock.advance(6)
        return 1

    slow = {"task": "hotel.tick", "schedule": half_past(), "kwargs": {"a": BeatLazyFunc(takes_long)}}
    made = beat({"one": slow, "two": slow}, clock, hbus_beat_lease=10)
    cursors = {name: behind(client, made, HOUR_S, name) for name in ("one", "two")}
    assert made.tick() == 0.0
    (first,) = messages(client)
    other = "two" if first["hbus_entry"] == "one" else "one"
    assert client.hget(key_of(made, other), "cursor") == str(cursors[other]).encode()
    # Another beat is at it now.
    client.hset(key_of(made, other), mapping={"holder": "another", "until": (now(client) + 60) * 1000})
    made.tick()
    assert len(messages(client)) == 1
    client.hdel(key_of(made, other), "holder", "until")
    clock.advance(1)
    made.tick()
    assert [each["hbus_entry"] for each in messages(client)] == [first["hbus_entry"], other]


def test_a_slot_that_another_beat_is_at_is_left_to_it(
    beat: MakeBeat, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[SlotScheduler] = []

    def stands_still() -> int:
        client.hset(key_of(made[0], "tick"), mapping={"holder": "another", "until": (now(client) + 60) * 1000})
        return 1

    lazy = {"tick": {"task": "hotel.tick", "schedule": half_past(), "kwargs": {"a": BeatLazyFunc(stands_still)}}}
    made.append(beat(lazy))
    cursor = behind(client, made[0])
    made[0].tick()
    assert messages(client) == []
    assert client.hget(key_of(made[0], "tick"), "cursor") == str(cursor).encode()
    assert "another beat has taken 'tick' of" in caplog.text


def test_what_cannot_be_sent_is_told_and_holds_up_no_other(
    beat: MakeBeat, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    made = beat({"bad": {"task": "t", "schedule": half_past(), "args": (object(),)}, **hourly()})
    for name in ("bad", "tick"):
        behind(client, made, HOUR_S, name)
    made.tick()
    assert [each["hbus_entry"] for each in messages(client)][:1] == ["tick"]
    assert "'bad' of " in caplog.text
    assert "cannot be sent" in caplog.text
    assert client.hget(key_of(made, "bad"), "cursor") == client.hget(key_of(made, "tick"), "cursor")


def test_a_store_that_is_away_sends_nothing_and_is_told_once(
    beat: MakeBeat, own_store: StandaloneStore, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    made = beat(hourly())
    own_store.kill()
    assert [made.tick(), made.tick()] == [AWAY_S, AWAY_S]
    assert caplog.text.count("nothing is sent: The store cannot be reached") == 1
    assert own_store.password not in caplog.text
    own_store.start()
    behind(client, made)
    made.tick()
    assert len(messages(client)) >= 1
    assert "it sends again" in caplog.text


def test_a_broker_that_is_away_costs_no_slot(
    beat: MakeBeat, own_store: StandaloneStore, client: redis.Redis, redis_url: str, prefix: str
) -> None:
    """While the store is there."""
    elsewhere = {"hbus_beat_url": redis_url, "hbus_beat_name": prefix, "task_publish_retry": False}
    made = beat({**hourly(), "first": {"task": "t", "schedule": half_past()}}, **elsewhere)
    state = open_client(redis_url)
    behind(state, made, entry="first")
    made.tick()
    assert len(messages(client)) == 1
    again = beat(hourly(), **elsewhere)
    again.producer.connection.ensure_connection()
    cursor = behind(state, again)
    own_store.kill()
    assert again.tick() == AWAY_S
    assert state.hget(key_of(again, "tick"), "cursor") == str(cursor).encode()
    own_store.start()
    again.tick()
    again.tick()
    assert [each["hbus_entry"] for each in messages(client)].count("tick") == 1
    state.close()


def test_a_store_that_forgets_begins_with_the_present(
    beat: MakeBeat, client: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    made = beat({"tick": {"task": "t", "schedule": 1}})
    behind(client, made, 5)
    made.tick()
    client.flushall()
    began = now(client)
    deadline = time.monotonic() + 10
    while not messages(client) and time.monotonic() < deadline:
        time.sleep(made.tick())
    assert "has forgotten how far 'tick' is sent" in caplog.text
    assert messages(client)[0]["id"] in {task_id_of("hotel", "tick", at) for at in range(began, now(client) + 1)}


def test_queues_priorities_prefixes_and_expiring_queues_are_as_celery_has_them(
    beat: MakeBeat, client: redis.Redis
) -> None:
    expiring = Queue("short", Exchange("short"), routing_key="short", expires=60)
    entries = {
        "a": {"task": "t", "schedule": half_past(), "options": {"queue": "night", "priority": 6}},
        "b": {"task": "t", "schedule": half_past(), "options": {"queue": "short"}},
    }
    made = beat(
        entries,
        task_queues=[Queue("celery"), Queue("night"), expiring],
        broker_transport_options={"global_keyprefix": "x:"},
    )
    for name in entries:
        behind(client, made, HOUR_S, name)
    made.tick()
    assert len(messages(client, "x:night\x06\x166")) == 1
    assert len(messages(client, "x:short")) == 1
    assert 0 < client.pttl("x:short") <= 60_000
    assert client.hget(key_of(made, "b"), "holder") is None


def test_a_changed_schedule_begins_with_the_present_and_the_same_goes_on(beat: MakeBeat, client: redis.Redis) -> None:
    made = beat(hourly())
    again = beat({"tick": {"task": "other", "schedule": half_past(), "args": (7,)}})
    other = beat({"tick": {"task": "hotel.tick", "schedule": timedelta(hours=1)}})
    assert key_of(made, "tick") == key_of(again, "tick") != key_of(other, "tick")
    behind(client, made)
    other.tick()
    assert messages(client) == []


def test_entries_without_slots_end_the_start_and_are_all_named(
    beat: MakeBeat, caplog: pytest.LogCaptureFixture
) -> None:
    entries = {
        "half": {"task": "t", "schedule": 0.5},
        "own": {"task": "t", "schedule": 5, "options": {"task_id": "x"}},
        "long": {"task": "t", "schedule": timedelta(days=400)},
        "fine": {"task": "t", "schedule": 5},
        # Of both days, which no expression of ours says, and which Celery's own rule does.
        "friday-13": {"task": "t", "schedule": crontab(0, 0, "fri", 13)},
    }
    with pytest.raises(ConfigurationError, match="3 of 5 entries"):
        beat(entries)
    for name in ("half", "own", "long"):
        assert f"the entry '{name}' has no slots" in caplog.text


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"broker_url": "amqp://u:hunter2@a//"}, "hbus_beat_url"),
        ({"broker_url": "sentinel://:hunter2@a:1;sentinel://b"}, "hbus_beat_url"),
        ({"broker_use_ssl": {"x": 1}}, "hbus_beat_url"),
        ({"hbus_beat_url": "amqp://:hunter2@a"}, "hbus_beat_url"),
        ({"hbus_beat_url": 7}, "hbus_beat_url"),
        ({"hbus_beat_lease": 0.5}, "hbus_beat_lease"),
        ({"hbus_beat_grace": 3}, "hbus_beat_grace"),
        ({"hbus_beat_window": "1d"}, "hbus_beat_window"),
    ],
)
def test_settings_that_do_not_fit_are_refused_by_name(settings: dict[str, Any], field: str) -> None:
    app = Celery("hotel", set_as_current=False)
    app.conf.update({"broker_url": "redis://a", **settings})
    with pytest.raises(ConfigurationError) as refused:
        settings_of(app)
    assert refused.value.field == field
    assert refused.value.remedy
    assert "hunter2" not in str(refused.value)


def test_settings_are_read_as_celery_reads_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Celery("hotel", broker="redis://a", set_as_current=False)
    assert (settings_of(plain).name, settings_of(plain).in_broker, settings_of(plain).window_s) == (
        "hotel",
        True,
        86_400,
    )
    django = Celery("hotel", broker="amqp://a", set_as_current=False)
    source = type("Settings", (), {"CELERY_HBUS_BEAT_NAME": "night", "CELERY_HBUS_BEAT_URL": "redis://b"})
    django.config_from_object(source, namespace="CELERY")
    assert (settings_of(django).name, settings_of(django).in_broker) == ("night", False)
    late = Celery("hotel", broker="redis://a", set_as_current=False)
    late.conf.beat_cron_starting_deadline = 600
    assert settings_of(late).window_s == 600
