"""nsqd forgets what it has in memory, and so does who held it: it comes from its copy, once, or is told as gone."""

from __future__ import annotations

import struct
from collections import Counter

import pytest

from engine.bus.chunking import CHUNK_MESSAGES
from engine.bus.transport import Outgoing, Receiver, Status, Verdict
from engine.bus.transports.nsq import sweeping
from engine.bus.transports.nsq.copies import Keep, packed, unpacked
from engine.bus.transports.nsq.names import GroupNames, copy_id, published_ms
from engine.bus.transports.nsq.sweeping import Sweeper
from engine.core.errors import ConfigurationError
from hbus_console.supervisor.standalone_nsqd import StandaloneNsqd
from tests.engine.bus.transports.nsq.conftest import GROUP, TOPIC, Bench, eventually, noted, settle, take
from tests.engine.bus.transports.nsq.raw import channel, post


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies are gone over at once, and nothing that is late is waited for."""
    for name in ("YOUNG_MS", "LATE_MS"):
        monkeypatch.setattr(sweeping, name, 0)
    monkeypatch.setattr(sweeping, "IDLE_S", 0.02)


def test_what_nsqd_and_its_holder_lose_together_comes_from_its_copy(own_bench: Bench, own_nsqd: StandaloneNsqd) -> None:
    everything = _bodies(60)
    # Given some in the hands of a consumer, and more that it has read ahead of that
    own_bench.publish(*everything)
    holder = own_bench.receiver("holder", lease_ms=2_000)
    take(holder, 40)
    holder._inflow.want(20)  # type: ignore[attr-defined]
    eventually(lambda: channel(own_nsqd.url, own_bench.nsq_topic, GROUP)["in_flight_count"] == 60)
    eventually(lambda: noted(own_nsqd))

    # When both are gone at one moment, as if the consumer had never had time to keep anything
    _forget(holder)
    own_nsqd.kill()
    own_nsqd.start()

    # Then another has all of it, and sees which of it had been tried
    heir = own_bench.receiver("heir")
    found: Counter[bytes] = Counter()
    attempts: Counter[int] = Counter()

    def all_found() -> bool:
        batch = heir.receive(60, 0.2)
        found.update(each.body for each in batch)
        attempts.update(each.attempt for each in batch)
        settle(heir, batch)
        return len(found) == 60

    eventually(all_found)
    assert found == Counter(everything)
    assert attempts == {1: 20, 2: 40}
    eventually(lambda: own_bench.admin.lag(TOPIC, GROUP).unsettled == 0)
    assert own_bench.admin.counts(TOPIC, GROUP)["recovered"] == 20
    _expect_nothing_left(own_bench, heir)


def test_without_copies_they_are_told_as_vanished_and_the_lag_is_none(
    without_copies: Bench, own_nsqd: StandaloneNsqd
) -> None:
    bench = without_copies
    bench.publish(*_bodies(5))
    holder = bench.receiver("holder")
    held = take(holder, 5)
    eventually(lambda: noted(own_nsqd))
    _forget(holder)
    own_nsqd.kill()
    own_nsqd.start()
    assert bench.admin.lag(TOPIC, GROUP).unsettled

    heir = bench.receiver("heir")
    told: list[str] = []

    def all_told() -> bool:
        assert heir.receive(5, 0.1) == []
        told.extend(heir.take_vanished())  # type: ignore[attr-defined]
        return len(told) == 5

    eventually(all_told)
    assert sorted(told) == sorted(each.position for each in held)
    assert bench.admin.counts(TOPIC, GROUP)["vanished"] == 5
    lag = bench.admin.lag(TOPIC, GROUP)
    assert (lag.unsettled, lag.retrying) == (0, 0)
    assert heir.take_vanished() == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("keep", ["never", "from_publish"])
def test_vanished_ones_are_told_though_nsqd_is_never_without_messages(
    redis_url: str, own_nsqd: StandaloneNsqd, prefix: str, keep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("BEHIND_MS", "TAKEN_MS"):
        monkeypatch.setattr(sweeping, name, 0)
    bench = Bench(redis_url, own_nsqd.url, prefix, keep=keep)
    try:
        # Given messages of another program in the hands of a consumer, which dies together with nsqd
        for body in _bodies(5):
            post(f"{own_nsqd.url}/pub?topic={bench.nsq_topic}", body)
        holder = bench.receiver("holder")
        held = take(holder, 5)
        eventually(lambda: noted(own_nsqd))
        _forget(holder)
        own_nsqd.kill()
        own_nsqd.start()

        # When others keep coming, and some of them are always in hand
        heir = bench.receiver("heir", lease_ms=60_000)
        told: list[str] = []

        def all_told() -> bool:
            bench.publish(b"more")
            take(heir, 1)
            told.extend(heir.take_vanished())  # type: ignore[attr-defined]
            return len(told) == 5

        eventually(all_told)

        # Then they are off the lag, and nothing else is
        assert sorted(told) == sorted(each.position for each in held)
        lag = bench.admin.lag(TOPIC, GROUP)
        assert (lag.retrying, lag.waiting) == (0, 0)
        assert bench.admin.counts(TOPIC, GROUP)["vanished"] == 5
    finally:
        bench.close()


def test_what_is_lost_is_handed_out_while_later_ones_wait_in_nsqd(
    bench: Bench, nsqd_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping, "APART_MS", 0)
    bench.publish(b"lost")
    eventually(lambda: channel(nsqd_url, bench.nsq_topic, GROUP)["depth"] == 1)
    post(f"{nsqd_url}/channel/empty?topic={bench.nsq_topic}&channel={GROUP}")
    for body in (b"first", b"second"):
        bench.publish(body)
    receiver = bench.receiver(lease_ms=30_000)
    receiver._sweeper._next = float("inf")  # type: ignore[attr-defined]
    (first,) = take(receiver, 1)
    assert first.body == b"first"

    _sweeper(bench).turn(receiver._inflow.newest)  # type: ignore[attr-defined]

    assert bench.admin.counts(TOPIC, GROUP)["recovered"] == 1
    assert [each.body for each in take(receiver, 2)] == [b"lost", b"second"]


def test_copies_are_handed_out_by_ids_of_their_own() -> None:
    """nsqd's ids count in units a little longer than a millisecond."""
    copies = [f"{1_790_000_000_000 + late}-{number}" for late in range(30) for number in range(2)]
    ids = [copy_id(copy, index) for copy in copies for index in range(CHUNK_MESSAGES)]
    assert len({*ids}) == len(ids)
    assert all(abs(published_ms(copy_id(copy, 0)) - int(copy.partition("-")[0])) <= 2 for copy in copies)


