"""A topic as Spark's table and as its stream, on the real Spark and the real store."""

from __future__ import annotations

import datetime
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine.bus.transport import Priority
from engine.core.clock import to_datetime, to_rfc3339
from engine.pipeline.source.reached import as_plain, end_of
from tests.engine.pipeline.conftest import Topic

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]


def table(spark: Any, topic: Topic, **options: str) -> Any:
    return spark.read.format("hbus").options(**topic.options, **options).load()


def ids(frame: Any) -> list[str]:
    return [row.id for row in frame.select("id").collect()]


def numbered(first: int, beyond: int) -> list[str]:
    return [f"m{number}" for number in range(first, beyond)]


def test_a_topic_is_a_table(spark: Any, topic: Topic) -> None:
    topic.publish_many(0, 1_000)
    topic.publish(topic.envelope(1_000, extensions={"tenant": "acme"}, data=None), priority=Priority.HIGH)

    frame = table(spark, topic)

    rows = {row.id: row for row in frame.collect()}
    assert set(rows) == set(numbered(0, 1_001))
    assert rows["m7"].partitionkey == "k0"
    assert rows["m7"].source == "/tests"
    assert rows["m1000"].extensions == {"tenant": "acme"}
    assert rows["m1000"].log == "h"
    assert {row.topic for row in rows.values()} == {topic.name}
    per_key = {row.partitionkey: row["count"] for row in frame.groupBy("partitionkey").count().collect()}
    assert per_key["k0"] == 143


@pytest.mark.parametrize("tasks", ["1", "3", "16"])
def test_however_it_is_cut_it_is_whole(spark: Any, topic: Topic, tasks: str) -> None:
    topic.publish_many(0, 500, every_ms=7)
    topic.publish_many(500, 100, every_ms=3, priority=Priority.LOW)

    frame = table(spark, topic, tasks=tasks, columns="id,log,position")

    assert Counter(ids(frame)) == Counter(numbered(0, 600))
    assert frame.rdd.getNumPartitions() <= int(tasks) + 1


def test_a_topic_of_nothing_is_an_empty_table(spark: Any, topic: Topic) -> None:
    assert table(spark, topic).count() == 0


def test_instants_bound_it_by_option_and_by_filter(spark: Any, topic: Topic) -> None:
    edges = []
    for number in range(5):
        edges.append(topic.clock.now_ms())
        topic.publish(topic.envelope(number))
        topic.clock.advance(1)
    second, fourth = (to_datetime(edges[index]) for index in (1, 3))

    by_option = table(spark, topic, startingTime=to_rfc3339(edges[1]), endingTime=to_rfc3339(edges[3]))
    frame = table(spark, topic)

    assert sorted(ids(by_option)) == ["m1", "m2"]
    assert sorted(ids(frame.where((frame.stored_at >= second) & (frame.stored_at < fourth)))) == ["m1", "m2"]
    assert sorted(ids(frame.where((frame.stored_at > second) & (frame.stored_at <= fourth)))) == ["m2", "m3"]
    beside = second + datetime.timedelta(microseconds=1)
    assert sorted(ids(frame.where(frame.stored_at >= beside))) == ["m2", "m3", "m4"]
    assert sorted(ids(frame.where(frame.stored_at < beside))) == ["m0", "m1"]


def test_what_a_filter_rules_out_is_never_handed_to_spark(spark: Any, topic: Topic) -> None:
    topic.publish_many(0, 700)
    frame = table(spark, topic)

    found = frame.where((frame.partitionkey == "k3") & frame.type.isin("booking.created", "x"))

    assert found.count() == 100
    assert found.where(found.id == "m3").count() == 1
    assert found.where(found.id != "m3").count() == 99
    # Spark itself compares no more than what it did not hand down.
    compared = [line for line in found._jdf.queryExecution().executedPlan().toString().splitlines() if "Filter" in line]
    assert not [line for line in compared if "k3" in line]


def test_between_two_places_of_reading(spark: Any, topic: Topic) -> None:
    topic.publish_many(0, 50)
    first = {extent.log: end_of(extent) for extent in topic.rereads.extents(topic.name)}
    topic.publish_many(50, 50)
    second = {extent.log: end_of(extent) for extent in topic.rereads.extents(topic.name)}
    topic.publish_many(100, 50)

    frame = table(spark, topic, startingOffsets=json.dumps(as_plain(first)), endingOffsets=json.dumps(as_plain(second)))

    assert sorted(ids(frame)) == sorted(numbered(50, 100))
    assert table(spark, topic, startingOffsets="latest").count() == 0


def test_places_that_somebody_wrote_by_hand_are_enough(spark: Any, topic: Topic) -> None:
    topic.publish_many(0, 300)
    (half,) = topic.publish(topic.envelope(300))
    topic.publish_many(301, 300)

    frame = table(spark, topic, tasks="8", startingOffsets=f'{{"-": {{"at": "{half.position}"}}}}')

    assert Counter(ids(frame)) == Counter(numbered(301, 601))


