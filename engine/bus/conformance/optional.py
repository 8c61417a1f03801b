"""What a transport may offer beside the contract; who does not is asked nothing."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from engine.bus.conformance.base import NOT_DECLARED, TransportTests, Workbench, bury, numbered, settle
from engine.bus.conformance.idempotency import WINDOW_MS
from engine.bus.conformance.partitions import PARTITIONS, Partitions, park
from engine.bus.conformance.promises import keeps
from engine.bus.consumer_names import NamesConsumers
from engine.bus.errors import GroupLost
from engine.bus.many_groups import FindsDead, ask_stands, with_dead
from engine.bus.optional import Claiming, TellsStanding, WhereItIs
from engine.bus.partitions import Partitioned
from engine.bus.transport import Outcome, Outgoing, Priority, Status, Transport, Verdict
from engine.core.errors import BadInput


class ConsumerNameConformance(TransportTests):
    """Of :class:`~engine.bus.consumer_names.NamesConsumers`."""

    @pytest.fixture
    def names(self, bench: Workbench) -> NamesConsumers:
        if not isinstance(bench.admin, NamesConsumers):
            pytest.skip(f"{NOT_DECLARED}consumer names")
        return bench.admin

    def test_a_name_goes_when_nothing_is_pending_with_it(self, bench: Workbench, names: NamesConsumers) -> None:
        # Given two names, one of which has a message in hand
        bench.publish(*numbered(2))
        idle, busy = bench.receiver("idle"), bench.receiver("busy")
        settle(idle, [bench.take_one(idle)])
        held = bench.take_one(busy)
        assert [(each.name, each.pending) for each in names.consumer_names(bench.topic, bench.group)] == [
            ("busy", 1),
            ("idle", 0),
        ]

        # When names are forgotten, then the one that holds something stays until it is settled
        assert names.forget_consumers(bench.topic, bench.group, idle_ms=0) == ["idle"]
        assert settle(busy, [held]) == [True]
        assert names.forget_consumers(bench.topic, bench.group, idle_ms=0) == ["busy"]
        assert names.consumer_names(bench.topic, bench.group) == []

    def test_who_lives_after_all_loses_nothing(self, bench: Workbench, names: NamesConsumers) -> None:
        receiver = bench.receiver("alive")
        bench.publish(b"before")
        settle(receiver, [bench.take_one(receiver)])
        names.forget_consumers(bench.topic, bench.group, idle_ms=0)

        bench.publish(b"after")

        assert settle(receiver, [bench.take_one(receiver)]) == [True]

    def test_a_name_that_asked_lately_stays(self, bench: Workbench, names: NamesConsumers) -> None:
        receiver = bench.receiver("alive")
        bench.publish(b"x")
        settle(receiver, [bench.take_one(receiver)])

        assert names.forget_consumers(bench.topic, bench.group, idle_ms=3_600_000) == []


class ManyGroupsConformance(TransportTests):
    """Of :mod:`engine.bus.many_groups`: what is told of many at once is what is told of each."""

    def test_groups_with_dead_letters_are_found_among_others(self, bench: Workbench) -> None:
        bench.admin.create_group(bench.topic, "others")
        groups = [(bench.topic, bench.group), (bench.topic, "others"), (bench.make_topic(), "nobody")]
        bench.publish(b"poison")
        receiver = bench.receiver()
        bury(receiver, bench.take_one(receiver))

        exactly = isinstance(bench.admin, FindsDead)
        assert with_dead(bench.admin, groups) == (groups[:1] if exactly else groups)

        (letter,) = bench.admin.dead(bench.topic, bench.group)
        bench.admin.forget_dead(bench.topic, bench.group, [letter.entry])
        assert with_dead(bench.admin, groups) == ([] if exactly else groups)
        assert with_dead(bench.admin, []) == []

    def test_where_many_stand_is_where_each_stands_and_one_that_is_not_there_is_told(self, bench: Workbench) -> None:
        bench.admin.create_group(bench.topic, "others")
        bench.publish(*numbered(3))
        receiver = bench.receiver()
        settle(receiver, [bench.take_one(receiver)])
        bench.take_one(receiver)
        bench.admin.pause(bench.topic, "others")
        groups = [
            (bench.topic, bench.group),
            (bench.topic, "others"),
            (bench.topic, "nobody"),
            (bench.make_topic(), "x"),
        ]
        time.sleep(bench.heard_s)

        tell = ask_stands(bench.admin, groups)

        for name in groups[:2]:
            assert tell(name).lag == bench.admin.lag(*name)
            assert tell(name).checkpoint == bench.admin.checkpoint(*name)
        assert tell(groups[1]).lag.paused
        for name in groups[2:]:
            with pytest.raises(GroupLost):
                tell(name)


class StandingConformance(TransportTests):
    """Of :class:`~engine.bus.optional.TellsStanding`."""

    @pytest.fixture
    def tells(self, bench: Workbench) -> TellsStanding:
        if not isinstance(bench.admin, TellsStanding):
            pytest.skip(f"{NOT_DECLARED}standings")
        return bench.admin

    def test_each_message_is_open_until_its_group_is_done_with_it(self, bench: Workbench, tells: TellsStanding) -> None:
        positions = [outcome.position for outcome in bench.publish(*numbered(4))]
        receiver = bench.receiver()
        first, second, third = bench.take(receiver, 3)

        def standing() -> str:
            told = tells.standings(bench.topic, bench.group, positions)
            return "".join("." if each is WhereItIs.DONE else "o" for each in told)

        assert standing() == "oooo"
        settle(receiver, [second])
        assert standing() == "o.oo"
        bury(receiver, first)
        assert standing() == "..oo"
        settle(receiver, [third], Verdict.RELEASE)
        assert standing() == "..oo"
        settle(receiver, bench.take(receiver, 2))
        assert standing() == "...."
        bench.admin.trim(bench.topic, older_than_ms=None, keep_at_most=0)
        assert standing() == "...."

    def test_in_every_partition_too(self, bench: Workbench, tells: TellsStanding, transport: Transport) -> None:
        if not isinstance(transport, Partitioned):
            pytest.skip(f"{NOT_DECLARED}partitions")
        parts = Partitions(bench, transport)
        reader = parts.consumer("one")
        reader.turn(sit=True)
        positions = [each for partition in range(PARTITIONS) for each in parts.publish(b"a", b"b", partition=partition)]

        def done() -> list[str]:
            told = tells.standings(parts.topic, parts.group, positions)
            return [at for at, each in zip(positions, told, strict=True) if each is WhereItIs.DONE]

        assert done() == []
        taken = reader.receive(100, 1)
        assert len(taken) == len(positions)
        # What is in somebody's hand is open as well.
        assert done() == []
        first = [delivery for delivery in taken if delivery.body == b"a"]
        assert all(settle(reader, first))
        assert done() == positions[::2]
        rest = [delivery for delivery in taken if delivery.body == b"b"]
        assert all(park(reader, delivery, f"k{delivery.partition}", b"{}") for delivery in rest)
        assert done() == positions[::2]
        parts.close()

    def test_a_group_that_is_not_there_is_told_and_so_is_what_is_no_position(
        self, bench: Workbench, tells: TellsStanding
    ) -> None:
        (outcome,) = bench.publish(b"x")
        with pytest.raises(GroupLost):
            tells.standings(bench.topic, "nobody", [outcome.position])
        with pytest.raises(BadInput):
            tells.standings(bench.topic, bench.group, ["nowhere"])
        assert tells.standings(bench.topic, bench.group, []) == []


@keeps("K26")
class ClaimingConformance(TransportTests):
    """Of :class:`~engine.bus.transport.Claiming`: keys of messages that wait elsewhere."""

    @pytest.fixture
    def claim(self, bench: Workbench) -> Callable[..., Outcome]:
        transport = bench.transport
        if not isinstance(transport, Claiming):
            pytest.skip(f"{NOT_DECLARED}claims")

        def claim(message_id: str, *, due_ms: int = 0, digest: str = "d") -> Outcome:
            due_ms = due_ms or bench.clock.now_ms() + 60_000
            (outcome,) = transport.claim(
                bench.topic, [Outgoing(message_id, b"", Priority.NORMAL, "key", digest, WINDOW_MS, due_ms=due_ms)]
            )
            return outcome

        return claim

    def publish(self, bench: Workbench, message_id: str, *, digest: str = "d") -> Outcome:
        message = Outgoing(
            message_id, b"x", idempotency_key="key", idempotency_digest=digest, idempotency_window_ms=WINDOW_MS
        )
        return bench.transport.publish(bench.topic, [message])[0]

    def test_a_claimed_key_stands_for_the_message_that_waits(
        self, bench: Workbench, claim: Callable[..., Outcome]
    ) -> None:
        due_ms = bench.clock.now_ms() + 60_000
        assert claim("first", due_ms=due_ms).status is Status.OK
        assert claim("first", due_ms=due_ms).status is Status.OK

        held = self.publish(bench, "second")

        assert (held.status, held.message_id, held.due_ms) == (Status.HELD, "first", due_ms)
        assert (claim("third").status, claim("third").message_id) == (Status.HELD, "first")
        assert self.publish(bench, "second", digest="other").status is Status.CONFLICT
        assert bench.receiver().receive(1, 0) == []

    def test_the_claim_gives_way_to_its_own_message(self, bench: Workbench, claim: Callable[..., Outcome]) -> None:
        claim("first")

        assert self.publish(bench, "first").status is Status.OK
        again = self.publish(bench, "second")

        assert (again.status, again.message_id) == (Status.DUPLICATE, "first")
        assert len(bench.drain(bench.receiver())) == 1

    def test_what_is_stored_cannot_be_claimed(self, bench: Workbench, claim: Callable[..., Outcome]) -> None:
        self.publish(bench, "first")

        assert (claim("second").status, claim("second").message_id) == (Status.DUPLICATE, "first")
        assert claim("second", digest="other").status is Status.CONFLICT
