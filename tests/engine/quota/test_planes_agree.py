"""The allocator in Python and the one in the store are one: the same history has the same answers."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from engine.core.store import open_client
from engine.quota.allocator import Allocator
from engine.quota.plane import KeptBook
from engine.quota.planes.redis import RedisControlPlane
from engine.quota.protocol import Alloc, BucketLink, KeptRule, Want

BEGIN = 1_790_000_000.0


class _Time:
    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize("seed", range(25))
def test_a_history_has_the_same_answers(seed: int, redis_url: str, prefix: str) -> None:
    rng = random.Random(seed)
    time = _Time()
    plane = RedisControlPlane(open_client(redis_url), prefix, now=time)
    model = Allocator(BEGIN)
    rules = {
        "own": KeptRule(rng.choice((1.0, 50.0, 1000.0)), rng.choice((1.0, 100.0)), 0.1),
        "all": KeptRule(rng.choice((2.0, 80.0)), rng.choice((5.0, 4000.0)), 0.5),
        "day": KeptRule(300.0, 300.0, 0.0, by_period=True),
    }
    assert plane.keep_rules(KeptBook(1, b""), rules)
    assert model.keep_rules(1, rules)
    last: Want | None = None
    borns: dict[str, float] = {}
    version = 1
    for number in range(150):
        if rng.random() < 0.05:
            version += 1
            times = rng.choice((0.5, 2.0))
            rules = {
                name: KeptRule(rule.limit * times, rule.burst, rule.fallback, rule.by_period)
                for name, rule in rules.items()
            }
            assert plane.keep_rules(KeptBook(version, b""), rules)
            assert model.keep_rules(version, rules)
        again = last is not None and rng.random() < 0.1
        # An answer is kept by the store's own clock, which nobody moves.
        time.now += rng.choice(
            (0.0, 0.001, 0.03, 0.1, 0.3, -0.5) if again else (0.0, 0.001, 0.03, 0.1, 0.3, 7.0, -0.5, -30.0)
        )
        last = want = last if again and last is not None else _want(rng, number, borns)
        told = model.want(want, time.now)
        borns.update(zip([link.rule + link.owner for link in want.chain], told.born, strict=False))
        _same(plane.want([want])[0], told)


def test_an_older_book_changes_nothing(redis_url: str, prefix: str) -> None:
    plane = RedisControlPlane(open_client(redis_url), prefix)
    assert plane.keep_rules(KeptBook(2, b"two"), {"a": KeptRule(1.0, 1.0)})
    assert not plane.keep_rules(KeptBook(2, b"again"), {})
    assert not plane.keep_rules(KeptBook(1, b"one"), {})
    assert (plane.version(), plane.book()) == (2, KeptBook(2, b"two"))


def _want(rng: random.Random, number: int, borns: Mapping[str, float]) -> Want:
    tenant, node = rng.choice("xyz"), rng.choice(("n1", "n2", "n3"))
    chain = [BucketLink("own", tenant), BucketLink("all")]
    if rng.random() < 0.3:
        day = 86_400_000
        began = int(BEGIN * 1000) // day * day
        chain.append(BucketLink("day", tenant, began, began + day))
    return Want(
        f"w{number}", node, f"svc/res/{tenant}", tenant, tuple(chain), rng.choice((0, 1, 5, 40)),
        rng.choice((0.0, 1.0, 25.0, 600.0)), rng.choice((0, 0, 3)), rng.choice((0, 0, 0, 8)),
        {"x": 1.0, "y": 2.0, "z": 0.5}[tenant], {"x": 0.0, "y": 5.0, "z": 0.0}[tenant], int(tenant == "z"),
        rng.choice(((), (0.0,), (1.5, 0.0, 3.0))),
        tuple(borns.get(link.rule + link.owner, 0.0) if rng.random() < 0.8 else 1.0 for link in chain),
        rng.choice(("", "one", "one", "two")), rng.choice((0, number, number, max(0, number - 5))),
        max(0, number - rng.choice((0, 1, 1, 4, 20))),
    )  # fmt: skip


def _same(told: Alloc, expected: Alloc) -> None:
    exact = ("id", "answer", "granted", "version", "rule", "more")
    assert [getattr(told, name) for name in exact] == [getattr(expected, name) for name in exact]
    floats = ("lifetime_s", "again_s", "limit", "burst", "share", "fallback", "spilled", "born", "alone")
    for name in floats:
        assert getattr(told, name) == pytest.approx(getattr(expected, name)), name
    # Which memory it was each makes up for itself.
    assert {*exact, *floats, "epoch"} == set(Alloc.__struct_fields__)
