"""Lanes by themselves: what goes back to the store, and what must follow it there."""

from __future__ import annotations

import threading

import pytest

from engine.bus.consuming import lanes
from engine.bus.consuming.dispatch import InFlight, Lane
from engine.bus.consuming.lanes import BLOCKED_MOST, LANE_AHEAD, KeyedDispatcher
from engine.bus.message import Message, encode
from engine.bus.transport import Delivery
from engine.core.clock import ManualClock
from tests.engine.bus.kit import GROUP, PATIENCE_S


class Lanes:
    """Lanes, and what they have sent back."""

    def __init__(self) -> None:
        self.aside: list[InFlight] = []
        self.parked: set[Lane] = set()
        self.lanes = KeyedDispatcher(ManualClock(), group=GROUP, is_parked=lambda *lane: lane in self.parked)

    def make(self, n: int, key: str = "a", partition: int = 0, target: str = "") -> InFlight:
        body = encode(Message(id=str(n), source="/test", type="t", partitionkey=key, hbustarget=target))
        return InFlight(Delivery(f"r{n}", str(n), body, 1, partition=partition), 0.0, 1, ())

    def offer(self, *numbers: int, key: str = "a", partition: int = 0) -> list[InFlight]:
        batch = [self.make(n, key, partition) for n in numbers]
        self.aside += self.lanes.offer(batch)
        return batch

    def read(self, *numbers: int, key: str = "a", partition: int = 0) -> list[InFlight]:
        """One that begins now."""
        assert self.lanes.begin_read(0.0)
        return self.offer(*numbers, key=key, partition=partition)


@pytest.fixture
def bench() -> Lanes:
    return Lanes()


def test_one_of_a_key_at_a_time(bench: Lanes) -> None:
    one, two = bench.offer(1, 2)
    assert (bench.lanes.ready(), bench.lanes.blocked()) == (1, 1)
    assert bench.lanes.take() is one
    bench.lanes.done(one)
    assert bench.lanes.take() is two


def test_a_copy_for_another_subscription_waits_for_nobody_and_is_set_aside_with_nobody(bench: Lanes) -> None:
    (head,) = bench.offer(1)
    other, mine = bench.make(2, target="billing"), bench.make(3, target=GROUP)
    assert not bench.lanes.offer([other, mine])
    assert (bench.lanes.take(), bench.lanes.take(), bench.lanes.blocked()) == (head, other, 1)
    bench.parked.add((0, "b"))
    other, mine = bench.make(4, "b", target="billing"), bench.make(5, "b", target=GROUP)
    assert bench.lanes.offer([other, mine]) == [mine]


def test_a_lane_runs_so_far_ahead_of_the_store_and_no_further(bench: Lanes) -> None:
    hurried: list[bool] = []
    bench.lanes.hurry = lambda: hurried.append(True)
    mine = bench.offer(*range(LANE_AHEAD + 3))
    (other,) = bench.offer(99, key="b")
    for held in mine[:LANE_AHEAD]:
        taken = bench.lanes.take()
        if taken is other:
            taken = bench.lanes.take()
        assert taken is held
        bench.lanes.done(held)
    # It stands; nobody else does, and the store is asked at once.
    assert (bench.lanes.ready(), bench.lanes.blocked(), hurried) == (0, 3, [True])
    bench.lanes.answered(*mine[:2])
    for held in mine[LANE_AHEAD : LANE_AHEAD + 2]:
        assert bench.lanes.take() is held
        bench.lanes.done(held)
    assert (bench.lanes.ready(), bench.lanes.blocked()) == (0, 1)
    # What stands was not begun, and can be taken back. What comes later of the key stands, too.
    assert bench.lanes.withdraw() == mine[-1:]
    bench.lanes.answered(mine[-1])
    (late,) = bench.read(100)
    assert bench.lanes.ready() == 0
    bench.lanes.answered(mine[2])
    assert bench.lanes.take() is late


def test_an_answer_that_comes_before_the_worker_is_done_counts(bench: Lanes) -> None:
    for number in range(2 * LANE_AHEAD):
        (held,) = bench.offer(number)
        assert bench.lanes.take() is held
        bench.lanes.answered(held)
        bench.lanes.done(held)
    assert bench.lanes.blocked() == 0


