"""What a node spends by itself is of the node and the bucket, however many limiters share that."""

from __future__ import annotations

import pytest

from engine.quota import Rule, Whose
from engine.quota.protocol import BucketLink
from engine.quota.standin import FORGOTTEN_S, StandIns
from tests.engine.quota.cluster import Cluster

LIMIT, SHARE, NODES, CUT, SECONDS = 400.0, 0.5, 4, 2, 10.0
SHARED = Rule(id="shared", limit=LIMIT, burst=LIMIT, fallback=SHARE, whose=Whose.TOGETHER)


def test_ten_thousand_new_tenants_on_nodes_cut_off_spend_what_these_nodes_may() -> None:
    cluster = Cluster(NODES, [SHARED])
    cluster.run(3, 2 * LIMIT)
    for wire in cluster.wires[:CUT]:
        wire.cut = True
    cluster.run(6, [0.0] * CUT + [LIMIT] * (NODES - CUT))
    admitted, tenants, turns = 0, 0, 50
    before = list(cluster.admitted)
    for turn in range(turns):
        for number in range(10_000 // turns):
            tenants += 1
            limiters = (node.limiter("api", "search", f"new{turn}-{number}") for node in cluster.nodes[:CUT])
            admitted += sum(limiter.reserve(1, 0).ok for limiter in limiters)
        cluster.run(SECONDS / turns, [0.0] * CUT + [LIMIT] * (NODES - CUT))
    others = sum(cluster.admitted) - sum(before)
    assert tenants == 10_000
    assert admitted <= CUT * (SHARE * LIMIT / NODES * SECONDS + 1 + 0.01 * LIMIT)
    # So much is theirs, and they get it: one after the other asks once, which loses a little to the bucket's brim.
    assert admitted >= 0.8 * CUT * SHARE * LIMIT / NODES * SECONDS
    assert (others + admitted) / (LIMIT * SECONDS) <= 1 + SHARE * CUT / NODES + 0.03


def test_tenants_of_one_node_count_as_one_node() -> None:
    cluster = Cluster(2, [SHARED])
    for _ in range(40):
        for tenant in range(10):
            cluster.run(0.01, LIMIT / 10, f"t{tenant}")
    told = cluster.nodes[0].limiter("api", "search", "t0")._last
    assert told is not None
    assert told.alone == pytest.approx((SHARE * LIMIT / 2,))


OWN, ALL = BucketLink("own", "t"), BucketLink("all")


def test_all_buckets_give_or_none() -> None:
    alone = StandIns()
    assert alone.take((OWN, ALL), (10.0, 0.0), 1, 0.0)
    assert not alone.take((OWN, ALL), (10.0, 0.0), 1, 5.0)
    # Nothing of the first was lost for it.
    assert alone.take((OWN,), (10.0,), 10, 5.0)
    assert alone.tokens((OWN, ALL), 5.0) == 0
    assert alone.brings_at((OWN,), 5, 5.0) == pytest.approx(5.5)
    assert alone.brings_at((OWN, ALL), 1, 5.0) is None


def test_what_was_told_for_a_bucket_holds_for_who_was_never_told() -> None:
    alone = StandIns()
    alone.told((ALL,), (10.0,), (2.0,), 0.0)
    assert alone.take((ALL,), (10.0,), 1, 0.0)
    assert not alone.take((ALL,), (10.0,), 1, 0.4)
    assert alone.take((ALL,), (10.0,), 1, 0.5)


def test_a_bucket_is_forgotten_when_that_gives_nobody_more() -> None:
    alone = StandIns()
    assert alone.take((ALL,), (0.001,), 1, 0.0)
    alone.told((OWN,), (10.0,), (2.0,), 0.0)
    alone.prune(set(), 10.0)
    assert not alone.take((ALL,), (0.001,), 1, 10.0)
    assert len(alone._alone) == 2
    alone.prune(set(), 2 * FORGOTTEN_S)
    assert not alone._alone
