from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from django.db import OperationalError, transaction

from engine.bus import at_carriers
from engine.bus.conformance.running import until
from engine.bus.errors import PublishFailed, PublishRefused, PublishUnknown
from engine.bus.message import Message, encode
from engine.bus.options import PublishOptions
from engine.bus.ways import Way
from engine.core.clock import ManualClock
from engine.core.errors import HbusError, Unavailable
from hbus_console.outbox.models import OutboxMessage
from hbus_console.outbox.relay import OutboxRelay, outbox_state
from hbus_console.outbox.services import publish_on_commit, wake_relay
from hbus_console.publishing.producer import shared_producer
from hbus_console.topics import catalog
from hbus_console.topics.models import Topic
from hbus_console.wiring import store
from tests.hbus_console.publishing.known import known_for_ms

Verdict = Callable[[Message], HbusError | None]


class Picky:
    """The real producer, but for the messages on which ``verdict`` has one; ``stores`` tells whether they get there."""

    def __init__(self, verdict: Verdict, *, stores: bool = False) -> None:
        self._real = shared_producer()
        self._verdict = verdict
        self._stores = stores
        self.sent: list[list[str]] = []

    def way(self, topic: str, *, meant: str) -> Any:
        real = self._real.way(topic, meant=meant)
        return SimpleNamespace(carrier=real.carrier, send=partial(self._send, real))

    def _send(
        self, real: Way, messages: Sequence[Message], idempotency_keys: Sequence[str], *, at_least_s: int
    ) -> list[Any]:
        self.sent.append([message.id for message in messages])
        answers: list[Any] = [self._verdict(message) for message in messages]
        taken = [index for index, answer in enumerate(answers) if answer is None or self._stores]
        receipts = real.send(
            [messages[index] for index in taken], [idempotency_keys[index] for index in taken], at_least_s=at_least_s
        )
        for index, receipt in zip(taken, receipts, strict=True):
            answers[index] = answers[index] or receipt
        return answers


def relay(producer: Any = None) -> OutboxRelay:
    # Its clock stands still: no store is so slow that it is not waited for.
    return OutboxRelay(lambda: producer or shared_producer(), store.client, wait_s=0.05, clock=ManualClock())


def put(topic: Topic, *ids: str, key: str = "") -> None:
    with transaction.atomic():
        for name in ids:
            publish_on_commit(topic.name, {"name": name}, PublishOptions(key=key, message_id=name))


def names(messages: Iterable[Message]) -> list[str]:
    return [message.json()["name"] for message in messages]


def test_what_waits_is_published_in_order_and_removed(topic: Topic, stored: Callable[[], list[Message]]) -> None:
    put(topic, *[f"m{number}" for number in range(1_200)])
    relay().tick()
    assert names(stored()) == [f"m{number}" for number in range(1_200)]
    assert outbox_state().waiting == 0


def test_the_envelope_is_the_one_that_was_prepared(topic: Topic, stored: Callable[[], list[Message]]) -> None:
    options = PublishOptions(key="b1", correlation_id="c1", causation_id="cause", headers={"tenant": "north"})
    with transaction.atomic():
        message_id = publish_on_commit(topic.name, {"name": "x"}, options)
    relay().tick()
    (message,) = stored()
    assert (message.id, message.partitionkey, message.correlationid) == (message_id, "b1", "c1")
    assert (message.causationid, message.extensions) == ("cause", {"tenant": "north"})


def test_what_was_meant_for_a_deleted_topic_does_not_go_to_its_namesake(
    topic: Topic, stored: Callable[[], list[Message]]
) -> None:
    put(topic, "secret")
    name, team = topic.name, topic.team
    topic.delete()
    namesake = Topic.objects.create(name=name, team=team)
    catalog.changed()
    put(namesake, "open")
    relay().tick()
    assert names(stored()) == ["open"]
    (left,) = OutboxMessage.objects.all()
    assert left.message_id == "secret"
    assert left.refused_at is not None
    assert "was deleted; the one of this name now is another" in left.last_error
    # Rows of releases that did not note it go as they always did.
    OutboxMessage.objects.update(incarnation="", refused_at=None)
    relay().tick()
    assert names(stored()) == ["open", "secret"]


def test_messages_of_one_key_never_share_a_call(topic: Topic, stored: Callable[[], list[Message]]) -> None:
    put(topic, "a1", "a2", key="a")
    put(topic, "b1", key="b")
    picky = Picky(lambda _: None)
    relay(picky).tick()
    assert picky.sent == [["a1", "b1"], ["a2"]]
    assert names(stored()) == ["a1", "b1", "a2"]


