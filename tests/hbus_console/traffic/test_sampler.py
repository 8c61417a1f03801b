from __future__ import annotations

import pytest

from engine.bus.config import BusConfig
from engine.bus.conformance.running import FactRecorder
from engine.bus.errors import GroupLost
from engine.bus.transport import Lag, Outgoing
from engine.bus.transports.redis_stream import open_transport
from engine.core.clock import ManualClock
from engine.core.errors import OutOfConnections, Unavailable
from hbus_console.messages.models import LagSample
from hbus_console.subscriptions.models import Subscription
from hbus_console.supervisor.standalone import StandaloneStore
from hbus_console.topics.models import Topic
from hbus_console.traffic.sampler import LagSampler
from tests.hbus_console.messages.fakes import ScriptedAdmin
from tests.store_work import store_reads

pytestmark = pytest.mark.django_db(databases=["default", "ledger"])

LAG = Lag(waiting=4, in_flight=2, retrying=1, dead=0, oldest_ms=5)


class World:
    def __init__(self) -> None:
        self.admin = ScriptedAdmin()
        self.facts = FactRecorder()
        self.clock = ManualClock()
        self.sampler = LagSampler(lambda _: self.admin, self.facts, clock=self.clock)  # type: ignore[arg-type,return-value]

    def tick(self, times: int = 1) -> None:
        for _ in range(times):
            self.sampler.tick()
            self.clock.advance(5)


@pytest.fixture
def world() -> World:
    world = World()
    for name in ("a", "b"):
        Subscription.objects.create(topic=Topic.objects.create(name=name), group="g")
        world.admin.lags[name] = LAG
    return world


def test_every_subscription_is_sampled_with_one_instant(world: World) -> None:
    world.tick()
    rows = list(LagSample.objects.values_list("topic", "waiting", "in_flight", "retrying", "oldest_ms", "at_ms"))
    assert rows == [("a", 4, 2, 1, 5, 1_790_000_000_000), ("b", 4, 2, 1, 5, 1_790_000_000_000)]


def test_the_checkpoint_is_kept_for_healing(world: World) -> None:
    world.admin.checkpoints["a"] = "17-0"
    world.tick()
    kept = Subscription.objects.get(topic__name="a")
    assert kept.checkpoint == "17-0"
    assert kept.checkpoint_at is not None
    assert kept.revision == 1


def test_a_lost_group_keeps_its_last_checkpoint_and_is_told_once(world: World) -> None:
    world.admin.checkpoints["a"] = "17-0"
    world.tick()
    world.admin.lags["a"] = GroupLost("There is no group g on a.")
    world.admin.checkpoints["a"] = "0-0"
    world.tick(4)

    assert Subscription.objects.get(topic__name="a").checkpoint == "17-0"
    assert world.facts.kinds() == ["group_lost"]
    assert "17-0" in world.facts.seen[0].detail
    assert LagSample.objects.filter(topic="b").count() == 5


def test_a_group_missing_for_one_reading_is_no_news(world: World) -> None:
    world.admin.lags["a"] = GroupLost("gone")
    world.tick()
    world.admin.lags["a"] = LAG
    world.tick()
    world.admin.lags["a"] = GroupLost("gone")
    world.tick()
    assert world.facts.seen == []


def test_a_lost_store_is_told_once_and_so_is_its_return(world: World) -> None:
    world.admin.lags["a"] = world.admin.lags["b"] = Unavailable("Connection refused.")
    world.tick(3)
    assert world.facts.kinds() == ["store_lost"]
    assert LagSample.objects.count() == 0
    world.admin.lags["a"] = world.admin.lags["b"] = LAG
    world.tick(2)
    assert world.facts.kinds() == ["store_lost", "store_back"]


def test_no_connection_left_is_no_lost_store(world: World) -> None:
    world.admin.lags["a"] = world.admin.lags["b"] = OutOfConnections("All 3 connections are in use.")
    world.tick(3)
    assert world.facts.kinds() == ["out_of_connections"]
    assert "All 3 connections are in use." in world.facts.seen[0].detail


def test_three_hundred_subscriptions_are_sampled_in_a_few_round_trips(db: None, own_store: StandaloneStore) -> None:
    topics = Topic.objects.bulk_create(Topic(name=f"t{number}") for number in range(300))
    Subscription.objects.bulk_create(Subscription(topic=topic, group="g") for topic in topics)
    transport = open_transport(BusConfig(type="redis_stream", url=own_store.url, prefix="t"))
    for topic in topics[1:]:
        transport.admin.create_group(topic.name, "g")
    transport.publish("t7", [Outgoing("m1", b"x"), Outgoing("m2", b"x")])
    facts = FactRecorder()
    sampler = LagSampler(lambda _: transport.admin, facts, clock=ManualClock())
    sampler.tick()
    with store_reads(own_store.url) as cost:
        sampler.tick()
    assert LagSample.objects.count() == 2 * 299
    assert set(LagSample.objects.filter(topic="t7").values_list("waiting", flat=True)) == {2}
    assert facts.kinds() == ["group_lost"]
    cost.at_most(40, "reads for 300 subscriptions")
    transport.close()
