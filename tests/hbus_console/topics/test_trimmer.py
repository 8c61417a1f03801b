from __future__ import annotations

import pytest

from engine.bus.conformance.running import FactRecorder
from engine.bus.transport import TrimReport
from engine.core.clock import ManualClock
from engine.core.errors import Unavailable
from hbus_console.topics.models import Topic
from hbus_console.topics.trimmer import StreamRetention
from tests.hbus_console.messages.fakes import ScriptedAdmin

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