def test_what_was_held_for_lost_and_comes_from_nsqd_after_all_is_handed_out_once(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = _bodies(30)
    bench.publish(*everything)
    monkeypatch.setattr(Sweeper, "_passed_ms", lambda *_: sweeping.NEVER_MS)
    # Nothing has come from nsqd yet when the copies are gone over
    _sweeper(bench).turn({})
    assert bench.admin.counts(TOPIC, GROUP)["recovered"] == 30

    receiver = bench.receiver()
    found: Counter[bytes] = Counter()

    def drained() -> bool:
        batch = receiver.receive(20, 0.1)
        found.update(each.body for each in batch)
        assert all(settle(receiver, batch))
        return not batch and bench.admin.lag(TOPIC, GROUP).unsettled == 0

    eventually(drained)
    assert found == Counter(everything)

    # And the same bytes, published again, are a message of their own
    bench.publish(everything[0])
    assert [each.body for each in take(receiver, 1)] == everything[:1]


def test_equal_bodies_are_messages_of_their_own(bench: Bench) -> None:
    bench.publish(*[b"same"] * 10)
    receiver = bench.receiver()
    assert settle(receiver, take(receiver, 10)) == [True] * 10
    _expect_nothing_left(bench, receiver)
    assert bench.admin.counts(TOPIC, GROUP).get("recovered", 0) == 0


def test_what_is_settled_twice_at_once_lets_one_copy_go(bench: Bench) -> None:
    bench.publish(b"same", b"same")
    receiver = bench.receiver()
    one, _ = take(receiver, 2)
    assert settle(receiver, [one, one]) == [True, False]
    (noted,) = bench.transport._side_store.command("HVALS", _names(bench).settle[8])
    assert noted.startswith(b"1 ")


@pytest.mark.parametrize("verdict", [Verdict.ACK, Verdict.RETRY, Verdict.RELEASE, Verdict.DEAD])
def test_no_copy_is_left_of_what_was_settled(bench: Bench, verdict: Verdict) -> None:
    bench.publish(*_bodies(10))
    receiver = bench.receiver()
    settle(receiver, take(receiver, 10), verdict)
    _expect_nothing_left(bench, receiver)


def test_what_is_handled_for_long_keeps_no_copy_of_all_that_came_with_it(bench: Bench) -> None:
    bench.publish(*_bodies(10))
    receiver = bench.receiver(lease_ms=30_000)
    slow, *others = take(receiver, 10)
    settle(receiver, others)

    _expect_nothing_left(bench, receiver)

    lag = bench.admin.lag(TOPIC, GROUP)
    assert (lag.waiting, lag.in_flight, lag.retrying) == (0, 1, 0)
    assert settle(receiver, [slow]) == [True]
    assert bench.transport._side_store.command("EXISTS", *_names(bench).working) == 0


def test_what_lies_beside_and_whose_lease_ran_out_is_not_handed_out_from_its_copy_too(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given that nobody goes over the copies yet
    monkeypatch.setattr(sweeping, "YOUNG_MS", 60_000)
    bench.publish(b"held")
    (held,) = take(bench.receiver("one"), 1)
    assert bench.transport._side_store.run("park", _names(bench).park, (held.position, "", held.body, "")) == 1

    # When another has it after the first, from beside nsqd
    two = bench.receiver("two")
    again = take(two, 1)
    assert (again[0].position, again[0].attempt) == (held.position, 2)
    assert settle(two, again) == [True]
    monkeypatch.setattr(sweeping, "YOUNG_MS", 0)

    # Then the group is done with the copy
    _expect_nothing_left(bench, two)
    assert bench.admin.counts(TOPIC, GROUP).get("recovered", 0) == 0


def test_a_group_that_was_the_last_leaves_no_copy_to_the_next(bench: Bench) -> None:
    bench.publish(*_bodies(10))
    bench.admin.delete_group(TOPIC, GROUP)
    assert bench.transport._side_store.command("EXISTS", _names(bench).topic.copies) == 0


def test_retention_leaves_the_copies_of_what_nsqd_has_lost_and_takes_them_in_their_time(
    bench: Bench, nsqd_url: str
) -> None:
    bench.admin.delete_group(TOPIC, GROUP)
    bench.publish(b"unread")
    post(f"{nsqd_url}/topic/empty?topic={bench.nsq_topic}")
    eventually(lambda: bench.admin.depth(TOPIC).messages == 0)

    bench.admin.trim(TOPIC, older_than_ms=60_000, keep_at_most=None)
    bench.admin.create_group(TOPIC, GROUP)
    assert [each.body for each in take(bench.receiver(), 1)] == [b"unread"]

    bench.admin.delete_group(TOPIC, GROUP)
    bench.publish(b"unread")
    assert bench.admin.trim(TOPIC, older_than_ms=-2_000, keep_at_most=None).removed == 1
    assert bench.transport._side_store.command("EXISTS", _names(bench).topic.copies) == 0


def test_a_copy_stays_until_every_group_is_done(bench: Bench) -> None:
    bench.admin.create_group(TOPIC, "others")
    bench.publish(*_bodies(10))
    receiver = bench.receiver()
    settle(receiver, take(receiver, 10))
    names = _names(bench)
    eventually(lambda: receiver.receive(1, 0) == [] and _cursor(bench, GROUP) != "0-0")
    assert bench.transport._side_store.command("XLEN", names.topic.copies) == 1

    bench.admin.delete_group(TOPIC, "others")
    bench.publish(b"after")
    settle(receiver, take(receiver, 1))
    _expect_nothing_left(bench, receiver)


def test_a_backlog_is_not_held_for_lost(bench: Bench) -> None:
    bench.publish(*_bodies(50))
    receiver = bench.receiver()
    for _ in range(10):
        settle(receiver, take(receiver, 1))
    assert bench.admin.counts(TOPIC, GROUP).get("recovered", 0) == 0


def test_what_nsqd_refuses_leaves_no_copy(redis_url: str, nsqd_url: str, prefix: str) -> None:
    bench = Bench(redis_url, nsqd_url, prefix, max_bytes=str(8 * 1024 * 1024))
    try:
        (refused,) = bench.transport.publish(TOPIC, [Outgoing("id", b"x" * (6 * 1024 * 1024))])
        assert refused.status is Status.FAILED
        assert bench.transport._side_store.command("XLEN", _names(bench).topic.copies) == 0
    finally:
        bench.close()


def test_a_channel_that_was_emptied_by_hand_is_filled_from_the_copies(bench: Bench, nsqd_url: str) -> None:
    bench.publish(*_bodies(10))
    eventually(lambda: channel(nsqd_url, bench.nsq_topic, GROUP)["depth"] == 10)
    post(f"{nsqd_url}/channel/empty?topic={bench.nsq_topic}&channel={GROUP}")
    assert sorted(each.body for each in take(bench.receiver(), 10)) == sorted(_bodies(10))


def test_what_nsqd_has_lost_counts_as_lag_while_no_consumer_runs(bench: Bench, nsqd_url: str) -> None:
    bench.publish(*_bodies(10))
    eventually(lambda: channel(nsqd_url, bench.nsq_topic, GROUP)["depth"] == 10)
    post(f"{nsqd_url}/channel/empty?topic={bench.nsq_topic}&channel={GROUP}")
    assert bench.admin.lag(TOPIC, GROUP).waiting == 10


def test_a_group_moved_to_the_end_gets_nothing_from_before(bench: Bench) -> None:
    bench.publish(*_bodies(10))
    bench.admin.seek(TOPIC, GROUP, "end")
    bench.publish(b"after")
    receiver = bench.receiver()
    assert [each.body for each in take(receiver, 1)] == [b"after"]
    assert receiver.receive(10, 0.3) == []


def test_a_call_is_packed_and_unpacked() -> None:
    bodies = [b"a", b"", b"x" * 70_000]
    assert unpacked(packed(bodies)) == bodies


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"xyz",
        b"garbage",
        packed([b"a", b"b"])[:-1],
        packed([b"a"]) + b"more",
        struct.pack(">ii", 5_000_000, -4),
        struct.pack(">i", -1),
        struct.pack(">ii", 2**31 - 1, 2**31 - 1),
    ],
)
def test_what_nobody_here_has_packed_is_nothing(body: bytes) -> None:
    assert unpacked(body) == []


