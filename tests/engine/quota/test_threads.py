"""Eight threads at once, on builds with the GIL and without: what was spent is what was sold, to the token.

Each fails where a step that must be whole is not. ``make test-free-threaded`` runs them where threads do run at once;
with the GIL some of these faults hardly ever show.
"""

from __future__ import annotations

import asyncio
import random
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

import pytest

from engine.core.clock import ManualClock, SystemClock
from engine.quota import Book, Closed, LocalLimiter, OnLoss, QuotaNode, Rule
from engine.quota.distributed import DistributedLimiter
from engine.quota.plane import KeptBook
from engine.quota.planes.memory import MemoryControlPlane
from engine.quota.protocol import Alloc, Answer, KeptRule, Want
from engine.quota.purse import Lot, Purse, Stash
from engine.quota.seats import SeatKeeper, SeatLink
from engine.quota.uses import Uses
from tests.engine.quota.cluster import Cluster

THREADS = 8
_T = TypeVar("_T")


class Ledger:
    """A control plane that adds up what it sold, less what came back."""

    def __init__(self) -> None:
        self._plane = MemoryControlPlane()
        self.sold = 0

    def want(self, wants: Sequence[Want]) -> list[Alloc]:
        answers = self._plane.want(wants)
        for want, answer in zip(wants, answers, strict=True):
            if answer.answer is Answer.GRANTED:
                self.sold += answer.granted - want.returned
        return answers

    def keep_rules(self, book: KeptBook, rules: Mapping[str, KeptRule]) -> bool:
        return self._plane.keep_rules(book, rules)

    def version(self) -> int:
        return self._plane.version()

    def book(self) -> KeptBook | None:
        return self._plane.book()


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def node(ledger: Ledger) -> Iterator[QuotaNode]:
    """Of a limit that is seldom met. An answer that comes late refuses, so that all that is spent was sold."""
    keep(ledger, 1, 50_000)
    node = QuotaNode("n", ledger)
    node.start()
    yield node
    node.stop()


@pytest.fixture(autouse=True)
def _hurried() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def keep(ledger: Ledger, version: int, limit: float) -> None:
    rule = Rule(id="all", limit=limit, burst=5_000, on_loss=OnLoss.CLOSED)
    ledger.keep_rules(*Book(version=version, rules=(rule,)).kept())


def together(work: Callable[[int], _T]) -> list[_T]:
    """What each of the threads returned, which begin at one moment."""
    begin = threading.Barrier(THREADS)

    def run(number: int) -> _T:
        begin.wait()
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


@contextmanager
def told(done: threading.Event) -> Iterator[None]:
    """The others go on until this is over, however it ends."""
    try:
        yield
    finally:
        done.set()


def test_one_token_after_the_other(node: QuotaNode, ledger: Ledger) -> None:
    limiter = node.limiter("api", "search", "globetrek")
    taken = together(lambda _: sum(limiter.allow() for _ in range(10_000)))
    node.stop()
    assert ledger.sold == sum(taken) > 0


def test_in_every_way_with_what_goes_back(node: QuotaNode, ledger: Ledger) -> None:
    limiter = node.limiter("api", "search", "globetrek")

    def spend(number: int) -> int:
        rng = random.Random(number)
        spent = 0
        for _ in range(1_500):
            n = rng.choice((1, 1, 2, 3, 7))
            way = rng.randrange(5)
            if way == 0:
                got = limiter.take_some(n)
            elif way == 1:
                got = n * limiter.reserve(n, 0).ok
            elif way == 2:
                got = n * limiter.wait(n, timeout=0)
            else:
                got = n * limiter.allow(n)
            back = rng.randint(0, got)
            if back:
                limiter.refund(back)
            spent += got - back
            limiter.glance()
        return spent

    spent = together(spend)
    node.stop()
    assert ledger.sold == sum(spent) > 0


def test_while_the_limit_changes(node: QuotaNode, ledger: Ledger) -> None:
    limiter = node.limiter("api", "search", "globetrek")
    adopted: list[float] = []

    def spend(number: int) -> int:
        if number:
            return sum(limiter.allow() for _ in range(5_000))
        for version in range(2, 100):
            terms = Book(version=version, rules=(_rule(version),)).resolve(limiter.name, 0)
            limiter.adopt(terms)
            adopted.append(terms.limit)
        return 0

    spent = together(spend)
    node.stop()
    assert len(set(adopted)) > 1
    assert ledger.sold == sum(spent) > 0


def _rule(version: int) -> Rule:
    return Rule(id="all", limit=40_000 + version, burst=5_000, on_loss=OnLoss.CLOSED)


def test_closed_in_the_middle(node: QuotaNode, ledger: Ledger) -> None:
    limiter = node.limiter("api", "search", "globetrek")

    def spend(number: int) -> int:
        spent = 0
        try:
            while spent < 500:
                spent += limiter.allow()
            if number == 0:
                limiter.close()
            while True:
                spent += limiter.allow()
        except Closed:
            return spent

    spent = together(spend)
    node.stop()
    assert ledger.sold == sum(spent)


