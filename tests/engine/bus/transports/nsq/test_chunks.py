"""While nsqd takes one chunk the caller makes the next, and each outcome stays exact."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from engine.bus.transport import Outcome, Outgoing, Overlapping, Status
from hbus_console.supervisor.standalone_nsqd import StandaloneNsqd
from tests.engine.bus.transports.nsq.conftest import GROUP, PATIENCE_S, TOPIC, Bench, take


def _chunk(number: int, size: int = 3) -> list[Outgoing]:
    return [Outgoing(f"{number}-{place}", b"%d-%d" % (number, place)) for place in range(size)]


def _published_while_frozen(bench: Bench, server: StandaloneNsqd, then: Callable[[], None]) -> list[list[Outcome]]:
    """What comes of three chunks when nsqd stands still from before the first, and ``then`` at the sight of the second.

    Fails unless the second is asked for without an answer to the first.
    """
    assert isinstance(bench.transport, Overlapping)
    bench.publish(b"warm")
    asked = threading.Event()
    answered: list[list[Outcome]] = []

    def chunks() -> Iterator[list[Outgoing]]:
        yield _chunk(1)
        asked.set()
        yield _chunk(2)
        yield _chunk(3)

    server.freeze()
    publishing = threading.Thread(target=lambda: answered.extend(bench.transport.publish_chunks(TOPIC, chunks())))
    publishing.start()
    try:
        assert asked.wait(PATIENCE_S)
        assert answered == []
    finally:
        then()
        publishing.join(PATIENCE_S)
    assert not publishing.is_alive()
    return answered


def test_the_next_chunk_is_asked_for_while_nsqd_is_at_work_on_one(own_bench: Bench, own_nsqd: StandaloneNsqd) -> None:
    answered = _published_while_frozen(own_bench, own_nsqd, own_nsqd.thaw)
    assert [[each.message_id for each in outcomes] for outcomes in answered] == [
        [each.message_id for each in _chunk(number)] for number in (1, 2, 3)
    ]
    assert {each.status for outcomes in answered for each in outcomes} == {Status.OK}
    assert own_bench.admin.counts(TOPIC)["published"] == 10
    assert len(take(own_bench.receiver(), 10)) == 10


def test_after_a_chunk_whose_answer_is_lost_nothing_more_is_sent(own_bench: Bench, own_nsqd: StandaloneNsqd) -> None:
    answered = _published_while_frozen(own_bench, own_nsqd, own_nsqd.kill)
    assert [{each.status for each in outcomes} for outcomes in answered] == [
        {Status.UNKNOWN},
        {Status.FAILED},
        {Status.FAILED},
    ]
    assert "messages before it failed" in answered[2][0].error


def test_a_message_that_is_too_large_holds_up_no_chunk(bench: Bench) -> None:
    large = Outgoing("large", b"x" * (bench.transport.capabilities.max_bytes + 1))
    answered = list(bench.transport.publish_chunks(TOPIC, iter([[*_chunk(1), large], _chunk(2)])))
    assert [each.status for each in answered[0]] == [Status.OK] * 3 + [Status.FAILED]
    assert {each.status for each in answered[1]} == {Status.OK}
    assert bench.admin.counts(TOPIC)["published"] == 6


def test_what_nsqd_says_at_length_comes_whole(bench: Bench) -> None:
    """Beyond some kilobytes it does not say before how long it will be."""
    groups = {GROUP, *(f"group-{number}" for number in range(40))}
    for group in groups:
        bench.admin.create_group(TOPIC, group)
    (node,) = bench.transport._nodes.all()
    assert len((node.channels(bench.nsq_topic) or {}).keys() - {""}) == len(groups)