def test_what_comes_of_a_key_that_goes_back_follows_it_until_the_store_has_answered(bench: Lanes) -> None:
    first = bench.offer(1, 2)
    head = bench.lanes.take()
    assert bench.lanes.withdraw() == first[1:]
    assert head is first[0]
    bench.lanes.done(first[0])
    (three,) = bench.offer(3)
    assert bench.aside == [three]
    bench.lanes.answered(first[1])
    (four,) = bench.offer(4)
    assert bench.aside == [three, four]
    for held in (three, four):
        bench.lanes.answered(held)
    # Asked twice, it still counts once.
    bench.lanes.answered(four)
    (again,) = bench.read(2)
    assert bench.lanes.take() is again


@pytest.mark.parametrize("goes_back", ["let go", "parked", "withdrawn", "refused"])
def test_what_goes_back_while_a_read_is_under_way_is_not_overtaken_by_what_that_read_brings(
    bench: Lanes, goes_back: str
) -> None:
    """Found by a stranger: the store had it back and said so before the newer ones were offered, and they ran first."""
    if goes_back == "refused":
        back = list(bench.lanes.refuse([bench.make(1)]))
    else:
        back = bench.read(1, 2)
        if goes_back == "withdrawn":
            assert bench.lanes.withdraw() == back
        else:
            assert bench.lanes.park(bench.lanes.take() or back[1]) == back[1:]
    bench.lanes.answered(*back)
    newer = bench.offer(3, 4)
    (other,) = bench.offer(5, key="b")
    assert bench.aside == newer
    assert bench.lanes.take() is other
    bench.lanes.answered(*newer)
    again = bench.read(1, 2, 3, 4)
    assert bench.lanes.take() is again[0]
    assert bench.aside == newer


def test_no_read_begins_before_what_goes_back_is_there(bench: Lanes) -> None:
    """It would bring what has to go back, again and again: as soon as the store has some of it, it hands it out."""
    hurried: list[bool] = []
    bench.lanes.hurry = lambda: hurried.append(True)
    back = bench.read(1, 2)
    assert hurried == []
    bench.lanes.withdraw()
    assert not bench.lanes.begin_read(0.0)
    bench.lanes.answered(back[0])
    assert not bench.lanes.begin_read(0.0)
    assert hurried == [True, True]
    answering = threading.Thread(target=bench.lanes.answered, args=back[1:])
    answering.start()
    assert bench.lanes.begin_read(PATIENCE_S)
    answering.join(PATIENCE_S)


def test_what_goes_back_to_a_parked_key_holds_up_no_read_and_counts_should_the_key_go_on(bench: Lanes) -> None:
    bench.parked.add((0, "a"))
    late, later = bench.read(1, 2)
    assert bench.lanes.begin_read(0.0)
    # The read has found that an operator let it go on, before what goes back was there.
    bench.parked.clear()
    bench.lanes.answered(late)
    assert not bench.lanes.begin_read(0.0)
    bench.lanes.answered(later)
    (newer,) = bench.offer(3)
    assert bench.aside == [late, later, newer]


def test_a_parked_key_is_set_aside_whole_and_others_are_not(bench: Lanes) -> None:
    head, follower = bench.offer(1, 2)
    bench.lanes.take()
    bench.aside += bench.lanes.park(head)
    assert bench.aside == [follower]
    bench.parked.add((0, "a"))
    for held in (head, follower):
        bench.lanes.answered(held)
    (later,) = bench.offer(3)
    (other,) = bench.offer(4, key="b")
    assert bench.aside == [follower, later]
    assert bench.lanes.take() is other


def test_a_key_in_two_partitions_has_two_orders(bench: Lanes) -> None:
    """A foreign writer has put it into one that is not its own; its owner may be another, and it is parked alone."""
    head, follower = bench.offer(1, 2, partition=4)
    elsewhere = bench.offer(3, 4, partition=7)
    assert [bench.lanes.take(), bench.lanes.take()] == [head, elsewhere[0]]
    assert bench.lanes.park(head) == [follower]
    bench.parked.add((4, "a"))
    bench.lanes.done(elsewhere[0])
    assert bench.lanes.take() is elsewhere[1]
    (later,) = bench.offer(5, partition=7)
    assert bench.aside == []
    assert bench.lanes.withdraw({4}) == []
    assert bench.lanes.withdraw({7}) == [later]


