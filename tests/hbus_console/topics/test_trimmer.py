from __future__ import annotations

import pytest

from engine.bus.conformance.running import FactRecorder
from engine.bus.transport import TrimReport
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from hbus_console.access.permissions import Actor
from hbus_console.evidence.booking import Booking
from hbus_console.evidence.concerns import concerns
from hbus_console.topics.models import Topic
from hbus_console.topics.trimmer import StreamRetention
from hbus_console.ui.concern import Look
from tests.hbus_console.accounts.conftest import admin, admin_actor, make_user
from tests.hbus_console.messages.fakes import ScriptedAdmin

__all__ = ["admin", "admin_actor", "make_user"]

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])


class World:
    def __init__(self) -> None:
        self.admin = ScriptedAdmin()
        self.facts = FactRecorder()
        self.clock = ManualClock()
        self.duty = StreamRetention(lambda _: self.admin, self.facts, clock=self.clock)  # type: ignore[arg-type,return-value]


@pytest.fixture
def world() -> World:
    Topic.objects.create(name="a", retention_hours=2, retention_messages=500)
    return World()


def test_each_topics_own_retention_is_applied(world: World) -> None:
    Topic.objects.create(name="b", retention_hours=1)
    world.duty.tick()
    assert world.admin.asked == [("a", 7_200_000, 500), ("b", 3_600_000, None)]
    assert world.facts.seen == []


def test_a_moving_topic_is_trimmed_where_it_leaves_too(world: World) -> None:
    Topic.objects.update(transport="nsq", leaving="redis_stream")
    asked: list[str] = []

    def admin(transport: str) -> ScriptedAdmin:
        asked.append(transport)
        if transport == "nsq":
            raise Unavailable("Connection refused.")
        return world.admin

    duty = StreamRetention(admin, world.facts, clock=world.clock)  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match="a"):
        duty.tick()
    assert asked == ["nsq", "redis_stream"]
    assert world.admin.asked == [("a", 7_200_000, 500)]


def test_what_was_removed_is_a_fact(world: World) -> None:
    world.admin.trims["a"] = TrimReport(removed=12)
    world.duty.tick()
    assert [(fact.kind, fact.topic, fact.size) for fact in world.facts.seen] == [("trimmed", "a", 12)]


def test_a_held_back_topic_is_told_once_a_day_and_when_the_holders_change(world: World) -> None:
    world.admin.trims["a"] = TrimReport(removed=0, held=("slow",), held_back=1_200)
    for _ in range(3):
        world.duty.tick()
    assert world.facts.kinds() == ["retention_held"]
    assert "1,200 messages" in world.facts.seen[0].detail
    assert "slow has not settled" in world.facts.seen[0].detail

    world.admin.trims["a"] = TrimReport(removed=0, held=("slow", "slower"), held_back=1_200)
    world.duty.tick()
    assert "slow and slower have not" in world.facts.seen[-1].detail
    world.clock.advance(86_400)
    world.duty.tick()
    assert len(world.facts.seen) == 3


def test_one_topic_out_of_reach_does_not_keep_the_others_from_it(world: World) -> None:
    Topic.objects.create(name="b")
    world.admin.trims["a"] = Unavailable("Connection refused.")
    world.admin.trims["b"] = TrimReport(removed=3)
    with pytest.raises(Unavailable, match="a"):
        world.duty.tick()
    assert world.facts.kinds() == ["trimmed"]


HELD = TrimReport(removed=0, held=("slow",), held_back=300)


def book(world: World) -> None:
    """What the duty told, as the collector books it."""
    rows = Booking()
    rows.add([fact.batch() for fact in world.facts.seen])
    rows.write()
    world.facts.seen.clear()


def told(actor: Actor, now_ms: int) -> list[str]:
    return [each.text for each in concerns(Look(actor, now_ms))]


def test_what_retention_waits_for_needs_nobody_any_more_once_it_is_settled(world: World, admin_actor: Actor) -> None:
    now_ms = world.clock.now_ms()
    world.admin.trims["a"] = HELD
    world.duty.tick()
    book(world)
    assert told(admin_actor, now_ms) == ["Retention of a waits for slow"]
    world.admin.trims["a"] = TrimReport(removed=0)
    for _ in range(2):
        world.duty.tick()
    assert world.facts.kinds() == ["retention_free"], "told once"
    book(world)
    assert told(admin_actor, now_ms) == []
    world.admin.trims["a"] = HELD
    world.duty.tick()
    book(world)
    assert told(admin_actor, now_ms) == ["Retention of a waits for slow"], "it waits again"


def test_a_keeper_that_begins_ends_what_the_one_before_it_told(world: World, admin_actor: Actor) -> None:
    now_ms = world.clock.now_ms()
    for name in ("b", "away"):
        Topic.objects.create(name=name)
    for name in ("a", "b", "away"):
        world.admin.trims[name] = HELD
    world.duty.tick()
    book(world)
    Topic.objects.filter(name="b").delete()
    world.admin.trims["a"] = TrimReport(removed=0, held=("other",), held_back=1)
    world.admin.trims["away"] = Unavailable("Connection refused.")
    world.duty = StreamRetention(lambda _: world.admin, world.facts, clock=world.clock)  # type: ignore[arg-type,return-value]
    with pytest.raises(Unavailable, match="away"):
        world.duty.tick()
    book(world)
    assert sorted(told(admin_actor, now_ms)) == ["Retention of a waits for other", "Retention of away waits for slow"]


def test_who_no_longer_holds_it_back_is_not_named_any_more(world: World, admin_actor: Actor) -> None:
    now_ms = world.clock.now_ms()
    for held in (("slow",), ("slow", "slower"), ("slower",)):
        world.admin.trims["a"] = TrimReport(removed=0, held=held, held_back=3)
        world.duty.tick()
    assert world.facts.kinds() == ["retention_held", "retention_held", "retention_free", "retention_held"]
    book(world)
    assert told(admin_actor, now_ms) == ["Retention of a waits for slower"]
