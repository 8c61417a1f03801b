"""Hostile envelopes, written straight into each store between genuine messages: none is held, lost or out of order."""

from __future__ import annotations

import contextlib
import os
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.bus import bounds, dead
from engine.bus.context import Context
from engine.bus.errors import MalformedEnvelope, Unrecoverable
from engine.bus.filters.judging import compile_filter
from engine.bus.handlers import adapt
from engine.bus.message import Message, decode, digest, encode, read
from engine.core.clock import ManualClock
from tests.engine.bus.hostile_envelopes import CORPUS, SAME_ID, envelopes, identified
from tests.engine.bus.hostile_house import House, Journal, MakeHouse, make_house
from tests.engine.bus.kit import GROUP, PATIENCE_S, TOPIC, SetInbox, running, until

__all__ = ["make_house"]

#: How many lists of drawn envelopes go through each store; HBUS_FUZZ=100 takes minutes.
DRAWN = int(os.environ.get("HBUS_FUZZ", "2"))
#: The kinds of facts that say that a message came to its end.
ENDS = frozenset(("settled", "dead", "expired", "deduplicated"))
BODIES = [identified(body, f"h{number}") for number, body in enumerate(CORPUS.values())]
SHAPES = {
    "plain": ("looking", {}),
    "typed": ("typed", {}),
    "loose": ("loose", {}),
    "transactional": ("looking", {"transactional": True}),
    "block": ("typed", {"ordering": "key"}),
    "park": ("typed", {"ordering": "key", "on_failed_head": "park"}),
    "pass": ("loose", {"ordering": "key", "on_failed_head": "pass"}),
}
ON = [
    *(("memory", shape) for shape in ("plain", "block", "park")),
    *(("redis_stream", shape) for shape in SHAPES),
    *(("nsq", shape) for shape in ("plain", "typed")),
]


def _handler(journal: Journal, shape: str) -> tuple[Callable[..., object], dict[str, Any]]:
    name, asked = SHAPES[shape]
    more: dict[str, Any] = dict(asked)
    if "transactional" in more:
        more["inbox"] = SetInbox()
    method = getattr(journal, name)
    return (method if name == "looking" else adapt(method)), more


@pytest.mark.parametrize(("kind", "shape"), ON, ids=lambda each: each)
def test_genuine_messages_pass_and_every_hostile_one_comes_to_an_end(
    make_house: MakeHouse, kind: str, shape: str
) -> None:
    ordered = "ordering" in SHAPES[shape][1]
    house, journal = make_house(kind, 2 if ordered else 1), Journal()
    handler, more = _handler(journal, shape)
    house.feed([*BODIES, *SAME_ID])
    with running(house.consumer(handler, concurrency=4, **more)):
        house.finish()
        # A fact comes after what it tells.
        until(lambda: _told(house))
    _judge(house, journal, ordered=ordered, browses=kind != "nsq")
    calls = journal.calls
    with running(house.consumer(handler, "c2", **more)):
        house.publish()
        house.finish()
    assert journal.calls == calls + 1


def _judge(house: House, journal: Journal, *, ordered: bool, browses: bool) -> None:
    """Every genuine message was handled once, in its order; every other one is accounted for."""
    bus = house.bus
    handled = journal.by_key if ordered else {key: sorted(found) for key, found in journal.by_key.items()}
    assert handled == house.expected
    ends = [fact for fact in bus.facts.seen if fact.kind in ENDS]
    assert not [fact for fact in bus.facts.seen if fact.kind == "lease_lost"]
    buried = bus.transport.admin.dead(TOPIC, GROUP, 10_000)
    for letter in buried:
        record = dead.decode(letter.record)
        assert record.cause
        assert record.error
    assert all(fact.error and fact.fingerprint for fact in ends if fact.kind == "dead")
    msgspec.msgpack.encode(bus.facts.seen)
    if not browses:
        assert len(ends) == house.genuine + sum(not _elsewhere(body) for body in house.hostile)
        return
    ended = Counter([fact.position for fact in ends])
    # An operator's decision about a parked key is no fact of the bus.
    ended.update({letter.position for letter in buried} - ended.keys())
    assert set(ended.values()) == {1}
    unsaid = [stored for stored in house.stored() if stored.position not in ended]
    assert all(_elsewhere(stored.body) for stored in unsaid)
    dead_ones = {letter.position for letter in buried}
    assert dead_ones >= {stored.position for stored in house.stored() if _unreadable(stored.body)}


