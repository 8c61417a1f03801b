"""What is seen of a bucket is what the next Want finds; looking changes nothing."""

from __future__ import annotations

import pytest

from engine.core.store import open_client
from engine.quota.plane import KeptBook
from engine.quota.planes.redis import RedisControlPlane
from engine.quota.protocol import BucketLink, KeptRule, Want
from engine.quota.terms import Name

#: A period that begins after the memory did.
TO_COME = BucketLink("day", "bob", 10**14, 10**15)
SHARED, DAILY, GONE = BucketLink("all"), BucketLink("day", "ada", 1_000, 10**15), BucketLink("gone")


@pytest.fixture
def plane(redis_url: str, prefix: str) -> RedisControlPlane:
    made = RedisControlPlane(open_client(redis_url), prefix)
    rules = {"all": KeptRule(0.001, 100.0), "day": KeptRule(50.0, 50.0, by_period=True)}
    assert made.keep_rules(KeptBook(1, b""), rules)
    return made


def _want(number: int, who: tuple[str, str], asked: int, demand: float, links: tuple[BucketLink, ...]) -> Want:
    tenant, node = who
    limiter = str(Name("api", "a/b @ c", tenant))
    return Want(f"w{number}", node, limiter, tenant, links, asked, demand)


def test_a_bucket_that_was_never_asked_holds_what_came_in_since_the_memory_began(plane: RedisControlPlane) -> None:
    shared, to_come, begun = plane.look([SHARED, GONE, TO_COME, DAILY])
    assert (shared.limit, shared.room, shared.claims, shared.more) == (0.001, 100.0, (), 0)
    assert shared.tokens < 1
    # Nothing of a period is for sale before it begins.
    assert (to_come.tokens, to_come.room) == (0.0, 50.0)
    # Of a period that had begun before, what the next Want would find: nobody knows what was taken of it.
    (alloc,) = plane.want([_want(1, ("ada", "n1"), 50, 50.0, (DAILY,))])
    assert alloc.granted == int(begun.tokens) == 49


def test_claims_are_told_with_what_is_left_and_looking_takes_nothing(plane: RedisControlPlane) -> None:
    plane.want([_want(1, ("ada", "n1"), 20, 30.0, (DAILY,)), _want(2, ("ada", "a@b"), 9, 10.0, (DAILY,))])
    for _ in range(3):
        (daily,) = plane.look([DAILY])
        sold = 50 - daily.tokens
        assert 0 < sold < 30
        assert {claim.key for claim in daily.claims} == {("api", "a/b @ c", "ada")}
        assert {claim.node for claim in daily.claims} == {"n1", "a@b"}
        assert {claim.demand for claim in daily.claims} == {30.0, 10.0}
        assert all(0 <= claim.age_s < 60 for claim in daily.claims)


@pytest.mark.parametrize("limit", [80.0, 30.0])
def test_after_a_limit_was_changed_what_is_seen_is_what_the_next_want_finds(
    plane: RedisControlPlane, limit: float
) -> None:
    """Found by a stranger: the page showed what the limit had been."""
    plane.want([_want(1, ("ada", "n1"), 20, 30.0, (DAILY,))])
    rules = {"all": KeptRule(2_000.0, 100.0), "day": KeptRule(limit, limit, by_period=True)}
    assert plane.keep_rules(KeptBook(2, b""), rules)
    (daily,) = plane.look([DAILY])
    (alloc,) = plane.want([_want(2, ("ada", "n1"), 1_000, 1_000.0, (DAILY,))])
    assert daily.room == limit
    assert alloc.granted == int(daily.tokens)
    # What came in before anybody knew of the greater limit came in by the smaller.
    (shared,) = plane.look([SHARED])
    assert shared.tokens < 50


def test_what_an_older_release_wrote_is_seen(plane: RedisControlPlane, redis_url: str, prefix: str) -> None:
    plane.want([_want(1, ("ada", "n1"), 20, 30.0, (DAILY,))])
    client = open_client(redis_url)
    (key,) = client.keys(f"{prefix}*:bucket:day/ada")
    client.hdel(key, "seen", "limit")
    (daily,) = plane.look([DAILY])
    assert 0 < daily.tokens < 50


def test_who_gets_most_stands_first_and_the_rest_is_counted(
    plane: RedisControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    wants = [_want(number, (f"t{number}", "n"), 1, float(number), (SHARED,)) for number in range(1, 4)]
    plane.want(wants)
    (shared,) = plane.look([SHARED])
    assert len(shared.claims) == 3
    assert sum(claim.share for claim in shared.claims) == pytest.approx(0.001)
    monkeypatch.setattr("engine.quota.planes.looking.MOST_CLAIMS", 2)
    (shared,) = plane.look([SHARED])
    assert (len(shared.claims), shared.more) == (2, 1)
