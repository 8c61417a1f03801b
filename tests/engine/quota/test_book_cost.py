"""What a new book costs a node with thousands of limiters, and that those who came once are forgotten."""

from __future__ import annotations

import gc
import random
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import pytest

from engine.quota import Book, OnLoss, Period, Rule, Source, Whose
from engine.quota import book as book_module
from engine.quota.held import IDLE_S
from engine.quota.node import HURRY_S, QuotaNode
from engine.quota.terms import Name, Terms
from tests.engine.quota.cluster import Cluster

DAY_S = 86_400


class Counted:
    """How often a book was resolved."""

    def __init__(self) -> None:
        self.resolved = 0


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Counted:
    found, resolve = Counted(), Book.resolve

    def count(self: Book, name: Name, at_ms: int) -> Terms:
        found.resolved += 1
        return resolve(self, name, at_ms)

    monkeypatch.setattr(Book, "resolve", count)
    return found


EVERY = Rule(id="every", limit=100.0, burst=100.0)


def one(tenant: str, limit: float = 50.0) -> Rule:
    return Rule(id=f"of {tenant}", limit=limit, burst=50.0, tenant=tenant)


def filled(cluster: Cluster, tenants: Sequence[str]) -> None:
    """Each has tokens prepaid."""
    node = cluster.nodes[0]
    cluster.clock.advance(100)
    # Who comes once has nothing prepaid for long.
    for _ in range(6):
        for tenant in tenants:
            node.limiter("api", "search", tenant).reserve(1, 0)
        node.turn()
        cluster.clock.advance(0.5)
    node.turn()
    assert all(node.limiter("api", "search", tenant).reserve(1, 0).ok for tenant in tenants)


def look(cluster: Cluster) -> None:
    cluster.clock.advance(1)
    cluster.nodes[0].turn()


def test_a_new_book_is_resolved_for_whom_it_changes_something(counted: Counted) -> None:
    tenants = [f"t{number}" for number in range(300)]
    cluster = Cluster(1, [EVERY, one("t7")])
    filled(cluster, tenants)
    node = cluster.nodes[0]
    held = {tenant: node.limiter("api", "search", tenant).status() for tenant in tenants}
    before = counted.resolved
    cluster.publish(EVERY, one("t7", 60.0), one("t9"))
    look(cluster)
    assert counted.resolved - before == 2
    for tenant in tenants:
        status = node.limiter("api", "search", tenant).status()
        assert status.version == 2
        # Nobody else has lost what was prepaid.
        assert (status.permit == held[tenant].permit) is (tenant not in ("t7", "t9")), tenant
    assert node.limiter("api", "search", "t9").terms.burst == 50


def test_what_is_the_same_in_another_version_leaves_what_is_prepaid() -> None:
    cluster = Cluster(1, [EVERY])
    filled(cluster, ["t"])
    limiter = cluster.nodes[0].limiter("api", "search", "t")
    left = limiter.status().left
    cluster.publish(EVERY, Rule(id="less about it", limit=1.0, burst=1.0, tenant="*", resource="oth*"))
    cluster.publish(EVERY, Rule(id="every one", limit=1.0, burst=1.0, tenant="t*", service="else"))
    look(cluster)
    assert (limiter.status().version, limiter.status().left) == (3, left)


def test_in_a_storm_of_changes_a_node_looks_a_few_times_a_second(counted: Counted) -> None:
    cluster = Cluster(1, [EVERY])
    tenants = [f"t{number}" for number in range(100)]
    filled(cluster, tenants)
    node, looks, rng = cluster.nodes[0], 0, random.Random(1)
    version, before = node.version, counted.resolved
    for turn in range(300):
        cluster.publish(EVERY, one(f"t{rng.randrange(100)}", float(turn + 1)))
        node.limiter("api", "search", rng.choice(tenants)).reserve(1, 0)
        cluster.clock.advance(0.01)
        node.turn()
        looks += node.version != version
        version = node.version
    assert looks <= 3 / HURRY_S + 1
    # Each change takes a limit from one tenant and gives one to another.
    assert counted.resolved - before <= 2 * looks
    look(cluster)
    assert node.version == cluster.book.version


def test_changes_are_told_as_resolving_would_find_them() -> None:
    rng = random.Random(5)
    patterns = ("*", "a", "b", "a*", "?", "[ab]")

    def rule(number: int) -> Rule:
        return Rule(
            id=f"r{number}", limit=float(rng.randint(1, 3)), burst=1.0, service=rng.choice(patterns),
            resource=rng.choice(patterns), tenant=rng.choice(patterns), plan=rng.choice(("", "", "gold")),
            whose=rng.choice(list(Whose)), on_loss=rng.choice(list(OnLoss)), shadow=rng.random() < 0.2,
            sample=rng.choice((1.0, 0.5)), period=rng.choice((Period.NONE, Period.NONE, Period.DAY)),
        )  # fmt: skip

    names = [Name(*rng.choices(("a", "b", "aa", "c"), k=3), shadow=rng.random() < 0.3) for _ in range(60)]
    told = same = 0
    rules = [rule(number) for number in range(12)]
    old = Book(version=1, rules=tuple(rules))
    for version in range(2, 200):
        for _ in range(rng.randint(0, 2)):
            rules[rng.randrange(len(rules))] = rule(rng.randrange(12))
        plans = {rng.choice("abc"): "gold"} if rng.random() < 0.5 else dict(old.plans)
        nodes = 2 if rng.random() < 0.1 else 1
        new = Book(version=version, rules=tuple({each.id: each for each in rules}.values()), plans=plans, nodes=nodes)
        changes = new.changes_since(old)
        for name in names:
            if new.resolve(name, 0) != old.resolve(name, 0):
                assert changes(name), (version, name)
                told += 1
            else:
                same += not changes(name)
            assert new.index.covering(name, new.plan_of(name)) == [
                each for each in new.rules if each.covers(name, new.plan_of(name))
            ]
        old = new
    assert min(told, same) > 500