@pytest.fixture(autouse=True)
def all_letters_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much the hostile ones weigh."""
    monkeypatch.setattr(bounds, "DEAD_BYTES", 1 << 30)


def _told(house: House) -> bool:
    """Whether the end of everything was told; of what was buried by an operator's decision nothing is."""
    facts = [fact for fact in list(house.bus.facts.seen) if fact.kind in ENDS]
    ended = len(facts) + len(house.bus.transport.admin.dead(TOPIC, GROUP, 10_000))
    ended -= sum(fact.kind == "dead" for fact in facts)
    return ended >= house.genuine + sum(not _elsewhere(body) for body in house.hostile)


def _elsewhere(body: bytes) -> bool:
    """Whether it says that it is not for us: it is settled, and nothing has happened to it."""
    return not _unreadable(body) and decode(body).hbustarget not in ("", GROUP)


def _unreadable(body: bytes) -> bool:
    try:
        decode(body)
    except MalformedEnvelope:
        return True
    return False


@pytest.mark.parametrize("shape", ["block", "park"])
def test_a_consumer_that_takes_over_among_them_changes_nothing(make_house: MakeHouse, shape: str) -> None:
    """The first stops without a word in their midst; leases end, and the second comes to the same."""
    house, journal = make_house("redis_stream", 2), Journal()
    clock = house.bus.clock
    assert isinstance(clock, ManualClock)
    handler, more = _handler(journal, shape)
    house.feed([*BODIES, *SAME_ID])
    reached, go_on = threading.Event(), threading.Event()

    def halting(message: Message, context: Context) -> None:
        handler(message, context)
        if journal.calls == 30:
            reached.set()
            go_on.wait(PATIENCE_S)

    with running(house.consumer(halting, concurrency=1, **more)):
        assert reached.wait(PATIENCE_S)
    go_on.set()
    begun = {key: list(numbers) for key, numbers in journal.by_key.items()}
    assert 0 < sum(map(len, begun.values())) < house.genuine
    with running(house.consumer(handler, "c2", concurrency=4, **more)):
        until(lambda: house.bus.unsettled() == 0, between=lambda: (house.bury(), clock.advance(5)))
    for key, numbers in journal.by_key.items():
        # What the first had in hand may run again, from there on in order.
        again = numbers[len(begun.get(key, ())) :]
        assert again == house.expected[key][-len(again) :]
        assert set(numbers) == set(house.expected[key])


@pytest.mark.parametrize("name", ["typed", "loose"])
def test_a_payload_that_nobody_can_read_is_not_tried_again(name: str) -> None:
    handler = adapt(getattr(Journal(), name))
    messages = [decode(body) for body in BODIES if not _unreadable(body)]
    # Where a decoder skips more levels than it follows.
    messages.append(Message(id="deep", source="/s", type="t", data=msgspec.Raw(b"[" * 5_000 + b"]" * 5_000)))
    for message in messages:
        # The last two are a handler's own: any JSON came to it.
        with contextlib.suppress(Unrecoverable, KeyError, TypeError):
            handler(message, Context(message, TOPIC, GROUP, 1, 0))


@given(envelopes())
@settings(derandomize=True, max_examples=60 * DRAWN, database=None)
def test_reading_refuses_or_can_write_it_again(body: bytes) -> None:
    message, refusal = _taken(body, decode)
    if message is None:
        assert 0 < len(refusal) < 2_000
        return
    assert decode(encode(message)) == message
    digest(message)
    for judge in FILTERS:
        judge.matches(message)
    checked, refusal = _taken(body, read)
    assert checked == message or 0 < len(refusal) < 2_000


def _taken(body: bytes, reader: Callable[[bytes], Message]) -> tuple[Message | None, str]:
    try:
        return reader(body), ""
    except MalformedEnvelope as error:
        return None, str(error)


FILTERS = [
    compile_filter(text)
    for text in (
        'payload.a > 1', 'payload.a.b[0] == "x"', 'time < "2030-01-01T00:00:00Z"', "exists(payload.a)",
        'expirytime > "2030-01-01T00:00:00Z"', 'key == "a"', 'not id contains "x"',
    )
]  # fmt: skip


@given(st.lists(envelopes(), min_size=60, max_size=60))
@settings(derandomize=True, max_examples=DRAWN, database=None, suppress_health_check=[*HealthCheck])
def test_drawn_ones_hold_nothing(make_house: MakeHouse, bodies: list[bytes]) -> None:
    for kind, shape in (("memory", "block"), ("redis_stream", "typed"), ("redis_stream", "park")):
        house, journal = make_house(kind, 2 if shape != "typed" else 1), Journal()
        handler, more = _handler(journal, shape)
        house.feed(bodies)
        with running(house.consumer(handler, concurrency=4, **more)):
            house.finish()
            until(partial(_told, house))
        _judge(house, journal, ordered=shape != "typed", browses=True)
