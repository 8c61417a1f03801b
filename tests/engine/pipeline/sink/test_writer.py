"""A table written into a topic, on the real Spark and the real store, also by workers that are killed."""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter

from engine.bus import decode
from engine.bus.transport import Priority
from engine.pipeline.sink.options import SinkOptions
from engine.pipeline.sink.writer import TaskWritten, TopicWriter, told
from engine.pipeline.sink.writing import Counts
from engine.pipeline.source.datasource import HbusSource
from tests.engine.pipeline.conftest import Topic

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("spark")]

COUNT = 6_000
KEYS = 20


class DyingWriter(TopicWriter):
    """Of each part the first worker is killed once it has written some."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        def fatal() -> Iterator[pa.RecordBatch]:
            for number, table in enumerate(iterator):
                context = TaskContext.get()
                if number == 2 and context is not None and not context.attemptNumber():
                    os.kill(os.getpid(), signal.SIGKILL)
                yield table

        return super().write(fatal())


class DyingSource(HbusSource):
    """The format, with writers that die."""

    @classmethod
    def name(cls) -> str:
        return "dying"

    def writer(self, schema: Any, overwrite: bool) -> DataSourceArrowWriter:
        return DyingWriter(SinkOptions.of(self.options), schema, overwrite=overwrite)


@pytest.fixture
def small_tables(spark: Any) -> Iterator[None]:
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "700")
    yield
    spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")


@pytest.fixture
def copy(topic: Topic) -> Iterator[Topic]:
    """Another topic of the same store."""
    made = Topic(topic.config.url, topic.config.prefix, "booking.copied")
    yield made
    made.transport.admin.delete_topic(made.name)
    made.transport.close()


def frame(spark: Any, count: int = COUNT) -> Any:
    """Each key in one task, in order."""
    return (
        spark.range(count)
        .selectExpr(
            "id as number",
            "concat('m', id) as id",
            "'/spark' as source",
            "'booking.created' as type",
            f"concat('k', id % {KEYS}) as partitionkey",
            "cast(id as string) as data",
        )
        .repartition(2, "partitionkey")
        .sortWithinPartitions("partitionkey", "number")
        .drop("number")
    )


def write(table: Any, topic: Topic, write_id: str, *, form: str = "hbus", **options: str) -> None:
    table.write.format(form).options(**topic.options, writeId=write_id, **options).mode("append").save()


def read(topic: Topic) -> dict[str, list[int]]:
    """Which numbers each key has, in the order of storing."""
    found: dict[str, list[int]] = defaultdict(list)
    for entry in topic.transport.admin.browse(topic.name, limit=100_000).entries:
        message = decode(entry.body)
        found[message.partitionkey].append(message.json())
    return found


WHOLE = {f"k{key}": list(range(key, COUNT, KEYS)) for key in range(KEYS)}


def test_a_table_is_written_once_and_each_key_in_order(spark: Any, topic: Topic) -> None:
    write(frame(spark), topic, "w1")
    assert read(topic) == WHOLE

    # The whole job again, and one that is cut in another way
    write(frame(spark), topic, "w1")
    write(frame(spark).coalesce(1), topic, "w1")
    assert read(topic) == WHOLE

    write(frame(spark, 40), topic, "w2")
    assert read(topic)["k3"] == [*WHOLE["k3"], 3, 23]


@pytest.mark.usefixtures("small_tables")
def test_workers_that_are_killed_leave_each_row_once_and_in_order(spark: Any, topic: Topic) -> None:
    spark.dataSource.register(DyingSource)

    write(frame(spark), topic, "w1", form="dying")

    assert read(topic) == WHOLE
    # Some of it was written by those who died.
    assert topic.transport.admin.counts(topic.name)["deduplicated"] >= 2 * 700


def test_a_topic_that_is_read_and_written_is_the_same(spark: Any, topic: Topic, copy: Topic) -> None:
    topic.publish_many(0, 500)
    topic.publish(topic.envelope(500, extensions={"tenant": "acme"}, subject='"', data_base64=b"\x00\xff"))
    topic.publish(topic.envelope(501, hbusreplay="replay", hbuspriority="high"), priority=Priority.HIGH)
    spaced = b'{"specversion":"1.0","id":"m502","source":"/x","type":"t","data":{"b" : 1.50, "a":"\xc3\xbc"}}'
    topic.publish(spaced)

    write(spark.read.format("hbus").options(**topic.options, tasks="1").load(), copy, "w1")

    def bodies(of: Topic, priority: Priority) -> list[bytes]:
        entries = of.transport.admin.browse(of.name, limit=10_000).entries
        return [entry.body for entry in entries if entry.priority is priority]

    for priority in Priority:
        assert bodies(copy, priority) == bodies(topic, priority)
    assert len(bodies(copy, Priority.NORMAL)) == 502


def test_a_key_in_two_tasks_fails_the_job_and_says_so(spark: Any, topic: Topic) -> None:
    scattered = frame(spark).repartition(4, "id")
    with pytest.raises(Exception, match=r"are in two tasks, so their order cannot be kept"):
        write(scattered, topic, "w1")

    write(scattered, topic, "w1", order="none")
    assert {key: sorted(numbers) for key, numbers in read(topic).items()} == WHOLE


def test_malformed_rows_fail_the_job_or_are_left_out(spark: Any, topic: Topic, copy: Topic) -> None:
    topic.publish(topic.envelope(1, data=None), b"no json", topic.envelope(2, data=None))
    table = spark.read.format("hbus").options(**topic.options, tasks="1").load()

    with pytest.raises(Exception, match=r"The row at \S+ cannot be published: it is malformed"):
        write(table, copy, "w1")
    write(table, copy, "w1", malformed="skip")

    entries = copy.transport.admin.browse(copy.name).entries
    assert [decode(entry.body).id for entry in entries] == ["m1", "m2"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"topic": ""}, "No topic is named"),
        ({"writeId": ""}, "writeId is no text of 1 to 200"),
        ({"writeId": "x" * 201}, "writeId is no text of 1 to 200"),
        ({"colour": "red"}, "There is no option colour"),
        ({"columns": "id"}, "There is no option columns"),
        ({"order": "time"}, "Write key or none"),
        ({"malformed": "perhaps"}, "Write fail or skip"),
        ({"rememberHours": "0"}, "whole hours from 1"),
        ({"transport": "memory"}, "cannot publish a write once"),
    ],
)
def test_what_is_said_wrong_is_named(spark: Any, topic: Topic, options: dict[str, str], said: str) -> None:
    given = topic.options | {"writeId": "w1"} | options
    with pytest.raises(Exception, match=said):
        frame(spark, 10).write.format("hbus").options(**given).mode("append").save()
    assert not read(topic)


def test_what_is_no_table_of_messages_is_refused(spark: Any, topic: Topic) -> None:
    for table, said in (
        (frame(spark, 10).drop("source"), "There is no column source"),
        (frame(spark, 10).withColumnRenamed("data", "colour"), "'colour' is no column of a topic"),
        (frame(spark, 10).selectExpr("*", "'noon' as time"), "The column time is a string"),
    ):
        with pytest.raises(Exception, match=said):
            write(table, topic, "w1")
    with pytest.raises(Exception, match="A topic is not overwritten"):
        frame(spark, 10).write.format("hbus").options(**topic.options, writeId="w").mode("overwrite").save()
    assert not read(topic)


def test_what_a_write_has_done_is_told(topic: Topic) -> None:
    options = SinkOptions.of(topic.options | {"writeId": "w1"})
    parts = [TaskWritten(Counts(1_000, 2, 0)), None, TaskWritten(Counts(234, 0, 5))]

    assert told(options, parts) == (
        "hbus: booking.created: the write 'w1' stored 1,234 messages; 2 were there already, 5 malformed rows were left"
        " out."
    )
