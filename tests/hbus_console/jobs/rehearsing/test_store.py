"""The store of a rehearsal runs out by the clock of the play, and by no other."""

from __future__ import annotations

import pytest
from pytest_django import Settings

from engine.core.clock import ManualClock
from engine.core.store import open_client
from engine.cron.slots.steps import Acquire, ClaimSlots, LeasesHeld, Release, Renew, SlotKey
from hbus_console.jobs.rehearsing.store import KEPT_S, RehearsedStore
from tests.hbus_console.jobs.rehearsing.conftest import BEGIN

SLOTS = (SlotKey("night", 1, BEGIN), SlotKey("night", 1, BEGIN + 60))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(BEGIN * 1000)


@pytest.fixture
def slots(settings: Settings, prefix: str, clock: ManualClock, redis_url: str) -> RehearsedStore:
    return RehearsedStore(open_client(redis_url), prefix, clock)


def test_a_slot_is_claimed_once_it_has_come_and_by_one_until_its_marker_has_run_out(
    slots: RehearsedStore, clock: ManualClock
) -> None:
    def won(node: str) -> list[int]:
        claims = slots.claim(ClaimSlots(SLOTS, node, 5.0))
        assert claims.now_s == clock.now_ms() / 1000
        return sorted(slot.at - BEGIN for slot in claims.won)

    assert won("a") == [0]
    assert won("b") == []
    clock.advance(4.999)
    assert won("b") == []
    clock.advance(0.001)
    assert won("b") == [0]
    clock.advance(55)
    assert won("a") == [0, 60]


def test_a_play_after_this_one_finds_no_marker_in_its_way(slots: RehearsedStore, prefix: str, redis_url: str) -> None:
    assert slots.claim(ClaimSlots(SLOTS[:1], "a", 5.0)).won
    again = RehearsedStore(open_client(redis_url), prefix, ManualClock(BEGIN * 1000))
    assert again.claim(ClaimSlots(SLOTS[:1], "a", 5.0)).won


def test_a_lease_lasts_as_long_as_the_clock_says_and_longer_where_it_is_renewed(
    slots: RehearsedStore, clock: ManualClock
) -> None:
    epoch = slots.acquire(Acquire(7, "a", 30.0, 0))
    assert KEPT_S - 5 < slots.leases([7])[7].left_s <= KEPT_S
    clock.advance(20)
    assert slots.renew(Renew(7, "a", epoch, 30.0))
    clock.advance(29)
    assert slots.leases_held(LeasesHeld((7,))) == {7}
    assert slots.acquire(Acquire(7, "b", 30.0, 0)) == 0
    clock.advance(1)
    assert slots.leases_held(LeasesHeld((7,))) == set()
    assert not slots.renew(Renew(7, "a", epoch, 30.0))
    assert slots.acquire(Acquire(7, "b", 30.0, 0)) == epoch + 1


def test_only_its_owner_gives_a_lease_up(slots: RehearsedStore, clock: ManualClock) -> None:
    epoch = slots.acquire(Acquire(7, "a", 30.0, 0))
    slots.release(Release(7, "b", epoch))
    clock.advance(30)
    assert slots.leases_held(LeasesHeld((7,))) == set()
    epoch = slots.acquire(Acquire(7, "b", 30.0, 0))
    slots.release(Release(7, "b", epoch))
    assert slots.leases_held(LeasesHeld((7,))) == set()