def test_only_the_partitions_asked_for_are_withdrawn(bench: Lanes) -> None:
    leaving = bench.offer(1, 2, key="a", partition=1)
    (staying,) = bench.offer(3, key="b", partition=2)
    assert sorted(held.delivery.position for held in bench.lanes.withdraw({1})) == ["1", "2"]
    assert bench.lanes.take() is staying
    assert all(held.returning for held in leaving)


def test_a_late_withdrawal_lets_the_workers_end(bench: Lanes) -> None:
    bench.offer(1, partition=1)
    bench.lanes.close(2)
    bench.lanes.withdraw({1})
    assert [bench.lanes.take(), bench.lanes.take()] == [None, None]


def test_what_has_no_key_goes_back_to_the_store_for_its_next_attempt(bench: Lanes) -> None:
    """Found by a stranger: thousands of them were held here, and held up all keys."""
    (held,) = bench.offer(1, key="")
    assert bench.lanes.take() is held
    assert not bench.lanes.retry(held, 60.0)
    (keyed,) = bench.offer(2)
    assert bench.lanes.retry(keyed, 60.0)
    assert bench.lanes.blocked() == 1


def test_heads_that_wait_for_their_next_attempt_crowd_their_partition(bench: Lanes) -> None:
    """Each of a key of its own: no lane is longer than one."""
    for n in range(BLOCKED_MOST):
        (held,) = bench.offer(n, key=f"k{n}", partition=4)
        assert bench.lanes.crowded() == frozenset()
        assert bench.lanes.retry(held, 60.0)
    bench.offer(1, key="other", partition=5)
    assert bench.lanes.crowded() == {4}


def test_large_messages_behind_a_head_crowd_their_partition_by_their_bytes(
    bench: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Found by a stranger: 1,500 of 600 kB behind one head filled the memory of the process."""
    monkeypatch.setattr(lanes, "BLOCKED_BYTES", 10_000)
    size = len(bench.offer(0, key="b", partition=4)[0].delivery.body)
    head, *followers = bench.offer(*range(9_000 // size), partition=4)
    assert bench.lanes.crowded() == frozenset()
    more = bench.offer(*range(1_000, 1_000 + 10_000 // size), partition=4)
    assert bench.lanes.crowded() == {4}
    # What is done, parked or withdrawn weighs nothing any more.
    bench.lanes.done(head)
    assert bench.lanes.crowded() == {4}
    bench.lanes.park(followers[0])
    assert bench.lanes.crowded() == frozenset()
    for held in (*followers, *more):
        bench.lanes.answered(held)
    bench.read(*range(2_000, 2_001 + 20_000 // size), partition=4)
    assert bench.lanes.crowded() == {4}
    bench.lanes.withdraw()
    bench.offer(*range(3_000, 3_000 + 9_000 // size), key="c", partition=4)
    assert bench.lanes.crowded() == frozenset()


def test_large_heads_that_wait_for_their_next_attempt_crowd_it_by_their_bytes(
    bench: Lanes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lanes, "BLOCKED_BYTES", 10_000)
    weight = n = 0
    while weight < 10_000:
        assert bench.lanes.crowded() == frozenset()
        (held,) = bench.offer(n, key=f"k{n}", partition=4)
        assert bench.lanes.retry(held, 60.0)
        weight, n = weight + len(held.delivery.body), n + 1
    assert bench.lanes.crowded() == {4}


def test_what_has_not_begun_is_kept_also_without_a_key(bench: Lanes) -> None:
    """The store did not say whether its attempt is counted: given up, it would lose one that was never made."""
    (held,) = bench.offer(1, key="")
    assert bench.lanes.take() is held
    assert bench.lanes.keep(held, 0.5)
    assert bench.lanes.blocked() == 1
