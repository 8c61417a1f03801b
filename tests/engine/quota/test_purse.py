"""Prepaid tokens: nobody gets one that is not there, however many threads reach for them at once."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Iterator

import pytest

from engine.quota import purse as purse_module
from engine.quota.purse import Lot, Purse
from engine.quota.stash import GIL, CountedStash, ListedStash

THREADS = 8


@pytest.fixture(params=[CountedStash, ListedStash] if GIL else [ListedStash])
def purse(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Purse:
    """On a build with the GIL both kinds must be exact; without it the counted one is not."""
    monkeypatch.setattr(purse_module, "Stash", request.param)
    return Purse()


@pytest.fixture
def hurried() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_half_is_laid_out_first(purse: Purse) -> None:
    purse.put(Lot("a", 10, 5.0, 10))
    assert purse.take(1, 0.0)
    assert not purse.low()
    assert purse.take(5, 0.0)
    assert purse.low()
    assert purse.left() == 4


def test_permits_are_spent_in_their_order(purse: Purse) -> None:
    purse.put(Lot("a", 3, 5.0, 3))
    purse.put(Lot("b", 8, 6.0, 8))
    assert purse.take(4, 0.0)
    first = purse.first()
    assert first is not None
    assert (first.permit, purse.left()) == ("b", 7)


def test_all_or_none(purse: Purse) -> None:
    purse.put(Lot("a", 3, 5.0, 3))
    purse.put(Lot("b", 8, 6.0, 8))
    assert not purse.take(12, 0.0)
    assert purse.left() == 11
    assert purse.take(11, 0.0)
    assert not purse.take(1, 0.0)


def test_what_was_not_enough_for_one_keeps_its_end(purse: Purse) -> None:
    purse.put(Lot("a", 3, 5.0, 3))
    purse.put(Lot("b", 2, 6.0, 2))
    assert not purse.take(9, 0.0)
    assert purse.ends_at() == 5.0
    purse.expire(5.0)
    assert (purse.left(), purse.void) == (2, 3)


def test_what_has_ended_is_void(purse: Purse) -> None:
    purse.put(Lot("a", 10, 5.0, 10))
    assert purse.take(2, 0.0)
    assert not purse.take(1, 5.0)
    assert (purse.void, purse.left()) == (8, 0)


@pytest.mark.parametrize("seed", range(6))
def test_threads_and_several_at_once(purse: Purse, hurried: None, seed: int) -> None:
    lock = threading.Lock()
    rng = random.Random(seed)
    total = 0
    for number in range(5):
        granted = rng.randint(1, 9_000)
        total += granted
        purse.put(Lot(f"p{number}", granted, 1e9, granted))
    taken = [0] * THREADS

    def ask(number: int) -> None:
        sizes = random.Random(number)
        for _ in range(4_000):
            n = sizes.choice((1, 1, 1, 2, 3, 7, 20))
            if n == 1 and purse_module.Stash.take(purse.out, 1):
                taken[number] += 1
                continue
            with lock:
                if purse.take(n, 0.0):
                    taken[number] += n

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(taken) + purse.left() == total