@pytest.mark.parametrize("many", [1, 3 * CHUNK_MESSAGES])
def test_what_stands_among_the_copies_and_is_none_stops_no_group(bench: Bench, nsqd_url: str, many: int) -> None:
    side_store, copies = bench.transport._side_store, _names(bench).topic.copies
    receiver = bench.receiver()
    for _ in range(many):
        side_store.command("XADD", copies, "*", "b", "garbage")
    bench.publish(*_bodies(10))
    side_store.command("XADD", copies, "*", "x", struct.pack(">ii", 5_000_000, -4))
    # Lost by nsqd, so that they come from behind it.
    eventually(lambda: channel(nsqd_url, bench.nsq_topic, GROUP)["depth"] == 10)
    post(f"{nsqd_url}/channel/empty?topic={bench.nsq_topic}&channel={GROUP}")
    found = take(receiver, 10)
    assert sorted(each.body for each in found) == sorted(_bodies(10))
    settle(receiver, found)
    _expect_nothing_left(bench, receiver)


def test_an_unknown_word_for_what_is_kept_is_refused() -> None:
    assert Keep.parse("") is Keep.FROM_PUBLISH
    with pytest.raises(ConfigurationError) as refused:
        Keep.parse("sometimes")
    assert refused.value.field == "NSQ_KEEP"


