"""The spool of a topic that its transport forgets is a table and a stream as any that can be read again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from engine.bus import Message
from engine.bus.message import encode
from engine.core.clock import ManualClock, to_rfc3339
from engine.core.errors import ConfigurationError
from engine.pipeline.source.opening import config_of, opened
from engine.pipeline.spool import writer as writing
from engine.pipeline.spool.frames import Spooled
from engine.pipeline.spool.leaving import let_go
from engine.pipeline.spool.reading import SpoolReader
from engine.pipeline.spool.writer import SpoolWriter

TOPIC = "booking.created"


class FilledSpool:
    """One topic's, with short words for filling it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = ManualClock()
        self._writer = SpoolWriter(root, TOPIC, self.clock)
        with self._writer.held():
            pass

    @property
    def options(self) -> dict[str, str]:
        return {"topic": TOPIC, "transport": "spool", "url": str(self.root)}

    def fill(self, first: int, number: int) -> None:
        for start in range(first, first + number, 50):
            numbers = range(start, min(start + 50, first + number))
            with self._writer.held():
                self._writer.append([Spooled(f"{each:016x}", self._envelope(each)) for each in numbers])
            self.clock.advance(1)

    def _envelope(self, number: int) -> bytes:
        return encode(
            Message(
                id=f"m{number}",
                source="/tests",
                type="t",
                time=to_rfc3339(self.clock.now_ms()),
                partitionkey=f"k{number % 7}",
            )
        )


@pytest.fixture
def spool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FilledSpool:
    monkeypatch.setattr(writing, "FILE_BYTES", 20_000)
    return FilledSpool(tmp_path / "spool")


def table(spark: Any, spool: FilledSpool, **options: str) -> Any:
    return spark.read.format("hbus").options(**{**spool.options, **options}).load()


def ids(frame: Any) -> list[str]:
    return [row.id for row in frame.select("id").collect()]


def numbered(first: int, beyond: int) -> Counter[str]:
    return Counter(f"m{number}" for number in range(first, beyond))


@pytest.mark.long
@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("tasks", ["1", "5"])
def test_a_spool_is_a_table_however_it_is_cut(spark: Any, spool: FilledSpool, tasks: str) -> None:
    spool.fill(0, 1_000)
    frame = table(spark, spool, tasks=tasks)
    assert Counter(ids(frame)) == numbered(0, 1_000)
    assert {row.log for row in frame.select("log").distinct().collect()} == {"spool"}
    begun_s = (spool.clock.now_ms() - 20_000) / 1000
    assert Counter(ids(frame.where(f"stored_at >= timestamp_seconds({begun_s + 15})"))) == numbered(750, 1_000)


@pytest.mark.long
@pytest.mark.xdist_group("spark")
def test_a_stream_goes_on_where_it_was_and_tells_what_is_gone(spark: Any, spool: FilledSpool, tmp_path: Path) -> None:
    batches: list[list[str]] = []

    def run(**options: str) -> None:
        said = {**spool.options, "startingOffsets": "earliest", "maxMessagesPerTrigger": "120", **options}
        stream = spark.readStream.format("hbus").options(**said).load()
        query = (
            stream.writeStream.foreachBatch(lambda frame, number: batches.append(ids(frame)))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)

    spool.fill(0, 250)
    run()
    assert [len(batch) for batch in batches] == [120, 120, 10]
    spool.fill(250, 300)
    run()
    assert Counter(id_ for batch in batches for id_ in batch) == numbered(0, 550)

    spool.fill(550, 500)
    (extent,) = SpoolReader(spool.root).extents(TOPIC)
    assert let_go(spool.root, TOPIC, life=extent.life, upto=1_000, before_ms=spool.clock.now_ms())
    with pytest.raises(Exception, match="messages after 550 are gone"):
        run()


def test_the_folder_is_named_or_that_of_the_lake_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HBUS_BUS_URL", "redis://store.example")
    monkeypatch.delenv("HBUS_LAKE", raising=False)
    with pytest.raises(ConfigurationError, match="spools is not named"):
        config_of({"transport": "spool"})
    monkeypatch.setenv("HBUS_LAKE", str(tmp_path))
    assert config_of({"transport": "spool"}).url == str(tmp_path / "spool")
    assert config_of({"transport": "spool", "url": "/srv/spool"}).url == "/srv/spool"
    assert config_of({"transport": "nsq"}).url == "redis://store.example"


def test_where_there_are_no_spools_it_says_so(tmp_path: Path) -> None:
    with (
        pytest.raises(ConfigurationError, match="no spools at"),
        opened(config_of({"transport": "spool", "url": str(tmp_path / "nothing")})),
    ):
        pass