def test_loops_of_which_some_give_up(node: QuotaNode, ledger: Ledger) -> None:
    """Who is cancelled has spent what it was told that it has, and no more."""
    limiter = node.limiter("api", "search", "globetrek")

    async def ask(rng: random.Random) -> int:
        waiting = [asyncio.create_task(limiter.wait_async(1 + number % 3, timeout=30)) for number in range(60)]
        await asyncio.sleep(0)
        for task in rng.sample(waiting, 20):
            task.cancel()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        return sum(1 + number % 3 for number, answer in enumerate(answers) if answer is True)

    def spend(number: int) -> int:
        rng = random.Random(number)
        return sum(asyncio.run(ask(rng)) for _ in range(4))

    spent = together(spend)
    node.stop()
    assert ledger.sold == sum(spent) > 0


def test_one_limiter_of_a_name(node: QuotaNode) -> None:
    for tenant in range(200):
        found = together(lambda _, tenant=tenant: node.limiter("api", "search", str(tenant)))
        assert len(set(map(id, found))) == 1


def test_each_number_once(node: QuotaNode) -> None:
    numbers = together(lambda _: [node.number() for _ in range(5_000)])
    assert len({number for each in numbers for number in each}) == THREADS * 5_000


def test_a_promise_is_taken_back_once_and_before_anybody_is_told_so() -> None:
    cluster = Cluster(1, [Rule(id="all", limit=10, burst=5)])
    cluster.run(1, 20)
    limiter = cluster.nodes[0].limiter("api", "search", "t")
    promises = [made for _ in range(8_000) if (made := limiter.reserve()).delay_s > 0]
    owed = limiter._line.owed
    cancelled = promises[::2]

    def cancel(_: int) -> None:
        for at, promise in enumerate(cancelled, 1):
            promise.cancel()
            assert limiter._line.owed <= owed - at

    together(cancel)
    assert limiter._line.owed == owed - len(cancelled)


def test_what_is_prepaid_is_looked_at_while_it_changes() -> None:
    """With each request the headers of its answer tell what is left, and nobody waits for it."""
    purse, lock = Purse(), threading.Lock()
    done = threading.Event()

    def work(number: int) -> int:
        looks = 0
        if number >= 2:
            while not done.is_set():
                assert purse.left() >= 0
                looks += 1
            return looks
        with told(done):
            for at in range(20_000):
                with lock:
                    purse.put(Lot(f"{number}-{at}", 4, 1e9, 4))
                    assert purse.take(4, 0.0)
        return 0

    assert sum(together(work)) > 0
    assert purse.left() == 0


class _Fading(DistributedLimiter):
    """Another thread goes over to other rules whenever its last answer has been read."""

    @property
    def _last(self) -> Alloc | None:
        found, self._kept = self._kept, None
        return found

    @_last.setter
    def _last(self, answer: Alloc | None) -> None:
        self._kept = self.answer = answer


def test_a_look_bears_rules_that_change_meanwhile(node: QuotaNode) -> None:
    made = node.limiter("api", "search", "globetrek")
    limiter = _Fading(made.name, made.terms, node, SystemClock())
    assert limiter.allow()
    limiter._last = limiter.answer
    assert limiter._kept is not None
    assert limiter.glance()[0] > 0


def test_a_stash_gives_what_it_has() -> None:
    for _ in range(20):
        kept = Stash.of(20_000)
        taken = together(lambda number, kept=kept: sum(iter(lambda: Stash.take(kept, 1 + number % 3), 0)))
        assert sum(taken) == 20_000


def test_a_local_limiter_in_every_way() -> None:
    limiter = LocalLimiter(1e-6, 5_000, clock=ManualClock())

    def spend(number: int) -> int:
        rng = random.Random(number)
        spent = 0
        for _ in range(2_000):
            n = rng.choice((1, 1, 2, 3, 7))
            if rng.randrange(3):
                spent += n * limiter.allow(n)
            elif limiter.reserve(n, 0).ok:
                limiter.refund(n)
        return spent

    assert sum(together(spend)) == 5_000 - limiter.tokens()


def test_a_local_reservation_is_given_back_once() -> None:
    limiter = LocalLimiter(1.0, 2_000.0, clock=ManualClock())
    assert limiter.allow(2_000)
    reservations = [limiter.reserve(1) for _ in range(2_000)]
    # Others have been promised what comes after the last: it alone brings back a whole token, so all go from the end.
    together(lambda _: [each.cancel() for each in reversed(reservations)])
    assert limiter.tokens() == 0


def test_uses_are_counted_once() -> None:
    uses, drained = Uses(), []

    def count(number: int) -> None:
        for turn in range(4_000):
            uses.admitted(("api", "search", str(turn % 3)), 1)
            if number == 0 and turn % 50 == 0:
                drained.append(uses.drain())

    together(count)
    drained.append(uses.drain())
    assert sum(used.admitted for each in drained for used in each.values()) == THREADS * 4_000


class _Full:
    """Has no seat for anybody."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def take(self, bucket: str, seat: str, limit: int) -> bool:
        self.asked.append(seat)
        return False

    def keep(self, seats: Mapping[str, Sequence[str]]) -> None:
        pass

    def leave(self, bucket: str, seat: str) -> None:
        pass


def test_seats_are_renewed_while_others_come_and_vanish() -> None:
    plane = _Full()
    keeper = SeatKeeper("n", plane)
    links = (SeatLink("all", "", 1),)
    done = threading.Event()

    def work(number: int) -> None:
        if number == 0:
            with told(done):
                for _ in range(60_000):
                    keeper.renew()
        while not done.is_set():
            assert not keeper.enter(links).ok

    together(work)
    assert len(plane.asked) == len(set(plane.asked)) > 0