def _bodies(number: int) -> list[bytes]:
    return [b"m%d" % index for index in range(number)]


def _names(bench: Bench) -> GroupNames:
    return bench.transport._topic(TOPIC).group(GROUP)


def _sweeper(bench: Bench) -> Sweeper:
    return Sweeper(bench.transport._side_store, bench.transport._nodes, _names(bench))


def _cursor(bench: Bench, group: str) -> str:
    found = bench.transport._side_store.command("HGET", _names(bench).topic.cursors, group)
    return str(found.decode())


def _forget(receiver: Receiver) -> None:
    """As a kill would: what it had is gone."""
    inflow = receiver._inflow  # type: ignore[attr-defined]
    inflow.take(len(inflow))
    receiver._leases._leases.clear()  # type: ignore[attr-defined]
    receiver.close()


def _expect_nothing_left(bench: Bench, receiver: Receiver) -> None:
    """No copy, and no note about one."""
    names = _names(bench)

    def nothing() -> bool:
        assert receiver.receive(1, 0.01) == []
        side_store = bench.transport._side_store
        return not side_store.command("XLEN", names.topic.copies) and not side_store.command("EXISTS", names.settle[8])

    # What is retried comes again
    bench.admin.pause(TOPIC, GROUP)
    eventually(nothing)
    bench.admin.resume(TOPIC, GROUP)
