"""Seats: no more at work at once than the rules say, whoever dies, and as each rule says while the store is away."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

import pytest

from engine.core.clock import ManualClock
from engine.core.errors import BadInput, Unavailable
from engine.core.store import open_client
from engine.quota import Book, OnLoss, Period, Rule, Whose
from engine.quota.gate import QuotaGate
from engine.quota.node import QuotaNode
from engine.quota.planes.memory import MemoryControlPlane
from engine.quota.planes.seats import RedisSeatPlane
from engine.quota.seating import SeatRules
from engine.quota.seats import ASK_AGAIN_S, SEAT_S, Seated, SeatKeeper, SeatLink
from engine.quota.terms import Name
from engine.quota.uses import Used, Uses

BEGIN = 1_790_000_000.0


class _Time:
    def __init__(self) -> None:
        self.now = BEGIN

    def __call__(self) -> float:
        return self.now


class _Away:
    """A store that does not answer, once it is cut off."""

    def __init__(self, plane: RedisSeatPlane) -> None:
        self.plane, self.cut, self.asked = plane, False, 0

    def take(self, bucket: str, seat: str, limit: int) -> bool:
        self._ask()
        return self.plane.take(bucket, seat, limit)

    def keep(self, seats: Mapping[str, Sequence[str]]) -> None:
        self._ask()
        self.plane.keep(seats)

    def leave(self, bucket: str, seat: str) -> None:
        self._ask()
        self.plane.leave(bucket, seat)

    def _ask(self) -> None:
        self.asked += 1
        if self.cut:
            raise Unavailable("cut off")


def _link(limit: int = 3, **more: object) -> SeatLink:
    return SeatLink("uploads", "ada", limit, **more)  # type: ignore[arg-type]


@pytest.fixture
def plane(redis_url: str, prefix: str) -> RedisSeatPlane:
    return RedisSeatPlane(open_client(redis_url), prefix)


def test_two_nodes_share_the_seats_and_who_leaves_makes_room(plane: RedisSeatPlane) -> None:
    one, two = SeatKeeper("n 1", plane), SeatKeeper("n2", plane)
    first, second, third = one.enter([_link()]), two.enter([_link()]), two.enter([_link()])
    assert (first.ok, second.ok, third.ok) == (True, True, True)
    full = one.enter([_link()])
    assert (full.ok, full.refused) == (False, "uploads")
    assert plane.seen(_link()) == Counter({"n 1": 1, "n2": 2})
    first.leave()
    first.leave()
    assert one.enter([_link()]).ok
    assert not two.enter([_link()]).ok


def test_all_or_none_and_what_only_counts_refuses_nothing(plane: RedisSeatPlane) -> None:
    keeper = SeatKeeper("n1", plane)
    none = SeatLink("closed", "", 0)
    assert keeper.enter([_link(1), none]).refused == "closed"
    assert keeper.enter([_link(1)]).ok, "the seat that was taken first was left"
    shadow = keeper.enter([SeatLink("trial", "", 0, shadow=True)])
    assert (shadow.ok, shadow.shadowed) == (True, True)
    assert keeper.enter([]).ok


def test_a_seat_ends_unless_it_is_renewed(redis_url: str, prefix: str) -> None:
    now = _Time()
    plane = RedisSeatPlane(open_client(redis_url), prefix, now=now)
    one, two = SeatKeeper("n1", plane), SeatKeeper("n2", plane)
    sitting = one.enter([_link(1)])
    assert sitting.ok
    now.now += SEAT_S * 0.9
    one.renew()
    now.now += SEAT_S * 0.9
    assert not two.enter([_link(1)]).ok
    now.now += SEAT_S * 0.2
    assert two.enter([_link(1)]).ok, "whoever does not renew is taken for dead"


def test_who_leaves_while_seats_are_renewed_has_left(plane: RedisSeatPlane) -> None:
    sitting: list[Seated] = []

    class _Slow(_Away):
        def keep(self, seats: Mapping[str, Sequence[str]]) -> None:
            sitting.pop().leave()
            super().keep(seats)

    keeper = SeatKeeper("n1", _Slow(plane))
    sitting.append(keeper.enter([_link(1)]))
    keeper.renew()
    assert not plane.seen(_link(1))
    assert keeper.enter([_link(1)]).ok


def test_whoever_was_cancelled_and_could_not_leave_sits_no_more(plane: RedisSeatPlane) -> None:
    """Found by a stranger: who hung up before the answer kept the seat for as long as the process lived."""
    keeper = SeatKeeper("n1", plane)
    kept, lost = keeper.enter([_link(2)]), keeper.enter([_link(2)])
    assert kept.ok
    assert lost.ok
    del lost
    gc.collect()
    keeper.renew()
    assert keeper.held == Counter({_link(2).bucket: 1})
    assert plane.seen(_link(2)) == Counter({"n1": 1})


def test_a_store_that_forgot_is_told_who_sits(plane: RedisSeatPlane, redis_url: str, prefix: str) -> None:
    one, two = SeatKeeper("n1", plane), SeatKeeper("n2", plane)
    sitting = one.enter([_link(1)])
    assert sitting.ok
    client = open_client(redis_url)
    client.delete(*client.keys(f"{prefix}*"))
    one.renew()
    assert not two.enter([_link(1)]).ok


@pytest.mark.parametrize(("on_loss", "seated"), [(OnLoss.FALLBACK, 2), (OnLoss.OPEN, 5), (OnLoss.CLOSED, 0)])
def test_while_the_store_is_away_each_rule_goes_on_as_it_says(
    plane: RedisSeatPlane, on_loss: OnLoss, seated: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock, away = ManualClock(), _Away(plane)
    keeper = SeatKeeper("n1", away, clock=clock)
    link = _link(8, on_loss=on_loss, alone=2)
    away.cut = True
    assert sum(keeper.enter([link]).ok for _ in range(5)) == seated
    assert away.asked == 1, "nobody waits again for what has just not answered"
    clock.advance(ASK_AGAIN_S)
    keeper.enter([link]).leave()
    assert caplog.text.count("the store is away") == 1, "it is said once"
    away.cut = False
    clock.advance(ASK_AGAIN_S)
    assert keeper.enter([link]).ok


def test_who_sat_before_the_store_went_away_counts_and_leaves(plane: RedisSeatPlane) -> None:
    away = _Away(plane)
    keeper = SeatKeeper("n1", away, clock=ManualClock())
    before = keeper.enter([_link(8, alone=1)])
    away.cut = True
    with pytest.raises(Unavailable):
        keeper.renew()
    assert not keeper.enter([_link(8, alone=1)]).ok
    before.leave()
    assert keeper.enter([_link(8, alone=1)]).ok


def test_eight_threads_never_sit_on_more_than_there_are(plane: RedisSeatPlane) -> None:
    keepers = [SeatKeeper(f"n{number}", plane) for number in range(2)]
    lock, sitting, most, served = threading.Lock(), 0, 0, 0

    def work(number: int) -> None:
        nonlocal sitting, most, served
        for _ in range(50):
            seated = keepers[number % 2].enter([_link()])
            if not seated.ok:
                continue
            with lock:
                sitting += 1
                served += 1
                most = max(most, sitting)
            with lock:
                sitting -= 1
            seated.leave()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most <= 3
    assert served >= 50
    assert not plane.seen(_link())
    assert not keepers[0].held


_HOLDS = """
import sys, time
from engine.core.store import open_client
from engine.quota.planes.seats import RedisSeatPlane
from engine.quota.seats import SeatKeeper, SeatLink
keeper = SeatKeeper("n1", RedisSeatPlane(open_client(sys.argv[1]), sys.argv[2]))
print(keeper.enter([SeatLink("uploads", "ada", 1)]).ok, flush=True)
time.sleep(600)
"""


def test_the_seat_of_a_killed_process_is_free_again(redis_url: str, prefix: str) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", _HOLDS, redis_url, prefix], stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "True"
    client = open_client(redis_url)
    other = SeatKeeper("n1", RedisSeatPlane(client, prefix))
    assert not other.enter([_link(1)]).ok
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert not other.enter([_link(1)]).ok, "nobody knows yet that it is dead"
    later = SeatKeeper("n1", RedisSeatPlane(client, prefix, now=lambda: time.time() + SEAT_S))
    assert later.enter([_link(1)]).ok


def _rule(name: str, limit: float, **more: object) -> Rule:
    return Rule(id=name, limit=limit, burst=0, period=Period.AT_ONCE, **more)  # type: ignore[arg-type]


def test_the_nearest_of_each_and_all_that_are_shared_hold() -> None:
    book = Book(
        version=1,
        rules=(
            _rule("wide", 5),
            _rule("ada", 2, tenant="ada", fallback=0.5),
            _rule("all/of them", 9, whose=Whose.TOGETHER, fallback=0.4),
            _rule("trial", 1, shadow=True),
            Rule(id="rate", limit=10, burst=10),
        ),
    )
    rules = SeatRules(lambda: book)
    links = rules.links("api", "uploads", "ada")
    assert [(link.rule, link.owner, link.limit, link.alone, link.shadow) for link in links] == [
        ("ada", "ada", 2, 1, False),
        ("all%2Fof them", "", 9, 3, False),
        ("trial", "ada", 1, 1, True),
    ]
    assert rules.links("api", "uploads", "bob")[0].rule == "wide"
    chain = book.resolve(Name("api", "uploads", "ada"), 0).chain
    assert [link.rule for link in chain] == ["rate"], "seats are no tokens"
    assert list(book.kept()[1]) == ["rate"]
    with pytest.raises(BadInput):
        rules.links("api", "\n", "ada")


def test_another_book_holds_as_soon_as_it_is_there() -> None:
    books: list[Book | None] = [None]
    rules = SeatRules(lambda: books[0])
    assert rules.links("api", "uploads", "ada") == ()
    books[0] = Book(version=1, rules=(_rule("wide", 5),))
    assert [link.limit for link in rules.links("api", "uploads", "ada")] == [5]
    books[0] = Book(version=2, rules=(_rule("wide", 6),))
    assert [link.limit for link in rules.links("api", "uploads", "ada")] == [6]
    books[0] = Book(version=3, rules=(Rule(id="rate", limit=1, burst=1),))
    assert rules.links("api", "uploads", "ada") == ()


def test_the_gate_counts_who_found_no_seat(plane: RedisSeatPlane) -> None:
    book = Book(version=1, rules=(_rule("wide", 1), _rule("trial", 0, shadow=True)))
    uses = Uses()
    node = QuotaNode("n1", MemoryControlPlane(), book=book)
    gate = QuotaGate(node, uses, seats=(SeatKeeper("n1", plane), SeatRules(lambda: node.book)))
    first = gate.enter("api", "uploads", "ada")
    assert first.ok
    assert not gate.enter("api", "uploads", "ada").ok
    assert uses.drain() == {("api", "uploads", "ada"): Used(0, 0, 1, 1)}
    first.leave()
    assert gate.enter("api", "uploads", "ada").ok
    assert QuotaGate(node, uses).enter("api", "uploads", "ada").ok
