"""A node among others: what it does with what goes wrong, and with limiters and rules that go."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from engine.core.clock import ManualClock
from engine.core.errors import BadInput
from engine.core.store import open_client
from engine.quota import Book, OnLoss, Period, QuotaNode, Rule, Source, Whose
from engine.quota.held import IDLE_S
from engine.quota.plane import ControlPlane, KeptBook
from engine.quota.planes.memory import MemoryControlPlane
from engine.quota.planes.redis import RedisControlPlane
from engine.quota.protocol import Alloc, Answer, BucketLink, KeptRule, Want
from tests.engine.quota.cluster import Cluster, Wire

ALL = Rule(id="all", limit=100.0, burst=100.0)


class Broken(Wire):
    """Answers with a mistake of its own, so often."""

    def __init__(self, plane: ControlPlane, times: int) -> None:
        super().__init__(plane)
        self.times = times

    def want(self, wants: Sequence[Want]) -> list[Alloc]:
        if self.times:
            self.times -= 1
            raise ZeroDivisionError
        return super().want(wants)


def full(*rules: Rule) -> MemoryControlPlane:
    """Whose buckets are full: it has known the rules for long."""
    moments = iter([0.0, 0.0])
    plane = MemoryControlPlane(now=lambda: next(moments, 1e6 + time.monotonic()))
    plane.keep_rules(*Book(version=1, rules=rules).kept())
    return plane


def test_a_mistake_ends_no_thread_and_leaves_nobody_waiting() -> None:
    node = QuotaNode("n", Broken(full(ALL), 2))
    node.start()
    limiter = node.limiter("api", "search", "t")
    limiter.allow()
    assert limiter.wait(timeout=30)
    node.stop()


def test_a_book_that_cannot_hold_changes_nothing() -> None:
    plane = full(ALL)
    node = QuotaNode("n", plane)
    node.turn()
    limiter = node.limiter("api", "search", "t")
    text = b'{"version":2,"rules":[{"id":"all","limit":1,"burst":1,"period":"day","zone":"Mars/Olympus"}]}'
    plane.keep_rules(KeptBook(2, text), {"all": KeptRule(1.0, 1.0)})
    node._look_at = float("-inf")
    node.turn()
    assert node.version == 1
    assert limiter.status().limit == 100
    assert node.limiter("api", "search", "other").status().version == 1


def test_a_zone_that_is_none_is_refused_by_its_field() -> None:
    with pytest.raises(BadInput) as refused:
        Rule(id="a", limit=1, burst=1, period=Period.DAY, zone="Mars/Olympus")
    assert refused.value.field == "zone"


@pytest.mark.parametrize("name", ["a\nb", "\udc80", "x" * 201])
def test_a_name_that_no_store_could_keep_is_refused(name: str) -> None:
    node = QuotaNode("n", full(ALL))
    with pytest.raises(BadInput):
        node.limiter("api", "search", name)


def test_a_node_rests_when_the_last_rule_of_a_limiter_goes() -> None:
    cluster = Cluster(1, [ALL])
    node = cluster.nodes[0]
    limiter = node.limiter("api", "search", "t")
    assert not limiter.reserve(1, 0).ok
    limiter.reserve(2)
    cluster.publish()
    cluster.clock.advance(1)
    node.turn()
    assert node.turn() > 0
    assert limiter.reserve(10**6, 0).ok


def test_a_limiter_that_is_closed_asks_for_nothing_and_another_takes_its_name() -> None:
    cluster = Cluster(1, [ALL])
    node, wire = cluster.nodes[0], cluster.wires[0]
    cluster.run(1, 50)
    limiter = node.limiter("api", "search", "t")
    limiter.close()
    for _ in range(50):
        node.turn()
        cluster.clock.advance(0.01)
    settled = wire.wants
    for _ in range(50):
        node.turn()
        cluster.clock.advance(0.01)
    assert wire.wants == settled
    another = node.limiter("api", "search", "t")
    assert another is not limiter
    cluster.publish(Rule(id="all", limit=1.0, burst=1.0))
    cluster.run(1, 50)
    assert limiter.status().version == 1


def test_two_who_ask_at_once_of_a_full_bucket_are_both_let_in() -> None:
    asked = threading.Barrier(2)

    class Slow(Wire):
        def want(self, wants: Sequence[Want]) -> list[Alloc]:
            if not self.wants:
                self.wants = 1
                asked.wait(10)
                while len(limiter._line) < 2:
                    pass
            return self._plane.want(wants)

    node = QuotaNode("n", Slow(full(ALL)))
    node.start()
    limiter = node.limiter("api", "search", "t")
    admitted: list[bool] = []
    threads = [threading.Thread(target=lambda: admitted.append(limiter.wait(timeout=20))) for _ in range(2)]
    threads[0].start()
    asked.wait(10)
    threads[1].start()
    for thread in threads:
        thread.join(30)
    assert admitted == [True, True]
    node.stop()


def test_who_comes_while_it_is_asked_is_not_refused_by_an_answer_that_gave_all() -> None:
    cluster = Cluster(1, [ALL])
    cluster.run(5, 0)
    limiter = cluster.nodes[0].limiter("api", "search", "t")
    limiter.reserve(1, 0)
    want = limiter.tick(cluster.clock.monotonic())
    assert want is not None
    done: list[bool] = []
    late = threading.Thread(target=lambda: done.append(limiter.allow(want.asked + 1)))
    late.start()
    while not limiter._line:
        pass
    limiter.told(cluster.plane.want([want])[0], cluster.clock.monotonic())
    assert limiter._line
    cluster.nodes[0].turn()
    late.join(10)
    assert done == [True]


def test_a_rule_that_nobody_knew_for_a_moment_is_asked_for_again() -> None:
    cluster = Cluster(1, [ALL])
    cluster.run(1, 0)
    limiter = cluster.nodes[0].limiter("api", "search", "t")
    limiter.reserve(1, 0)
    want = limiter.tick(cluster.clock.monotonic())
    assert want is not None
    limiter.told(Alloc(want.id, Answer.UNKNOWN_RULE, version=1), cluster.clock.monotonic())
    assert limiter.status().source is Source.FALLBACK
    cluster.run(3, 50)
    assert limiter.status().source is Source.PERMIT


def test_more_than_could_be_had_at_once_is_refused_at_once() -> None:
    cluster = Cluster(1, [ALL])
    cluster.run(5, 10)
    limiter, before = cluster.nodes[0].limiter("api", "search", "t"), cluster.wires[0].wants
    assert not limiter.allow(101)
    assert not limiter.reserve(101).ok
    assert not limiter.wait(101)
    cluster.nodes[0].turn()
    assert cluster.wires[0].wants == before


def test_a_node_that_starts_without_a_control_plane_goes_by_the_rules_it_is_given() -> None:
    wire = Wire(full(ALL))
    wire.cut = True
    rule = Rule(id="all", limit=100.0, burst=100.0, on_loss=OnLoss.CLOSED)
    node = QuotaNode("n", wire, clock=ManualClock(), book=Book(version=1, rules=(rule,)))
    node.turn()
    assert not node.limiter("api", "search", "t").allow()


@pytest.fixture(params=["memory", "redis"])
def begin(request: pytest.FixtureRequest, redis_url: str, prefix: str) -> Callable[[Callable[[], float]], ControlPlane]:
    """Makes a control plane on a clock."""

    def make(now: Callable[[], float]) -> ControlPlane:
        if request.param == "memory":
            return MemoryControlPlane(now=now)
        return RedisControlPlane(open_client(redis_url), prefix, now=now)

    return make


def test_of_a_period_that_began_before_its_memory_a_plane_sells_the_rest_alone(
    begin: Callable[[Callable[[], float]], ControlPlane],
) -> None:
    day = 86_400
    now = [day * 20_000 + day * 3 / 4]
    plane = begin(lambda: now[0])
    plane.keep_rules(KeptBook(1, b""), {"day": KeptRule(1_000.0, 1_000.0, by_period=True)})

    def sold(number: int, began: int) -> int:
        link = BucketLink("day", "t", began * 1000, (began + day) * 1000)
        return plane.want([Want(f"w{number}", "n", "a/b/t", "t", (link,), 5_000, 1.0)])[0].granted

    assert sold(1, day * 20_000) == 250
    # The next one is known from its beginning.
    now[0] = day * 20_001 + 1
    assert sold(2, day * 20_001) == 1_000


def _passes(clock: ManualClock, node: QuotaNode, seconds: float) -> None:
    for _ in range(round(seconds / 0.5)):
        clock.advance(0.5)
        node.turn()


def _on_a_clock(*rules: Rule) -> tuple[ManualClock, MemoryControlPlane, QuotaNode]:
    clock = ManualClock()
    moments = iter([-1e6])
    plane = MemoryControlPlane(now=lambda: next(moments, clock.monotonic()))
    plane.keep_rules(*Book(version=1, rules=rules).kept())
    node = QuotaNode("n", plane, clock=clock)
    node.turn()
    return clock, plane, node


def test_whoever_is_at_it_is_not_forgotten() -> None:
    clock, _, node = _on_a_clock(ALL)
    for _ in range(round(4 * IDLE_S)):
        clock.advance(1.0)
        node.limiter("api", "search", "busy").reserve(1, 0)
        node.turn()
    assert [name.tenant for name, _ in node.statuses()] == ["busy"]


def test_what_is_prepaid_stays_when_another_rule_changes_and_goes_when_its_own_does() -> None:
    clock, plane, node = _on_a_clock(ALL)
    limiter = node.limiter("api", "search", "t")
    limiter.reserve(50, 0)
    node.turn()
    left = limiter.status().left
    assert left >= 50
    other = Rule(id="other", limit=5.0, burst=5.0, service="else")
    plane.keep_rules(*Book(version=2, rules=(ALL, other)).kept())
    clock.advance(0.2)
    node._look_at = float("-inf")
    node._look(clock.monotonic())
    assert (limiter.status().version, limiter.status().left) == (2, left)
    plane.keep_rules(*Book(version=3, rules=(Rule(id="all", limit=5.0, burst=5.0), other)).kept())
    node._look(clock.monotonic())
    assert (limiter.status().version, limiter.status().left) == (3, 0)


def test_who_waits_for_many_is_not_overtaken_for_ever_by_those_who_take_few() -> None:
    clock, _, node = _on_a_clock(Rule(id="all", limit=50.0, burst=100.0))
    limiter = node.limiter("api", "search", "t")
    for _ in range(300):
        limiter.reserve(1, 0)
        node.turn()
    assert not limiter.reserve(1, 0).ok, "the bucket is empty"
    done: list[bool] = []
    waiting = threading.Thread(target=lambda: done.append(limiter.wait(60)))
    waiting.start()
    taken = 0
    for _ in range(100):
        clock.advance(0.05)
        node.turn()
        while limiter.reserve(1, 0).ok:
            taken += 1
        waiting.join(0.005)
        if done:
            break
    waiting.join(10)
    assert done == [True]
    assert clock.monotonic() < 6
    assert taken <= 10, "who came later waited for it"


def _cut_off(rule: Rule, known: int) -> tuple[ManualClock, QuotaNode]:
    """A node whose limiters of so many tenants were answered, and that has lost its control plane since."""
    clock = ManualClock()
    moments = iter([-1e6])
    wire = Wire(MemoryControlPlane(now=lambda: next(moments, clock.monotonic())))
    wire.keep_rules(*Book(version=1, rules=(rule,)).kept())
    node = QuotaNode("n", wire, clock=clock)
    node.turn()
    for number in range(known):
        node.limiter("api", "search", f"known{number}").reserve(1, 0)
        node.turn()
    wire.cut = True
    _passes(clock, node, 10)
    assert node.away_since is not None
    return clock, node


def _spends(clock: ManualClock, node: QuotaNode, tenants: int, seconds: int) -> int:
    """What so many tenants get that nobody knew before, each of whom asks once a second."""
    got = 0
    for _ in range(seconds):
        clock.advance(1.0)
        got += sum(node.limiter("api", "search", f"new{number}").reserve(1, 0).ok for number in range(tenants))
    return got


def test_new_tenants_of_a_shared_limit_share_what_a_cut_off_node_may_spend() -> None:
    shared = Rule(id="all", limit=100.0, burst=100.0, whose=Whose.TOGETHER, fallback=0.1)
    clock, node = _cut_off(shared, known=2)
    assert 180 <= _spends(clock, node, 500, 20) <= 10 * 20 + 12
    alone, node = _cut_off(shared, known=0)
    assert 180 <= _spends(alone, node, 500, 20) <= 10 * 20 + 12


def test_of_a_limit_that_each_tenant_has_new_ones_have_their_own() -> None:
    clock, node = _cut_off(Rule(id="each", limit=100.0, burst=100.0, fallback=0.1), known=2)
    assert _spends(clock, node, 50, 5) == 250


def test_what_did_not_go_by_the_limiters_own_bucket_is_there_for_others() -> None:
    shared = Rule(id="all", limit=10.0, burst=100.0, whose=Whose.TOGETHER, fallback=0.5)
    own = Rule(id="own", limit=1.0, burst=100.0, fallback=0.1, tenant="poor")
    clock = ManualClock()
    moments = iter([-1e6])
    wire = Wire(MemoryControlPlane(now=lambda: next(moments, clock.monotonic())))
    wire.keep_rules(*Book(version=1, rules=(shared, own)).kept())
    node = QuotaNode("n", wire, clock=clock)
    node.turn()
    wire.cut = True
    _passes(clock, node, 10)
    poor, rich = node.limiter("api", "search", "poor"), node.limiter("api", "search", "rich")
    assert rich.reserve(1, 0).ok
    clock.advance(1.0)
    assert sum(poor.reserve(1, 0).ok for _ in range(20)) == 1
    assert sum(rich.reserve(1, 0).ok for _ in range(20)) >= 4 - 1
