"""What beats share of an entry: how far it is sent, and who is at its next slot."""

from __future__ import annotations

import time

import pytest
import redis

from engine.core.errors import Unavailable
from engine.cron.beat.store import KEEP_MS, BeatStore, ClaimAnswer, SlotClaim, push
from hbus_console.supervisor.standalone import StandaloneStore


@pytest.fixture
def store(client: redis.Redis) -> BeatStore:
    return BeatStore(client, "beats")


@pytest.fixture
def claim(store: BeatStore, client: redis.Redis) -> SlotClaim:
    """Of a slot that has come, by the beat ``a``; nobody has claimed it."""
    key = store.key("tick", "UTC * * * * *")
    (cursor,) = store.open([(key, "tick")])
    client.hset(key, "cursor", cursor - 60)
    return SlotClaim(key, "a", cursor - 60, cursor - 10)


def by(claim: SlotClaim, holder: str) -> SlotClaim:
    return SlotClaim(claim.key, holder, claim.cursor, claim.slot)


def test_an_entry_is_opened_once_and_kept(store: BeatStore, client: redis.Redis) -> None:
    key = store.key("tick", "UTC * * * * *")
    before = int(store.time())
    first = store.open([(key, "tick")])
    assert before <= first[0] <= store.time()
    client.hset(key, "cursor", 7)
    assert store.open([(key, "tick")]) == [7]
    assert client.hget(key, "entry") == b"tick"
    assert KEEP_MS - 60_000 < client.pttl(key) <= KEEP_MS
    assert key != store.key("tick", "UTC 0 * * * *") != store.key("tock", "UTC 0 * * * *")


def test_one_beat_has_a_slot_for_the_lease_and_may_ask_again(store: BeatStore, claim: SlotClaim) -> None:
    first, second = store.claim([claim, by(claim, "b")], 30.0)
    assert (first.won, second.won, second.cursor) == (True, False, claim.cursor)
    assert 29 < second.wait_s <= 30
    assert store.claim([claim], 0.05)[0].won
    deadline = time.monotonic() + 10
    while not (won := store.claim([by(claim, "b")], 30.0)[0].won) and time.monotonic() < deadline:
        pass
    assert won


def test_what_has_not_come_what_is_behind_and_what_is_forgotten_is_not_to_be_had(
    store: BeatStore, claim: SlotClaim, client: redis.Redis
) -> None:
    ahead = SlotClaim(claim.key, "a", claim.cursor, int(store.time()) + 100)
    (early,) = store.claim([ahead], 5.0)
    assert not early.won
    assert 98 < early.wait_s <= 100
    behind = SlotClaim(claim.key, "a", claim.cursor - 1, claim.slot)
    assert store.claim([behind], 5.0) == [ClaimAnswer(False, claim.cursor, 0.0)]
    client.delete(claim.key)
    assert store.claim([claim], 5.0) == [ClaimAnswer(False, -1, 0.0)]
    assert not client.exists(claim.key)


def test_a_slot_that_is_sent_is_sent_for_all(store: BeatStore, claim: SlotClaim, client: redis.Redis) -> None:
    store.claim([claim], 30.0)
    assert not store.sent(by(claim, "b"))
    assert client.hget(claim.key, "cursor") == str(claim.cursor).encode()
    assert store.sent(claim)
    assert client.hgetall(claim.key) == {b"cursor": str(claim.slot).encode(), b"entry": b"tick"}
    # Who had no answer asks again.
    assert store.sent(claim)
    assert store.claim([by(claim, "b")], 5.0) == [ClaimAnswer(False, claim.slot, 0.0)]


def test_a_message_goes_with_its_slot_once_and_never_without_the_claim(
    store: BeatStore, claim: SlotClaim, client: redis.Redis
) -> None:
    assert not push(client, claim, "queue", "unclaimed")
    store.claim([claim], 30.0)
    assert not push(client, by(claim, "b"), "queue", "another's")
    assert push(client, claim, "queue", "one")
    assert push(client, claim, "queue", "again")
    assert client.lrange("queue", 0, -1) == [b"one"]


def test_a_store_that_is_away_claims_nothing(store: BeatStore, claim: SlotClaim, own_store: StandaloneStore) -> None:
    own_store.kill()
    for ask in (
        store.time,
        lambda: store.claim([claim], 5.0),
        lambda: store.sent(claim),
        lambda: store.open([("k", "")]),
    ):
        with pytest.raises(Unavailable):
            ask()