def test_periods_are_found_again_when_one_ends_and_not_before(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []
    period_at = book_module.period_at

    def at(period: Period, zone: str, at_ms: int) -> tuple[int, int]:
        found.append(at_ms)
        return period_at(period, zone, at_ms)

    monkeypatch.setattr(book_module, "period_at", at)
    cluster = Cluster(1, [Rule(id="day", limit=1e6, burst=1e6, period=Period.DAY)])
    tenants = [f"t{number}" for number in range(50)]
    node, clock = cluster.nodes[0], cluster.clock
    clock.advance(DAY_S - clock.now_ms() / 1000 % DAY_S - 6)
    limiters = [node.limiter("api", "search", tenant) for tenant in tenants]
    before = counted.resolved
    for _ in range(8):
        clock.advance(0.6)
        node.turn()
    assert (counted.resolved, len(found)) == (before, 1)
    for _ in range(4):
        clock.advance(0.6)
        node.turn()
    assert (counted.resolved, len(found)) == (before + 50, 2)
    assert {limiter.terms.chain[0].began_ms for limiter in limiters} == {clock.now_ms() // 86_400_000 * 86_400_000}
    # A wall clock that was put back is in another day as well.
    clock.step_wall(-DAY_S / 2)
    clock.advance(0.6)
    node.turn()
    assert counted.resolved == before + 100


def test_who_came_once_is_forgotten_and_what_it_held_goes_back() -> None:
    cluster = Cluster(1, [Rule(id="all", limit=1e-3, burst=1e6, whose=Whose.TOGETHER)])
    node = cluster.nodes[0]
    cluster.clock.advance(1e10)
    spent, kept = 0, None
    gone: list[weakref.ref[Any]] = []
    for number in range(10_000):
        limiter = node.limiter("api", "search", f"t{number}")
        limiter.reserve(1, 0)
        if number % 100 == 0:
            node.turn()
            spent += limiter.reserve(1, 0).ok
            cluster.clock.advance(0.1)
            kept = kept or limiter
            gone.append(weakref.ref(limiter))
    for _ in range(60):
        cluster.clock.advance(IDLE_S / 20)
        node.turn()
    assert kept is not None
    assert len(node._limiters) == 0
    del limiter
    gc.collect()
    assert [ref() for ref in gone if ref() is not None] == [kept]
    (state,) = cluster.plane._allocator._buckets.values()
    assert spent == 100
    assert state.tokens == pytest.approx(1e6 - spent, abs=1)
    # Whoever kept it goes on with it, and there is none beside it.
    assert not kept.reserve(1, 0).ok
    assert node.limiter("api", "search", "t0") is kept
    node.turn()
    assert kept.reserve(1, 0).ok


def test_a_limiter_that_wakes_while_a_book_is_adopted_is_given_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Found by a stranger: it stayed at the terms of the book before for as long as it was busy."""
    cluster = Cluster(1, [EVERY])
    filled(cluster, ["t"])
    node = cluster.nodes[0]
    limiter = node.limiter("api", "search", "t")
    for _ in range(60):
        cluster.clock.advance(IDLE_S / 20)
        node.turn()
    assert limiter.dozes
    terms, adopting = QuotaNode._terms, list[threading.Thread]()

    def slow(self: QuotaNode, name: Name) -> Terms:
        found = terms(self, name)
        if not adopting:
            adopting.append(threading.Thread(target=look, args=(cluster,)))
            adopting[0].start()
            # It has time for all of it, were it not for the lock.
            adopting[0].join(0.2)
        return found

    cluster.publish(one("t"))
    monkeypatch.setattr(QuotaNode, "_terms", slow)
    limiter.reserve(1, 0)
    adopting[0].join()
    assert (limiter.terms.version, limiter.terms.burst) == (2, 50)


def test_who_is_not_limited_and_forgotten_hears_of_a_rule_that_comes() -> None:
    cluster = Cluster(1, [])
    cluster.publish()
    look(cluster)
    limiter = cluster.nodes[0].limiter("api", "search", "t")
    assert limiter.allow()
    for _ in range(4):
        cluster.clock.advance(IDLE_S)
        cluster.nodes[0].turn()
    assert not cluster.nodes[0]._limiters
    cluster.publish(Rule(id="none", limit=0.0, burst=0.0))
    look(cluster)
    assert not limiter.reserve(1, 0).ok
    assert limiter.status().source is not Source.LOCAL


def test_those_who_are_refused_while_a_node_is_cut_off_are_forgotten_too() -> None:
    cluster = Cluster(1, [Rule(id="all", limit=1.0, burst=1.0, fallback=0.0, whose=Whose.TOGETHER)])
    node = cluster.nodes[0]
    cluster.run(1, 10)
    cluster.wires[0].cut = True
    look(cluster)
    assert node.away_since is not None
    admitted = 0
    for number in range(1_000):
        admitted += node.limiter("api", "search", f"t{number}").reserve(1, 0).ok
    for _ in range(6):
        cluster.clock.advance(IDLE_S)
        node.turn()
    assert admitted <= 1
    # Who spent something alone has that to report.
    assert len(node._limiters) <= 1 + admitted
    assert len(node.alone._alone) <= 1
