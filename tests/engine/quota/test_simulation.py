"""Random histories of nodes that share limits: nothing that must never be, and each planted mistake is found."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec
import pytest

from engine.core.errors import Unavailable
from engine.quota import allocator, standin
from engine.quota.allocator import Allocator, Answered, BucketState
from engine.quota.bucket import Bucket
from engine.quota.held import HeldLimiter
from engine.quota.node import QuotaNode
from engine.quota.protocol import Alloc, BucketLink, KeptRule, Want
from engine.quota.purse import Purse
from engine.quota.simulation.plane import ModelPlane
from engine.quota.simulation.world import QuotaWorld, play
from engine.quota.standin import StandIns

SEEDS = 200
#: Within so many a planted mistake must be found.
MOST_SEEDS = 1_000


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Nodes are cut off some thousand times here, and say so."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def test_no_history_admits_what_it_must_not_or_refuses_what_there_is() -> None:
    for seed in range(SEEDS):
        world, found = play(seed)
        assert found == [], "\n".join([f"seed {seed}", *world.told])


def test_a_seed_is_one_history() -> None:
    for seed in range(10):
        one, other = play(seed), play(seed)
        assert one[0].told == other[0].told
        assert one[0].timeline.acts == other[0].timeline.acts
        assert one[0].judge.sold == other[0].judge.sold


def test_without_faults_nobody_spends_anything_alone() -> None:
    for seed in range(20):
        world = QuotaWorld(seed, calm=True)
        world.play()
        assert world.judge.found == []
        assert world.told == [world.told[-1]]


class AnsweredAnew(Allocator):
    """A Want that is repeated is taken for another: a permit is granted twice, and what it returns comes back twice."""

    def _told(self, want: Want, now: float) -> Answered | None:
        return None


class TakesLateOnes(Allocator):
    """A Want that comes after a later one is answered, and the later one forgotten."""

    def _told(self, want: Want, now: float) -> Answered | None:
        told = super()._told(want, now)
        return told if told is not None and told.want.id == want.id else None


class TakesBackForOthers(Allocator):
    """What a bucket that is no more has sold comes back to the one of its name."""

    def want(self, want: Want, now: float) -> Alloc:
        states = [self._buckets.get((link.rule, link.owner)) for link in want.chain]
        born = tuple(now if state is None else state.born for state in states)
        return super().want(msgspec.structs.replace(want, born=born), now)


class ReturnedTwice(Allocator):
    """What is returned is credited once when it comes, and once more with the answer."""

    def want(self, want: Want, now: float) -> Alloc:
        alloc = super().want(want, now)
        for link in want.chain:
            if state := self._buckets.get((link.rule, link.owner)):
                state.tokens += want.returned
        return alloc


class RepaidForgotten(Allocator):
    """What was spent without asking costs nobody anything."""

    def want(self, want: Want, now: float) -> Alloc:
        return super().want(msgspec.structs.replace(want, repaid=0), now)


class BeginsFull(Allocator):
    """A bucket that nobody has seen is full, whatever was in it before the memory was lost."""

    def _bucket(self, link: BucketLink, rule: KeptRule, now: float) -> BucketState:
        known = (link.rule, link.owner) in self._buckets
        state = super()._bucket(link, rule, now)
        if not known:
            state.tokens = allocator.room(rule)
        return state


class AnyVersion(Allocator):
    """Rules take the place of others, whichever are newer."""

    def keep_rules(self, version: int, rules: Mapping[str, KeptRule]) -> bool:
        self.version, self._rules = version, dict(rules)
        return True


class FollowsTheClockBack(Allocator):
    """A clock that is put back is followed at once: when it is put right again the same time is credited twice."""

    def _bucket(self, link: BucketLink, rule: KeptRule, now: float) -> BucketState:
        state = super()._bucket(link, rule, now)
        state.seen = now
        return state


class NewLimitForOldTime(Allocator):
    """What came in before a change of limit counts by the new one."""

    def _bucket(self, link: BucketLink, rule: KeptRule, now: float) -> BucketState:
        if state := self._buckets.get((link.rule, link.owner)):
            state.limit = rule.limit
        return super()._bucket(link, rule, now)


class WaitsForTheClock(Allocator):
    """A clock that is put back ten minutes is waited for ten minutes."""

    def _bucket(self, link: BucketLink, rule: KeptRule, now: float) -> BucketState:
        state = self._buckets.get((link.rule, link.owner))
        return super()._bucket(link, rule, now if state is None else max(now, state.seen))


def of_allocator(mistaken: type[Allocator]) -> type[QuotaWorld]:
    plane = type("Plane", (ModelPlane,), {"allocator": mistaken})
    return type(mistaken.__name__, (QuotaWorld,), {"planes": plane})


@pytest.mark.parametrize(
    "mistaken",
    [
        AnsweredAnew,
        TakesLateOnes,
        TakesBackForOthers,
        ReturnedTwice,
        RepaidForgotten,
        BeginsFull,
        AnyVersion,
        FollowsTheClockBack,
        NewLimitForOldTime,
        WaitsForTheClock,
    ],
)
def test_a_mistake_of_the_allocator_is_found(mistaken: type[Allocator]) -> None:
    assert found_by(of_allocator(mistaken)) < MOST_SEEDS


def lives_by_the_wall_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of a permit is a moment of the wall clock."""
    take_in = HeldLimiter._take_in

    def ahead_s(self: HeldLimiter) -> float:
        return self._clock.now_ms() / 1000 - self._clock.monotonic()

    def by_the_wall(self: HeldLimiter, want: Want, alloc: Alloc, now: float) -> None:
        ahead = ahead_s(self)
        self._sent_at += ahead
        take_in(self, want, alloc, now)
        self._sent_at -= ahead
        self._again_at -= ahead

    monkeypatch.setattr(HeldLimiter, "_take_in", by_the_wall)
    monkeypatch.setattr(HeldLimiter, "_expire", lambda self, now: self._purse.expire(now + ahead_s(self)))