@pytest.mark.parametrize("error", [PublishFailed("away"), PublishUnknown("cut off")])
def test_a_message_the_store_did_not_take_blocks_its_key_and_no_other(
    topic: Topic, stored: Callable[[], list[Message]], error: HbusError
) -> None:
    put(topic, "a1", "a2", key="a")
    put(topic, "b1", key="b")
    put(topic, "loose")
    with pytest.raises(Unavailable, match="1 message waits"):
        relay(Picky(lambda message: error if message.id == "a1" else None)).tick()
    assert names(stored()) == ["b1", "loose"]
    assert list(OutboxMessage.objects.values_list("message_id", "attempts", "last_error")) == [
        ("a1", 1, str(error)),
        ("a2", 0, ""),
    ]
    relay().tick()
    assert names(stored()) == ["b1", "loose", "a1", "a2"]


def test_a_blocked_key_stays_blocked_over_pages(
    topic: Topic, stored: Callable[[], list[Message]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hbus_console.outbox.relay.BATCH", 2)
    put(topic, "a1", key="a")
    put(topic, "x", "y", "z")
    put(topic, "a2", key="a")
    with pytest.raises(Unavailable):
        relay(Picky(lambda message: PublishFailed("away") if message.id == "a1" else None)).tick()
    assert names(stored()) == ["x", "y", "z"]


def test_a_crash_between_publishing_and_removing_doubles_nothing(
    topic: Topic, stored: Callable[[], list[Message]]
) -> None:
    put(topic, "a1", "a2")
    # The store has taken both, and nobody learnt of it: exactly what a crash before the delete leaves behind.
    with pytest.raises(Unavailable):
        relay(Picky(lambda _: PublishUnknown("killed"), stores=True)).tick()
    assert outbox_state().waiting == 2
    relay().tick()
    assert names(stored()) == ["a1", "a2"]
    assert outbox_state().waiting == 0


def test_a_refused_message_stays_visible_and_lets_its_key_pass(
    topic: Topic, stored: Callable[[], list[Message]]
) -> None:
    put(topic, "a1", "a2", key="a")
    relay(Picky(lambda message: PublishRefused("never") if message.id == "a1" else None)).tick()
    assert names(stored()) == ["a2"]
    row = OutboxMessage.objects.get()
    assert (row.message_id, row.last_error, row.refused_at is not None) == ("a1", "never", True)
    state = outbox_state()
    assert (state.waiting, state.refused, state.oldest_at) == (0, 1, None)


def test_a_topic_that_lost_its_owner_meanwhile_refuses_all_of_its_messages(topic: Topic) -> None:
    put(topic, "a1", "a2")
    Topic.objects.update(team=None)
    catalog.changed()
    relay().tick()
    assert OutboxMessage.objects.filter(refused_at__isnull=False).count() == 2


class Hanging:
    """The real producer, whose topics ``a.slow…`` lie in a store that answers nothing before the gate is open."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.sent: list[list[str]] = []

    def way(self, topic: str, *, meant: str) -> Any:
        real = shared_producer().way(topic, meant=meant)
        return SimpleNamespace(carrier="slow", send=partial(self._send, real)) if topic.startswith("a.slow") else real

    def _send(
        self, real: Way, messages: Sequence[Message], idempotency_keys: Sequence[str], *, at_least_s: int
    ) -> list[Any]:
        self.sent.append([message.id for message in messages])
        assert self.gate.wait(60)
        return real.send(messages, idempotency_keys, at_least_s=at_least_s)


def test_a_store_that_hangs_delays_nothing_of_another(
    topic: Topic, stored: Callable[[], list[Message]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_carriers, "PATIENCE_S", 0.01)
    slow, hanging = Topic.objects.create(name="a.slow", team=topic.team), Hanging()
    catalog.changed()
    put(slow, "s1", "s2", key="s")
    put(topic, "a1")
    carrying = OutboxRelay(lambda: hanging, store.client, wait_s=0.01)  # type: ignore[arg-type, return-value]
    until(lambda: names(stored()) == ["a1"], between=carrying.tick)
    # Also what came since; and nothing is sent where the last is not answered, nor what is behind it.
    put(slow, "s3", key="s")
    put(topic, "a2", "a3", key="a")
    until(lambda: names(stored()) == ["a1", "a2", "a3"], between=carrying.tick)
    assert hanging.sent == [["s1"]]
    hanging.gate.set()
    until(lambda: outbox_state().waiting == 0, between=carrying.tick)
    assert hanging.sent == [["s1"], ["s2"], ["s3"]]


class Ending(Hanging):
    """And it answers while the way to ``a.slower`` is asked for: what was sent is over, and nobody has seen to it."""

    def __init__(self) -> None:
        super().__init__()
        self.over: threading.Event | None = None

    def way(self, topic: str, *, meant: str) -> Any:
        if topic == "a.slower" and self.over:
            self.gate.set()
            assert self.over.wait(60)
        return super().way(topic, meant=meant)


def test_what_ends_just_before_more_goes_there_is_booked_and_not_sent_again(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(at_carriers, "PATIENCE_S", 0.01)
    slow, slower = (Topic.objects.create(name=name, team=topic.team) for name in ("a.slow", "a.slower"))
    ending = Ending()
    catalog.changed()
    put(slow, "s1")
    carrying = OutboxRelay(lambda: ending, store.client, wait_s=0.01)  # type: ignore[arg-type, return-value]
    until(lambda: ending.sent == [["s1"]], between=carrying.tick)
    ending.over = carrying._at._carriers["slow"].over
    put(slower, "t1")
    until(lambda: outbox_state().waiting == 0, between=carrying.tick)
    assert ending.sent == [["s1"], ["t1"]]


def test_what_could_not_be_booked_is_booked_by_the_next_tick_and_not_sent_again(
    topic: Topic, stored: Callable[[], list[Message]], monkeypatch: pytest.MonkeyPatch
) -> None:
    put(topic, "a1", "a2", key="a")
    picky = Picky(lambda _: None)
    carrying = relay(picky)

    def fail(*_: Any) -> None:
        raise OperationalError("database is locked")

    with monkeypatch.context() as locked:
        locked.setattr("hbus_console.outbox.relay._book", fail)
        with pytest.raises(OperationalError):
            carrying.tick()
    assert outbox_state().waiting == 2
    carrying.tick()
    assert (picky.sent, names(stored()), outbox_state().waiting) == ([["a1"], ["a2"]], ["a1", "a2"], 0)


def test_with_nothing_to_do_it_sleeps_until_it_is_woken(topic: Topic, stored: Callable[[], list[Message]]) -> None:
    sleeping = OutboxRelay(shared_producer, store.client, wait_s=30, clock=ManualClock())
    ended = threading.Event()
    thread = threading.Thread(target=lambda: (sleeping.tick(), ended.set()), daemon=True)
    thread.start()
    assert not ended.wait(0.1)
    wake_relay()
    assert ended.wait(10)


def test_a_relay_that_died_before_it_could_delete_has_a_day_for_its_successor(topic: Topic) -> None:
    Topic.objects.update(idempotency_window_s=60)
    catalog.changed()
    put(topic, "a1", "a2")
    relay().tick()
    left_ms = known_for_ms(topic.name)
    assert len(left_ms) == 2
    assert min(left_ms) > 23 * 3_600_000


def test_a_topic_that_knows_its_keys_for_longer_keeps_to_that(topic: Topic) -> None:
    Topic.objects.update(idempotency_window_s=7 * 86_400)
    catalog.changed()
    put(topic, "a1")
    relay().tick()
    assert min(known_for_ms(topic.name)) > 6 * 86_400_000


def test_who_knows_a_message_cannot_ask_the_bus_about_its_payload(
    topic: Topic, stored: Callable[[], list[Message]]
) -> None:
    # Given a message that went through the outbox without a key of its own
    put(topic, "m-1")
    key = OutboxMessage.objects.get().idempotency_key
    relay().tick()
    (sent,) = stored()
    # When somebody tries what they see of it as its key
    guesses = [PublishOptions(idempotency_key=guess) for guess in (sent.id, f"outbox:{sent.id}")]
    answers = [shared_producer().publish(topic.name, {"name": "m-1"}, options).status for options in guesses]
    # Then nothing is told
    assert [str(answer) for answer in answers] == ["stored", "stored"]
    assert sent.id not in key


def test_an_envelope_that_nobody_can_read_is_refused_by_itself(
    topic: Topic, stored: Callable[[], list[Message]]
) -> None:
    put(topic, "a1", "a2", "a3", "a4", key="a")
    OutboxMessage.objects.filter(message_id="a2").update(body=b"\xff")
    odd = Message(id="a3", source="/s", type="t", hbusdue="soon", data=msgspec.Raw(b'{"name":"a3"}'))
    OutboxMessage.objects.filter(message_id="a3").update(body=encode(odd))
    relay().tick()
    assert names(stored()) == ["a1", "a4"]
    refused = OutboxMessage.objects.filter(refused_at__isnull=False).values_list("message_id", "last_error")
    assert [message_id for message_id, _ in refused] == ["a2", "a3"]
    assert "Not a CloudEvents 1.0 envelope" in refused[0][1]
    assert "due time" in refused[1][1]
