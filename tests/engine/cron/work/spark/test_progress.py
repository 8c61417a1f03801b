"""What a driver tells is user code's to write: what is right is taken, cleaned as a log is, and nothing else is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.core.errors import BadInput
from engine.core.secret_values import NO_SECRETS, SecretValues
from engine.cron.work.spark.bounds import FAILURE_SENT, MOST_QUERIES, MOST_STAGES, NAME_SENT
from engine.cron.work.spark.progress import NAME_SHOWN, SparkProgress, read_progress

STAGE = {"id": 1, "attempt": 0, "name": "read", "state": "running", "done": 1, "active": 1, "failed": 0, "total": 3}
QUERY = {"name": "rates", "active": True, "batch": 3, "input_rows_s": 5.0, "processed_rows_s": 7.5}


def line(**more: Any) -> bytes:
    return msgspec.json.encode({"tasks": {"done": 1, "total": 3}, "stages": [STAGE], "queries": [QUERY], **more})


def name_of(text: str, secrets: SecretValues = NO_SECRETS) -> str:
    return read_progress(line(stages=[{**STAGE, "name": text}]), secrets).stages[0].name


def test_what_is_right_is_taken_as_it_is() -> None:
    said = read_progress(line(memory_bytes=5, memory_most_bytes=9), NO_SECRETS)
    assert (said.tasks.done, said.tasks.total, said.memory_bytes, said.memory_most_bytes) == (1, 3, 5, 9)
    assert msgspec.to_builtins(said.stages[0]) == {**STAGE, "began_ms": None, "ended_ms": None}
    assert msgspec.to_builtins(said.queries[0]) == QUERY


@pytest.mark.parametrize(
    "hostile",
    [
        b"",
        b"garbage",
        b"[]",
        b"[" * 100_000,
        b'{"more": ' + b"[" * 100_000,
        b"\xff\xfe",
        b'{"stages": [' + b"[" * 100_000,
        line(stages=[STAGE] * (MOST_STAGES + 1)),
        line(queries=[QUERY] * (MOST_QUERIES + 1)),
        line(stages=[{**STAGE, "name": "x" * (NAME_SENT + 1)}]),
        line(stages=[{**STAGE, "name": None}]),
        line(stages=[{**STAGE, "state": "<b>done</b>"}]),
        line(stages=[{**STAGE, "done": -1}]),
        line(stages=[{**STAGE, "done": 4}]),
        line(stages=[{**STAGE, "done": True}]),
        line(stages=[{**STAGE, "total": 2**60}]),
        line(stages=[{**STAGE, "began_ms": 10**18}]),
        line(stages=[{**STAGE, "link": "https://1.1.1.1/"}]),
        line(queries=[{**QUERY, "input_rows_s": -1.0}]),
        line(queries=[{**QUERY, "input_rows_s": 1e300}]),
        line(queries=[{**QUERY, "batch": "3"}]),
        line(tasks={"done": 2, "total": 1}),
        line(tasks={"total": 1.5}),
        line(failure="x" * (FAILURE_SENT + 1)),
        line(more="x"),
    ],
)
def test_what_is_not_is_refused(hostile: bytes) -> None:
    with pytest.raises(BadInput) as refused:
        read_progress(hostile, NO_SECRETS)
    assert refused.value.field == "progress"


def test_its_texts_are_shown_as_those_of_a_log_are() -> None:
    assert name_of("two\nlines\tof \x1b[31mred\x00") == "two lines of \\x1b[31mred\\x00"
    assert name_of("turned \u202e round") == "turned \\u202e round"
    assert name_of("jdbc://u:hunter2@db") == "jdbc://u:[redacted]@db"
    assert name_of("loads with s3cr3t-word", SecretValues(["s3cr3t-word"])) == "loads with [redacted]"
    assert len(name_of("x" * NAME_SENT)) == NAME_SHOWN
    told = read_progress(line(failure="ValueError: s3cr3t-word\n  File \x07\n\n"), SecretValues(["s3cr3t-word"]))
    assert told.failure == "ValueError: [redacted]\n  File \\x07"


def test_of_a_secret_that_was_cut_nothing_is_left() -> None:
    secret = "s3cr3t-word-of-some-length"
    text = "x " * 80 + "y" * (NAME_SENT - 160 - 10) + secret[:10]
    assert (
        secret[:10]
        not in read_progress(line(queries=[{**QUERY, "name": text}]), SecretValues([secret])).queries[0].name
    )
    assert (
        secret[:10]
        not in read_progress(line(failure="z" * (FAILURE_SENT - 10) + secret[:10]), SecretValues([secret])).failure
    )


def test_without_tasks_and_queries_there_is_nothing_to_see_of_it() -> None:
    assert not SparkProgress(failure="ImportError: x").has_begun
    assert read_progress(line(), NO_SECRETS).has_begun
