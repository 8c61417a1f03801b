"""How much one batch takes: exactly so many messages, or so many seconds, over all logs, and in the end all of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.bus.transport import Priority
from engine.pipeline.source.admission import BatchLimit
from engine.pipeline.source.planning import plan
from engine.pipeline.source.reached import LogReached, end_of
from tests.engine.pipeline.conftest import Topic

Step = Callable[[BatchLimit], dict[str, LogReached]]


def steps(topic: Topic, step: Step) -> list[int]:
    """How many messages each batch has until nothing is left."""
    reached: dict[str, LogReached] = {}
    extents = topic.rereads.extents(topic.name)
    ends = {extent.log: end_of(extent) for extent in extents}
    counts: list[int] = []
    while reached != ends:
        admitted = step(BatchLimit(topic.rereads, topic.name, reached, ends))
        planned = plan(reached, extents, admitted)
        assert planned.losses == []
        assert planned.reached == admitted
        read = [
            topic.rereads.stretch(topic.name, portion.log, portion.after, upto=portion.upto, limit=10**6)
            for portion in planned.portions
        ]
        assert [len(each.bodies) for each in read] == [portion.messages for portion in planned.portions]
        counts.append(sum(len(each.bodies) for each in read))
        assert len(counts) < 1_000, "it stands still"
        reached = admitted
    return counts


@pytest.mark.parametrize("most", [1, 7, 100, 250, 10_000])
def test_batches_hold_exactly_as_many_as_were_asked_for(topic: Topic, most: int) -> None:
    topic.publish_many(0, 250)
    counts = steps(topic, lambda admission: admission.messages(most))
    assert sum(counts) == 250
    assert set(counts[:-1]) <= {most}
    assert counts[-1] <= most


@pytest.mark.parametrize("most", [3, 50, 90])
def test_what_one_log_does_not_need_goes_to_the_others(topic: Topic, most: int) -> None:
    topic.publish_many(0, 10, priority=Priority.HIGH)
    topic.publish_many(10, 200)
    topic.publish_many(210, 40, priority=Priority.LOW)

    counts = steps(topic, lambda admission: admission.messages(most))

    assert sum(counts) == 250
    assert set(counts[:-1]) == {most}


def test_seconds_are_those_of_storing(topic: Topic) -> None:
    for second in range(5):
        topic.publish(*(topic.envelope(second * 10 + each) for each in range(10)))
        topic.publish(topic.envelope(900 + second), priority=Priority.HIGH)
        topic.clock.advance(1)
    assert steps(topic, lambda admission: admission.seconds(1)) == [11] * 5
    assert steps(topic, lambda admission: admission.seconds(2)) == [22, 22, 11]
    assert steps(topic, lambda admission: admission.seconds(3600)) == [55]


def test_a_silence_is_passed_over_in_one_step(topic: Topic) -> None:
    topic.publish(topic.envelope(1))
    topic.clock.advance(86_400)
    topic.publish(topic.envelope(2))
    assert steps(topic, lambda admission: admission.seconds(60)) == [1, 1]


def test_counts_stay_true_beside_what_retention_took(topic: Topic) -> None:
    topic.publish_many(0, 100)
    topic.transport.admin.trim(topic.name, older_than_ms=None, keep_at_most=40)
    extents = topic.rereads.extents(topic.name)
    ends = {extent.log: end_of(extent) for extent in extents}

    admitted = BatchLimit(topic.rereads, topic.name, {}, ends).messages(10)

    assert admitted["-"].added == 70


def test_another_life_is_admitted_from_its_beginning(topic: Topic) -> None:
    topic.publish_many(0, 50)
    old = {extent.log: end_of(extent) for extent in topic.rereads.extents(topic.name)}
    topic.empty()
    topic.publish_many(100, 30)
    ends = {extent.log: end_of(extent) for extent in topic.rereads.extents(topic.name)}

    admitted = BatchLimit(topic.rereads, topic.name, old, ends).messages(10)

    assert admitted["-"].added == 10
    assert admitted["-"].life == ends["-"].life != old["-"].life
