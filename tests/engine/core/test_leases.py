from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from engine.core.clock import ManualClock
from engine.core.errors import BadInput, Unavailable
from engine.core.leases import Lease
from hbus_console.supervisor.standalone import StandaloneStore


@pytest.fixture
def client(redis_url: str) -> Iterator[redis.Redis]:
    made = redis.Redis.from_url(redis_url)
    yield made
    made.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


def expire(client: redis.Redis, prefix: str) -> None:
    """What the store does by itself when nobody has renewed."""
    assert client.delete(f"{prefix}:{{lease:mover}}:holder") == 1


def test_one_owner_at_a_time_and_a_growing_epoch(client: redis.Redis, prefix: str, clock: ManualClock) -> None:
    one = Lease(client, prefix, "mover", owner="a", ttl_s=30, clock=clock)
    two = Lease(client, prefix, "mover", owner="b", ttl_s=30, clock=clock)
    assert (one.acquire(), two.acquire()) == (1, 0)
    assert (one.held, two.held) == (True, False)
    assert one.acquire() == 1
    assert one.holder() == two.holder() == "a"
    one.release()
    assert not one.held
    assert two.acquire() == 2
    assert two.clean
    assert one.acquire() == 0


def test_two_leases_of_one_owner_name_exclude_each_other(client: redis.Redis, prefix: str) -> None:
    one = Lease(client, prefix, "mover", owner="a", ttl_s=30)
    two = Lease(client, prefix, "mover", owner="a", ttl_s=30)
    assert (one.acquire(), two.acquire()) == (1, 0)
    two.release()
    assert one.renew()


def test_what_ran_out_can_be_taken_and_its_late_owner_is_told(
    client: redis.Redis, prefix: str, clock: ManualClock
) -> None:
    one = Lease(client, prefix, "mover", owner="a", ttl_s=30, clock=clock)
    two = Lease(client, prefix, "mover", owner="b", ttl_s=30, clock=clock)
    one.acquire()
    expire(client, prefix)
    assert two.acquire() == 2
    assert not two.clean
    assert not one.renew()
    assert not one.held
    one.release()
    assert two.renew()
    assert two.held


def test_it_is_believed_for_no_longer_than_its_length_from_before_it_was_asked_for(
    client: redis.Redis, prefix: str, clock: ManualClock
) -> None:
    class Slow(Lease):
        pass

    lease = Slow(client, prefix, "mover", owner="a", ttl_s=30, clock=clock)
    call = lease._scripts.call

    def slow_call(*args: object) -> object:
        answer = call(*args)  # type: ignore[arg-type]
        clock.advance(10)
        return answer

    lease._scripts.call = slow_call  # type: ignore[method-assign]
    lease.acquire()
    clock.advance(19)
    assert lease.held
    clock.advance(1)
    assert not lease.held
    # It lapsed by our clock, so we do not even ask.
    assert not lease.renew()


def test_renewing_counts_anew(client: redis.Redis, prefix: str, clock: ManualClock) -> None:
    lease = Lease(client, prefix, "mover", owner="a", ttl_s=30, clock=clock)
    lease.acquire()
    clock.advance(20)
    assert lease.renew()
    clock.advance(20)
    assert lease.held
    assert 0 < client.pttl(f"{prefix}:{{lease:mover}}:holder") <= 30_000


def test_a_wall_clock_step_changes_nothing(client: redis.Redis, prefix: str, clock: ManualClock) -> None:
    lease = Lease(client, prefix, "mover", owner="a", ttl_s=30, clock=clock)
    lease.acquire()
    clock.step_wall(-3_600)
    assert lease.held
    clock.step_wall(7_200)
    assert lease.held


def test_its_length_is_bounded(client: redis.Redis, prefix: str) -> None:
    for ttl_s in (0, 86_401):
        with pytest.raises(BadInput) as refused:
            Lease(client, prefix, "mover", owner="a", ttl_s=ttl_s)
        assert refused.value.field == "ttl_s"


def test_an_absent_store_is_said_and_the_lease_stays_until_it_runs_out(
    own_store: StandaloneStore, clock: ManualClock
) -> None:
    client = redis.Redis.from_url(own_store.url)
    lease = Lease(client, "p", "mover", owner="a", ttl_s=30, clock=clock)
    lease.acquire()
    own_store.kill()
    with pytest.raises(Unavailable):
        lease.renew()
    assert lease.held
    clock.advance(30)
    assert not lease.held
    with pytest.raises(Unavailable):
        lease.acquire()
    assert lease.holder() == ""
    client.close()
