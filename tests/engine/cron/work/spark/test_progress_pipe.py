"""The pipe takes the newest that is right, however much else stands in it, and says once what it refused."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from engine.core.secret_values import SecretValues
from engine.cron.work.spark import progress_pipe
from engine.cron.work.spark.bounds import LONGEST
from engine.cron.work.spark.progress import SparkProgress
from engine.cron.work.spark.progress_pipe import MOST, ProgressPipe
from tests.engine.cron.work.conftest import Given


def tasks(done: int) -> bytes:
    return b'{"tasks": {"done": %d, "total": 100000000}}\n' % done


def write(path: Path, *pieces: bytes) -> None:
    """As a driver does, to the end."""
    writer = os.open(path, os.O_WRONLY)
    for piece in pieces:
        rest = memoryview(piece)
        while rest:
            rest = rest[os.write(writer, rest) :]
    os.close(writer)


def until(holds: Callable[[], object]) -> None:
    late = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < late
        time.sleep(0.01)


def test_what_is_told_is_handed_on_also_what_came_last(given: Given, tmp_path: Path) -> None:
    told: list[SparkProgress] = []
    with ProgressPipe(tmp_path, given(), told.append) as pipe:
        write(pipe.path, tasks(1))
        until(lambda: told)
        # Within the second of the one before: the end takes it.
        write(pipe.path, tasks(2), b'{"tasks": {"done": 3, "total": 7}, "failure": "ValueError: x"}\n')
    assert [each.tasks.done for each in told] == [1, 3]
    assert pipe.failure == "ValueError: x"


def test_who_writes_without_end_is_heard_once_a_second(
    given: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_pipe, "EVERY_S", 600.0)
    told: list[SparkProgress] = []
    written = [0]

    def flood() -> None:
        with suppress(BrokenPipeError):
            for number in count(1):
                write(pipe.path, tasks(number) * 1_000)
                written[0] = number

    with ProgressPipe(tmp_path, given(), told.append) as pipe:
        flooding = Thread(target=flood)
        flooding.start()
        until(lambda: told)
        before = len(told)
    flooding.join()
    # Each time all that it has room for was read, and no more: the writer waits meanwhile.
    assert (before, len(told)) == (1, 2)
    assert written[0] * len(tasks(1)) * 1_000 < 2 * MOST + 1_000_000


@pytest.mark.parametrize(
    "garbage", [b"garbage\n" * 3, b'{"tasks": {"done": -1}}\n', b"x" * (LONGEST + 9) + b'{"tasks": {}}\n', b"\n\n\n"]
)
def test_garbage_is_refused_and_what_is_right_beside_it_is_taken(
    given: Given, tmp_path: Path, garbage: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress_pipe, "EVERY_S", 0.01)
    context, told = given(), list[SparkProgress]()
    with ProgressPipe(tmp_path, context, told.append) as pipe:
        write(pipe.path, tasks(1), garbage)
        until(lambda: told)
        write(pipe.path, garbage, garbage, tasks(2))
        until(lambda: told[-1].tasks.done == 2)
    log = context.log.read(last=True)
    assert log.count("hbus: what was told of the progress is refused: ") == (1 if garbage.strip() else 0)


def test_a_line_may_come_in_pieces(given: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress_pipe, "EVERY_S", 0.01)
    told: list[SparkProgress] = []
    with ProgressPipe(tmp_path, given(), told.append) as pipe:
        write(pipe.path, tasks(1), tasks(2)[:9])
        until(lambda: told)
        write(pipe.path, tasks(2)[9:])
    assert [each.tasks.done for each in told] == [1, 2]


def test_its_secrets_are_those_of_the_run(given: Given, tmp_path: Path) -> None:
    context, told = given(), list[SparkProgress]()
    context.log.secrets = SecretValues(["s3cr3t-word"])
    with ProgressPipe(tmp_path, context, told.append) as pipe:
        write(pipe.path, b'{"failure": "ValueError: s3cr3t-word"}\n')
    assert told[0].failure == pipe.failure == "ValueError: [redacted]"


def test_where_no_pipe_can_be_made_the_run_goes_on_without(given: Given, tmp_path: Path) -> None:
    told: list[SparkProgress] = []
    with ProgressPipe(tmp_path / "not-there", given(), told.append) as pipe:
        assert not pipe.path.exists()
    assert told == []
