"""A Spark of the tests' own, two cores and four tries a task, and topics on the real store."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.bus import BusConfig, Message, open_transport
from engine.bus.message import encode
from engine.bus.rereading import Rereads
from engine.bus.transport import Outcome, Outgoing, Priority, Transport
from engine.core.clock import ManualClock, to_rfc3339
from engine.core.ids import new_id
from engine.cron.work.spark.installed import find_spark
from engine.cron.work.spark.submit import environment


class Topic:
    """One topic on the real store, by a clock of the test's own."""

    def __init__(self, url: str, prefix: str, name: str = "booking.created") -> None:
        self.clock = ManualClock()
        self.config = BusConfig("redis_stream", url, prefix)
        self.transport: Transport = open_transport(self.config, self.clock)
        self.name = name
        self.transport.admin.create_topic(name)

    @property
    def rereads(self) -> Rereads:
        assert isinstance(self.transport.admin, Rereads)
        return self.transport.admin

    @property
    def options(self) -> dict[str, str]:
        """What the format takes."""
        return {"topic": self.name, "url": self.config.url, "prefix": self.config.prefix}

    def envelope(self, number: int, **attributes: Any) -> bytes:
        said = {"source": "/tests", "type": "booking.created", "time": to_rfc3339(self.clock.now_ms())} | attributes
        return encode(Message(id=f"m{number}", **said))

    def publish(self, *bodies: bytes, priority: Priority = Priority.NORMAL, partition: int = 0) -> list[Outcome]:
        batch = [Outgoing(new_id(self.clock.now_ms()), body, priority, partition=partition) for body in bodies]
        outcomes = self.transport.publish(self.name, batch)
        assert all(outcome.position for outcome in outcomes)
        return outcomes

    def publish_many(self, first: int, number: int, *, every_ms: int = 1, priority: Priority = Priority.NORMAL) -> None:
        """``m<first>`` and so on, a few a millisecond."""
        for start in range(first, first + number, 100):
            numbers = range(start, min(start + 100, first + number))
            self.publish(*(self.envelope(each, partitionkey=f"k{each % 7}") for each in numbers), priority=priority)
            self.clock.advance(every_ms / 1000)

    def trim(self, keep: int) -> None:
        self.transport.admin.trim(self.name, older_than_ms=None, keep_at_most=keep)

    def empty(self) -> None:
        """Made anew: another life."""
        self.transport.admin.delete_topic(self.name)
        self.clock.advance(1)
        self.transport.admin.create_topic(self.name)


@pytest.fixture
def topic(redis_url: str, prefix: str) -> Iterator[Topic]:
    made = Topic(redis_url, prefix)
    yield made
    made.transport.admin.delete_topic(made.name)
    made.transport.close()


class Sessions:
    """One session of Spark after the other in one process: a test of the console may have ended the one there was."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._session: Any = None

    def session(self) -> Any:
        if self._session is None or self._session.sparkContext._jsc is None:
            self._session = self._begun()
        return self._session

    def _begun(self) -> Any:
        from pyspark.sql import SparkSession

        from engine.pipeline.source.datasource import register

        session = (
            SparkSession.builder.master("local[2,4]")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.warehouse.dir", str(self._folder / "warehouse"))
            .getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        # It speaks once more when the process ends, to nobody.
        logging.getLogger("py4j").setLevel(logging.ERROR)
        register(session)
        return session

    def end(self) -> None:
        if self._session is not None:
            self._session.stop()


@pytest.fixture(scope="session")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sessions]:
    """What Spark goes by in this process: it reads the environment when it is imported."""
    folder: Path = tmp_path_factory.mktemp("spark")
    said = environment(find_spark(), "local[2,4]", folder)
    before = {name: os.environ.get(name) for name in said}
    os.environ.update(said)
    made = Sessions(folder)
    yield made
    made.end()
    for name, value in before.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


@pytest.fixture
def spark(sessions: Sessions) -> Any:
    """One for all tests: a session takes seconds to start."""
    return sessions.session()
