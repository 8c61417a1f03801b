from __future__ import annotations

from collections.abc import Sequence

import pytest
from structlog.testing import capture_logs

from engine.bus.facts import Fact, batches
from engine.core.facts import FactBatch
from hbus_console import logs

AT = 1_790_000_000_000


class Sink:
    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def write(self, facts: Sequence[FactBatch]) -> None:
        if self.fails:
            raise ConnectionError("away")


def test_a_fact_that_matters_is_one_line_with_the_ids_that_lead_on() -> None:
    dead = Fact("dead", AT, topic="t", subscription="g", message_id="m1", correlation_id="c1", trace_id="ab", error="X")
    with capture_logs() as lines:
        logs.LoggingSink(Sink()).write(batches([dead, Fact("settled", AT, topic="t", message_id="m2")]))
    assert lines == [
        {
            "event": "dead",
            "log_level": "error",
            "at_ms": AT,
            "topic": "t",
            "subscription": "g",
            "message_id": "m1",
            "correlation_id": "c1",
            "trace_id": "ab",
            "error": "X",
        }
    ]


def test_everything_can_be_logged() -> None:
    with capture_logs() as lines:
        logs.LoggingSink(Sink(), everything=True).write(batches([Fact("settled", AT, message_id="m2")]))
    assert [line["event"] for line in lines] == ["settled"]


def test_a_flood_is_cut_and_says_by_how_much() -> None:
    with capture_logs() as lines:
        logs.LoggingSink(Sink()).write(batches([Fact("retried", AT, message_id=f"m{n}") for n in range(250)]))
    assert len(lines) == 101
    assert lines[-1]["event"] == "retried_suppressed"
    assert lines[-1]["suppressed"] == 150


def test_a_lost_store_is_logged_while_it_is_lost_and_once() -> None:
    sink = logs.LoggingSink(Sink(fails=True))
    batch = batches([Fact("store_lost", AT, detail="gone")])
    with capture_logs() as lines:
        for _ in range(3):
            with pytest.raises(ConnectionError):
                sink.write(batch)
    assert [line["event"] for line in lines] == ["store_lost"]