def test_what_is_gone_ends_a_query_that_had_a_claim_to_it(spark: Any, topic: Topic) -> None:
    topic.publish_many(0, 50)
    first = {extent.log: end_of(extent) for extent in topic.rereads.extents(topic.name)}
    topic.publish_many(50, 50)
    topic.trim(20)
    said = json.dumps(as_plain(first))

    with pytest.raises(Exception, match=r"30 messages after .* are gone: retention has taken them"):
        table(spark, topic, startingOffsets=said).count()

    frame = table(spark, topic, startingOffsets=said, failOnLoss="false")
    assert sorted(ids(frame.where(frame.lost.isNull()))) == numbered(80, 100)
    (row,) = frame.where(frame.lost.isNotNull()).collect()
    assert (row.lost, row.id, row.log, row.malformed) == (30, None, "-", "gone before it was read: trimmed")
    assert frame.where(frame.partitionkey == "k3").where(frame.lost.isNotNull()).count() == 0
    # Who begins with what is there has no claim to the rest.
    assert table(spark, topic).count() == 20


def test_hostile_bytes_are_rows(spark: Any, topic: Topic) -> None:
    topic.publish(topic.envelope(1), b"\xff\x00", b"[" * 20_000, topic.envelope(2))
    rows = table(spark, topic, columns="id,malformed,envelope").collect()
    assert sorted(row.id for row in rows if row.malformed is None) == ["m1", "m2"]
    assert sorted(bytes(row.envelope)[:2] for row in rows if row.malformed) == [b"[[", b"\xff\x00"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": "colour"}, "'colour' is no column"),
        ({"tasks": "-1"}, "tasks is '-1'"),
        ({"startingOffsets": "{"}, "is no JSON"),
        ({"startingOffsets": '{"-": 3}'}, "does not say how far"),
        ({"startingTime": "noon"}, "is no RFC 3339 instant"),
        ({"failOnLoss": "perhaps"}, "Write true or false"),
        ({"colour": "red"}, "There is no option colour"),
        ({"transport": "carrier-pigeon"}, "no transport called 'carrier-pigeon'"),
        ({"transport": "memory"}, "cannot be read again"),
    ],
)
def test_what_is_said_wrong_is_named(spark: Any, topic: Topic, options: dict[str, str], said: str) -> None:
    with pytest.raises(Exception, match=said):
        table(spark, topic, **options).count()


Batches = Callable[..., list[list[str]]]


@pytest.fixture
def run(spark: Any, topic: Topic, tmp_path: Path) -> Batches:
    """One run of a stream over what is there now: the ids of each batch."""

    def run(**options: str) -> list[list[str]]:
        batches: list[list[str]] = []
        stream = spark.readStream.format("hbus").options(**topic.options, **options).load()
        query = (
            stream.writeStream.foreachBatch(lambda frame, number: batches.append(sorted(ids(frame))))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        return batches

    return run


def test_a_stream_goes_on_where_it_was(topic: Topic, run: Batches) -> None:
    topic.publish_many(0, 30)
    assert run(startingOffsets="earliest") == [sorted(numbered(0, 30))]
    assert run(startingOffsets="earliest") == []
    topic.publish_many(30, 20)
    assert run(startingOffsets="earliest") == [sorted(numbered(30, 50))]


def test_a_stream_takes_no_more_a_batch_than_it_is_told(topic: Topic, run: Batches) -> None:
    topic.publish_many(0, 100)
    batches = run(startingOffsets="earliest", maxMessagesPerTrigger="40")
    assert [len(batch) for batch in batches] == [40, 40, 20]
    assert sorted(each for batch in batches for each in batch) == sorted(numbered(0, 100))


def test_a_stream_takes_so_many_seconds_a_batch(topic: Topic, run: Batches) -> None:
    for number in range(6):
        topic.publish(topic.envelope(number))
        topic.clock.advance(1)
    assert run(startingOffsets="earliest", maxSecondsPerTrigger="2") == [["m0", "m1"], ["m2", "m3"], ["m4", "m5"]]


def test_whichever_bound_is_met_first_holds(topic: Topic, run: Batches) -> None:
    for second in range(2):
        topic.publish(*(topic.envelope(second * 5 + each) for each in range(5)))
        topic.clock.advance(1)
    batches = run(startingOffsets="earliest", maxSecondsPerTrigger="1", maxMessagesPerTrigger="3")
    assert [len(batch) for batch in batches] == [3, 2, 3, 2]


def test_a_stream_that_finds_messages_gone_ends_and_says_how_many(topic: Topic, run: Batches) -> None:
    topic.publish_many(0, 10)
    run(startingOffsets="earliest")
    topic.publish_many(10, 10)
    topic.trim(4)
    with pytest.raises(Exception, match="6 messages after"):
        run(startingOffsets="earliest")


def test_a_stream_over_a_topic_made_anew_ends_too(topic: Topic, run: Batches) -> None:
    topic.publish_many(0, 10)
    run(startingOffsets="earliest")
    topic.empty()
    topic.publish_many(10, 10)
    with pytest.raises(Exception, match="the store was emptied, or the topic made anew"):
        run(startingOffsets="earliest")