def lives_from_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A permit lives from when its answer came."""
    take_in = HeldLimiter._take_in

    def from_now(self: HeldLimiter, want: Want, alloc: Alloc, now: float) -> None:
        self._sent_at = now
        take_in(self, want, alloc, now)

    monkeypatch.setattr(HeldLimiter, "_take_in", from_now)


def alone_from_a_full_bucket(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(limit: float, burst: float, now: float, tokens: float | None = None) -> Bucket:
        return Bucket(limit, burst, now)

    monkeypatch.setattr(standin, "Bucket", full)


def _taking(
    monkeypatch: pytest.MonkeyPatch,
    rates_of: Callable[[StandIns, Sequence[BucketLink], Sequence[float]], Sequence[float]],
) -> None:
    take = StandIns.take

    def mistaken(self: StandIns, chain: Sequence[BucketLink], rates: Sequence[float], n: int, now: float) -> bool:
        return take(self, chain, rates_of(self, chain, rates), n, now)

    monkeypatch.setattr(StandIns, "take", mistaken)


def alone_at_the_whole_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each node alone admits what all together may."""
    monkeypatch.setattr(StandIns, "told", lambda self, chain, rates, allowed, now: None)
    _taking(monkeypatch, lambda self, chain, rates: [10.0] * len(rates))


def alone_as_told_by_a_young_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control plane knows best how many nodes there are."""

    def told_or(self: StandIns, chain: Sequence[BucketLink], rates: Sequence[float]) -> Sequence[float]:
        found = [self._of(link).told for link in chain]
        return [rate if told == math.inf else told for told, rate in zip(found, rates, strict=True)]

    told = StandIns.told
    monkeypatch.setattr(
        StandIns,
        "told",
        lambda self, chain, rates, allowed, now: told(self, chain, [math.inf] * len(rates), allowed, now),
    )
    _taking(monkeypatch, told_or)


def alone_for_each_limiter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each tenant has what its node may spend of a bucket that all share."""
    stand_in = HeldLimiter._stand_in

    def by_itself(self: HeldLimiter, n: int, now: float) -> bool:
        host, own = self._host, self.__dict__.setdefault("own", StandIns())
        kept, host.alone = host.alone, own  # type: ignore[misc]
        try:
            return stand_in(self, n, now)
        finally:
            host.alone = kept  # type: ignore[misc]

    monkeypatch.setattr(HeldLimiter, "_stand_in", by_itself)


def alone_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each time that the control plane goes there is a token for it."""

    def told(
        self: StandIns, chain: Sequence[BucketLink], rates: Sequence[float], allowed: Sequence[float], now: float
    ) -> None:
        self._alone.clear()

    monkeypatch.setattr(StandIns, "told", told)


def alone_and_nobody_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was spent alone is not reported."""
    new_want = HeldLimiter._new_want

    def forgetful(self: HeldLimiter, now: float) -> Want:
        self._spent_alone = 0
        return new_want(self, now)

    monkeypatch.setattr(HeldLimiter, "_new_want", forgetful)


def says_it_heard_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was granted before is given back, and may be spent."""
    new_want = HeldLimiter._new_want
    monkeypatch.setattr(
        HeldLimiter, "_new_want", lambda self, now: msgspec.structs.replace(new_want(self, now), heard=0)
    )


def returns_what_another_bucket_sold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is left is returned as if the bucket that is asked now had sold it."""
    end_first = Purse._end_first

    def end(self: Purse) -> int:
        self._lots[0].born = self.born
        return end_first(self)

    monkeypatch.setattr(Purse, "_end_first", end)


def nodes_take_older_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node goes by whatever rules the control plane has."""

    def look(self: QuotaNode, now: float) -> None:
        with suppress(Unavailable):
            kept = self._plane.book()
            if kept is not None and kept.version != self.version:
                self.book = None
                self._adopt(kept)
        original(self, now)

    original = QuotaNode._look
    monkeypatch.setattr(QuotaNode, "_look", look)


@pytest.mark.parametrize(
    "plant",
    [
        lives_by_the_wall_clock,
        lives_from_the_answer,
        alone_from_a_full_bucket,
        alone_at_the_whole_limit,
        alone_as_told_by_a_young_memory,
        alone_for_each_limiter,
        alone_anew_each_time,
        alone_and_nobody_counts,
        says_it_heard_nothing,
        returns_what_another_bucket_sold,
        nodes_take_older_rules,
    ],
)
def test_a_mistake_of_the_nodes_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as planted:
        plant(planted)
        found = found_by(QuotaWorld)
    assert found < MOST_SEEDS
    assert not play(found)[1], "without the mistake there is nothing to be found"


def found_by(world: type[QuotaWorld]) -> int:
    """The first seed whose judge finds something."""
    return next((seed for seed in range(MOST_SEEDS) if play(seed, world)[1]), MOST_SEEDS)
