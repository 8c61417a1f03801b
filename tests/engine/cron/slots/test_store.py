"""One contract for the real store and for the model that the simulator takes for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Protocol

import pytest
import redis

from engine.core.errors import Unavailable
from engine.core.store import open_client
from engine.core.store.cluster_client import ClusterClient
from engine.cron.simulation.models import ModelStore
from engine.cron.slots.steps import Acquire, ClaimSlots, LeasesHeld, Release, Renew, SlotClaims, SlotKey
from engine.cron.slots.store import SlotStore, TakenAway
from hbus_console.supervisor.standalone import StandaloneStore
from tests.store_servers import StoreCluster

LEASE_S = 30.0
RUN = 7


class AnyStore(Protocol):
    def claim(self, step: ClaimSlots) -> SlotClaims: ...

    def acquire(self, step: Acquire) -> int: ...

    def renew(self, step: Renew) -> bool: ...

    def release(self, step: Release) -> None: ...

    def leases_held(self, step: LeasesHeld) -> set[int]: ...


class Place:
    """A store, its clock, and what time and misfortune do to it."""

    store: AnyStore

    def now(self) -> float:
        raise NotImplementedError

    def pass_time(self, seconds: float) -> None:
        raise NotImplementedError

    def forget(self) -> None:
        raise NotImplementedError


class Modelled(Place):
    def __init__(self) -> None:
        self.model, self._now = ModelStore(), 1_790_000_000.0
        self.store = self

    def now(self) -> float:
        return self._now

    def pass_time(self, seconds: float) -> None:
        self._now += seconds

    def forget(self) -> None:
        self.model.flush()

    def claim(self, step: ClaimSlots) -> SlotClaims:
        return self.model.claim(step, self._now)

    def acquire(self, step: Acquire) -> int:
        return self.model.acquire(step, self._now)

    def renew(self, step: Renew) -> bool:
        return self.model.renew(step, self._now)

    def release(self, step: Release) -> None:
        self.model.release(step, self._now)

    def leases_held(self, step: LeasesHeld) -> set[int]:
        return self.model.leases_held(step, self._now)


class Real(Place):
    """Time passes for its keys: what they have left gets shorter, and what was claimed lies longer back."""

    def __init__(self, client: redis.Redis, prefix: str) -> None:
        self._client, self._prefix = client, prefix
        self.store = SlotStore(client, prefix)

    def now(self) -> float:
        seconds, micros = self._client.time()
        return float(seconds + micros / 1_000_000)

    def pass_time(self, seconds: float) -> None:
        for key in self._keys():
            left_ms = self._client.pttl(key) - round(seconds * 1000)
            if left_ms <= 0:
                self._client.delete(key)
                continue
            if b":slot:" in key:
                node, _, claimed = self._text(key).rpartition(" ")
                self._client.set(key, f"{node} {int(claimed) - round(seconds * 1000)}")
            self._client.pexpire(key, left_ms)

    def _text(self, key: bytes) -> str:
        held = self._client.get(key)
        assert isinstance(held, bytes)
        return held.decode()

    def forget(self) -> None:
        for key in self._keys():
            self._client.delete(key)

    def _keys(self) -> list[bytes]:
        servers = self._client.each() if isinstance(self._client, ClusterClient) else [self._client]
        return [key for server in servers for key in server.scan_iter(f"{self._prefix}:*")]


@pytest.fixture(params=["model", "redis", "cluster"])
def place(request: pytest.FixtureRequest, prefix: str) -> Iterator[Place]:
    if request.param == "model":
        yield Modelled()
        return
    url = request.getfixturevalue("store_cluster").url if request.param == "cluster" else None
    client = open_client(url or request.getfixturevalue("redis_url"))
    yield Real(client, prefix)
    client.close()


def claimed(place: Place, node: str = "n1", *, ago: int = 1, version: int = 1, job: str = "close") -> bool:
    return bool(claim(place, node, SlotKey(job, version, int(place.now()) - ago)).won)


def claim(place: Place, node: str, *slots: SlotKey) -> SlotClaims:
    return place.store.claim(ClaimSlots(slots, node, 5.0))


def acquired(place: Place, owner: str = "a", floor: int = 0) -> int:
    return place.store.acquire(Acquire(RUN, owner, LEASE_S, floor))


def test_one_node_claims_a_slot_and_the_store_tells_its_time(place: Place) -> None:
    slot = SlotKey("close", 1, int(place.now()) - 1)
    answers = [claim(place, node, slot) for node in ("n1", "n2", "n1")]
    # Who could not decide what it claimed asks again: it waits for nobody but itself.
    assert [answer.won for answer in answers] == [{slot}, set(), {slot}]
    assert all(slot.at <= answer.now_s <= place.now() for answer in answers)


def test_of_many_slots_each_is_claimed_by_itself(place: Place) -> None:
    come = [SlotKey("close", 1, int(place.now()) - ago) for ago in (3, 2, 1)]
    assert claim(place, "n1", come[1]).won == {come[1]}
    answer = claim(place, "n2", *come, SlotKey("close", 1, int(place.now()) + 60))
    assert answer.won == {come[0], come[2]}
    assert claim(place, "n3", *come).won == set()


def test_a_slot_that_has_not_come_by_the_stores_clock_is_not_claimed(place: Place) -> None:
    assert not claimed(place, ago=-60)
    place.pass_time(61)
    if isinstance(place, Modelled):
        assert claimed(place, ago=1)


def test_a_slot_may_be_claimed_so_long_before_it_comes_and_no_sooner(place: Place) -> None:
    slot = SlotKey("close", 1, int(place.now()) + 60)
    assert not place.store.claim(ClaimSlots((slot,), "n1", 5.0, 30.0)).won
    answer = place.store.claim(ClaimSlots((slot,), "n1", 5.0, 60.5))
    assert answer.won == {slot}
    # It says when it is, and not until when it may claim.
    assert answer.now_s <= place.now()
    assert not place.store.claim(ClaimSlots((slot,), "n2", 5.0, 60.5)).won


def test_slots_versions_and_jobs_are_claimed_each_by_itself(place: Place) -> None:
    assert claimed(place, ago=10)
    assert claimed(place, ago=20)
    assert claimed(place, ago=10, version=2)
    assert claimed(place, ago=10, job="rates")


def test_who_claimed_and_did_not_decide_leaves_the_slot_to_others_after_a_while(place: Place) -> None:
    slot = SlotKey("close", 1, int(place.now()) - 60)
    assert claim(place, "n1", slot).won
    place.pass_time(4)
    assert not claim(place, "n2", slot).won
    place.pass_time(2)
    assert claim(place, "n2", slot).won
    assert not claim(place, "n3", slot).won


def test_a_server_that_does_not_know_the_script_yet_claims_all_the_same(
    prefix: str, store_cluster: StoreCluster
) -> None:
    """What the others had claimed by then was claimed twice, and so by nobody."""
    client = open_client(store_cluster.url)
    store = SlotStore(client, prefix)
    slots = tuple(SlotKey(f"job{number}", 1, int(time.time()) - 1) for number in range(50))
    assert store.claim(ClaimSlots(slots[:25], "n1", 5.0)).won == set(slots[:25])
    assert isinstance(client, ClusterClient)
    client.each()[0].script_flush()
    assert store.claim(ClaimSlots(slots[25:], "n1", 5.0)).won == set(slots[25:])
    client.close()


def test_one_owner_has_a_run_and_each_next_one_a_greater_epoch(place: Place) -> None:
    assert (acquired(place), acquired(place, "b"), acquired(place)) == (1, 0, 0)
    place.store.release(Release(RUN, "a", 1))
    assert acquired(place, "b") == 2
    place.pass_time(LEASE_S + 1)
    assert acquired(place, "a") == 3


def test_a_store_that_has_forgotten_goes_on_from_what_the_database_knows(place: Place) -> None:
    assert acquired(place, floor=4) == 5
    place.forget()
    assert acquired(place, "b", floor=5) == 6
    place.store.release(Release(RUN, "b", 6))
    # It remembers more than the database, which the last owner has not reached.
    assert acquired(place, "c", floor=5) == 7


def test_a_renewed_lease_lasts_and_one_that_is_not_runs_out(place: Place) -> None:
    assert acquired(place) == 1
    for _ in range(3):
        place.pass_time(LEASE_S * 0.6)
        assert place.store.renew(Renew(RUN, "a", 1, LEASE_S))
    assert place.store.leases_held(LeasesHeld((RUN, 8))) == {RUN}
    place.pass_time(LEASE_S + 1)
    assert not place.store.renew(Renew(RUN, "a", 1, LEASE_S))
    assert place.store.leases_held(LeasesHeld((RUN, 8))) == set()


@pytest.mark.parametrize(("owner", "epoch"), [("b", 2), ("a", 1), ("b", 1), ("a", 2), ("", 2)])
def test_only_the_owner_under_its_epoch_renews_and_releases(place: Place, owner: str, epoch: int) -> None:
    assert acquired(place, "a") == 1
    place.store.release(Release(RUN, "a", 1))
    assert acquired(place, "b") == 2
    ours = (owner, epoch) == ("b", 2)
    assert place.store.renew(Renew(RUN, owner, epoch, LEASE_S)) == ours
    place.store.release(Release(RUN, owner, epoch))
    assert (place.store.leases_held(LeasesHeld((RUN,))) == set()) == ours


def test_leases_are_seen_as_they_stand_and_taken_away(own_store: StandaloneStore, prefix: str) -> None:
    client = redis.Redis.from_url(own_store.url)
    store = SlotStore(client, prefix)
    store.acquire(Acquire(RUN, "a host#1", LEASE_S, 6))
    seen = store.leases((RUN, 8))
    assert [(run, lease.owner, lease.epoch) for run, lease in seen.items()] == [(RUN, "a host#1", 7)]
    assert 0 < seen[RUN].left_s <= LEASE_S
    assert client.get(store.lease_key(RUN)) == b"a host#1 7"
    assert store.take_away(RUN, 7) is TakenAway.TAKEN
    assert store.take_away(RUN, 7) is TakenAway.FREE
    assert not store.renew(Renew(RUN, "a host#1", 7, LEASE_S))
    assert store.leases((RUN,)) == {}
    client.close()


@pytest.mark.parametrize("meant", [6, 8, 70, 17])
def test_a_lease_is_taken_away_only_if_it_is_the_one_that_was_meant(
    own_store: StandaloneStore, prefix: str, meant: int
) -> None:
    with redis.Redis.from_url(own_store.url) as client:
        store = SlotStore(client, prefix)
        store.acquire(Acquire(RUN, "a host#1", LEASE_S, 6))
        assert store.take_away(RUN, meant) is TakenAway.ANOTHERS
        assert store.renew(Renew(RUN, "a host#1", 7, LEASE_S))


def test_a_store_that_is_away_is_told_as_that(own_store: StandaloneStore, prefix: str) -> None:
    client = redis.Redis.from_url(own_store.url, socket_timeout=2)
    store = SlotStore(client, prefix)
    own_store.kill()
    slot = int(time.time()) - 1
    for ask in (
        lambda: store.claim(ClaimSlots((SlotKey("close", 1, slot),), "n1", 5.0)),
        lambda: store.acquire(Acquire(RUN, "a", LEASE_S, 0)),
        lambda: store.renew(Renew(RUN, "a", 1, LEASE_S)),
        lambda: store.release(Release(RUN, "a", 1)),
        lambda: store.leases_held(LeasesHeld((RUN,))),
        lambda: store.leases((RUN,)),
        lambda: store.take_away(RUN, 1),
    ):
        with pytest.raises(Unavailable):
            ask()
    client.close()


def test_a_store_that_is_full_refuses_and_that_is_told_as_nothing_else(own_store: StandaloneStore, prefix: str) -> None:
    client = redis.Redis.from_url(own_store.url)
    store = SlotStore(client, prefix)
    epoch = store.acquire(Acquire(1, "one", 30, 0))
    client.config_set("maxmemory", 1)
    slot = SlotKey("close", 1, 5)
    refused: list[Callable[[], object]] = [
        lambda: store.acquire(Acquire(2, "one", 30, 0)),
        lambda: store.claim(ClaimSlots((slot,), "n1", 5)),
    ]
    for ask in refused:
        with pytest.raises(Unavailable, match="The store refused: OOM") as caught:
            ask()
        assert "memory limit" in (caught.value.remedy or "")
    client.config_set("maxmemory", 0)
    assert store.renew(Renew(1, "one", epoch, 30))


def test_a_store_that_may_not_write_to_its_disk_refuses_likewise(own_store: StandaloneStore, prefix: str) -> None:
    client = redis.Redis.from_url(own_store.url)
    client.config_set("min-replicas-to-write", 1)
    with pytest.raises(Unavailable, match="NOREPLICAS"):
        SlotStore(client, prefix).acquire(Acquire(2, "one", 30, 0))
