"""One task's part of a write, on the real store: each once, in order, and what the store does not take is named."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
import redis

from engine.bus import BusConfig, Lane, Partitioned, PublishesInBulk, decode, open_transport, partition_of
from engine.core.clock import SystemClock
from engine.core.errors import Unavailable
from engine.pipeline.sink.errors import KeyInTwoTasks, RowRefused, StoreRefused
from engine.pipeline.sink.writing import PATIENCE_S, Counts, TaskWriting
from engine.pipeline.source.columns import schema_of
from hbus_console.supervisor.standalone import StandaloneStore
from tests.engine.pipeline.conftest import Topic

NAMES = ("id", "source", "type", "partitionkey", "hbuspriority", "data", "malformed")


def rows(first: int, beyond: int, **attributes: Any) -> pa.RecordBatch:
    said = [
        {"id": f"m{number}", "source": "/s", "type": "t", "partitionkey": f"k{number % 7}", "data": str(number)}
        | attributes
        for number in range(first, beyond)
    ]
    return pa.RecordBatch.from_pylist(said, schema=schema_of(NAMES))


Make = Callable[..., TaskWriting]


def writing_on(
    transport: Any,
    topic: str,
    clock: Any,
    *,
    run: str = "r",
    lane: str = "0",
    in_order: bool = True,
    skip_malformed: bool = False,
) -> TaskWriting:
    assert isinstance(transport, PublishesInBulk)
    of = Lane("w", run, lane, 60_000)
    return TaskWriting(transport, topic, of, clock, in_order=in_order, skip_malformed=skip_malformed)


@pytest.fixture
def make(topic: Topic) -> Make:
    return lambda **said: writing_on(topic.transport, topic.name, topic.clock, **said)


def read(topic: Topic) -> list[str]:
    """The ids that it has, in the order of storing."""
    return [decode(entry.body).id for entry in topic.transport.admin.browse(topic.name, limit=10_000).entries]


def numbered(first: int, beyond: int) -> list[str]:
    return [f"m{number}" for number in range(first, beyond)]


def test_rows_are_published_once_however_often_and_however_they_are_cut(topic: Topic, make: Make) -> None:
    first = make()
    first.write([rows(0, 700), rows(700, 1_300)])
    again = make(run="another", lane="4")
    again.write([rows(600, 1_400)])

    assert read(topic) == numbered(0, 1_400)
    assert (first.counts, again.counts) == (Counts(1_300), Counts(100, 700))


def test_two_messages_of_one_id_and_two_sources_are_two(topic: Topic, make: Make) -> None:
    make().write([rows(0, 1), rows(0, 1, source="/other"), rows(0, 1)])
    assert read(topic) == ["m0", "m0"]


def test_a_key_in_two_tasks_ends_the_second_unless_nobody_asks_for_order(topic: Topic, make: Make) -> None:
    make(lane="0").write([rows(0, 5)])

    with pytest.raises(KeyInTwoTasks, match="'k4' are in two tasks"):
        make(lane="1").write([rows(11, 12)])
    make(lane="1").write([rows(12, 14), rows(20, 22, partitionkey=None)])
    make(lane="2").write([rows(20, 22, partitionkey=None), rows(30, 31, partitionkey="")])
    make(lane="3", in_order=False).write([rows(11, 12)])

    assert read(topic) == ["m0", "m1", "m2", "m3", "m4", "m12", "m13", "m20", "m21", "m30", "m11"]


def test_a_key_that_comes_again_in_its_task_is_its_own(topic: Topic, make: Make) -> None:
    writing = make()
    for start in range(0, 30, 10):
        writing.write([rows(start, start + 10)])
    assert read(topic) == numbered(0, 30)


def test_of_an_ordered_topic_each_key_lies_in_its_partition(topic: Topic, make: Make) -> None:
    assert isinstance(topic.transport, Partitioned)
    topic.transport.set_partitions(topic.name, 4)

    make().write([rows(0, 100), rows(100, 110, partitionkey=None)])

    found = topic.transport.admin.browse(topic.name, limit=1_000).entries
    assert len(found) == 110
    for entry in found:
        message = decode(entry.body)
        partition = partition_of(message.partitionkey, message.id, 4)
        assert entry.position.endswith(f"p{partition}") or (partition == 0 and "p" not in entry.position)
    with pytest.raises(RowRefused, match=r"The row m200 .*know no priorities"):
        make().write([rows(200, 201, hbuspriority="high")])


def test_priorities_lie_where_a_publish_puts_them(topic: Topic, make: Make) -> None:
    make(in_order=False).write(
        [rows(number, number + 1, hbuspriority=each) for number, each in enumerate(("high", "low", None))]
    )
    found = {decode(entry.body).id: entry.priority for entry in topic.transport.admin.browse(topic.name).entries}
    assert found == {"m0": "high", "m1": "low", "m2": "normal"}


def test_malformed_rows_are_counted_where_they_are_left_out(topic: Topic, make: Make) -> None:
    writing = make(skip_malformed=True)
    writing.write([rows(0, 3), rows(3, 5, malformed="no JSON"), rows(5, 6)])

    assert (read(topic), writing.counts) == (["m0", "m1", "m2", "m5"], Counts(4, 0, 2))
    with pytest.raises(RowRefused, match="The row m3 cannot be published: it is malformed"):
        make().write([rows(3, 4, malformed="no JSON")])


def test_what_is_too_large_is_named_and_what_lies_before_it_stays(topic: Topic, make: Make) -> None:
    large = f'"{"x" * topic.transport.capabilities.max_bytes}"'
    with pytest.raises(StoreRefused, match="The write ended before the row m5: The envelope is too large: "):
        make().write([rows(0, 5), rows(5, 6, data=large), rows(6, 9)])
    assert read(topic) == numbered(0, 5)


@pytest.fixture
def own(own_store: StandaloneStore) -> Iterator[Any]:
    made = open_transport(BusConfig("redis_stream", own_store.url, "own"))
    yield made
    made.close()


def test_a_full_store_ends_it_and_the_next_run_adds_what_is_missing(own: Any, own_store: StandaloneStore) -> None:
    server = redis.Redis.from_url(own_store.url)
    writing_on(own, "t", SystemClock()).write([rows(0, 600)])
    server.config_set("maxmemory", "1mb")
    server.config_set("maxmemory-policy", "noeviction")

    with pytest.raises(StoreRefused, match=r"The write ended before the row m600: .*It is full") as refused:
        writing_on(own, "t", SystemClock()).write([rows(0, 1_200)])
    assert "under the same writeId" in refused.value.remedy

    server.config_set("maxmemory", "0")
    last = writing_on(own, "t", SystemClock())
    last.write([rows(0, 1_200)])
    assert last.counts == Counts(600, 600)
    assert own.admin.depth("t").messages == 1_200


class Fateful(SystemClock):
    """A clock whose waits are over at once, and have something happen."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act
        self.waited_s = 0.0

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.waited_s += seconds
        self.act()
        return False

    def monotonic(self) -> float:
        return self.waited_s


def test_a_store_that_comes_back_has_each_row_once(own: Any, own_store: StandaloneStore) -> None:
    # What it has confirmed is to be there after the kill.
    redis.Redis.from_url(own_store.url).config_set("appendfsync", "always")
    writing = writing_on(own, "t", clock := Fateful(own_store.start))

    def tables() -> Iterator[pa.RecordBatch]:
        yield rows(0, 600)
        own_store.kill()
        yield rows(600, 1_200)

    writing.write(tables())

    assert clock.waited_s
    assert own.admin.depth("t").messages == 1_200


def test_a_store_that_stays_away_ends_it_in_the_end(own: Any, own_store: StandaloneStore) -> None:
    own_store.kill()
    clock = Fateful(lambda: None)
    with pytest.raises(Unavailable):
        writing_on(own, "t", clock)
    assert PATIENCE_S <= clock.waited_s < PATIENCE_S + 5
