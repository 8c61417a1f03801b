"""A lock is free for others once who took it gave it up, whatever was forked meanwhile."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

import pytest

from engine.core.file_lock import file_lock
from engine.cron.work.folder_lock import folder_lock
from engine.cron.work.log_spool import LogSpool
from engine.cron.work.spark.scratch import scratch_folder
from hbus_console.audit.anchor_file import AnchorFile
from hbus_console.metric_files import steady

Forks = Callable[[], None]


@pytest.fixture
def forks() -> Iterator[Forks]:
    """Forks a child that does nothing, with all that is open, until the test is over."""
    ends, end = os.pipe()
    children: list[int] = []

    def fork() -> None:
        if not (child := os.fork()):
            os.close(end)
            os.read(ends, 1)
            os._exit(0)
        children.append(child)

    yield fork
    os.close(end)
    os.close(ends)
    assert [os.waitpid(child, 0)[1] for child in children] == [0]


@contextmanager
def of_a_file(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("w") as file, file_lock(file):
        yield


def locked_again(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("hold", "path"),
    [
        (of_a_file, "lock"),
        (folder_lock, "."),
        (steady, "lock"),
        (lambda folder: closing(LogSpool(folder, 7, 1)), "7-1.log"),
    ],
    ids=["a file", "a folder", "metrics", "a log"],
)
def test_it_is_free_once_it_is_given_up_though_a_child_lives_on(
    tmp_path: Path, forks: Forks, hold: Callable[[Path], AbstractContextManager[object]], path: str
) -> None:
    with hold(tmp_path):
        forks()
        with pytest.raises(BlockingIOError):
            locked_again(tmp_path / path)
    locked_again(tmp_path / path)


def test_a_scratch_folder_that_resists_is_left_behind_though_a_child_lives_on(
    tmp_path: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.rmtree", lambda *_, **__: None)
    with scratch_folder(tmp_path, "7-1") as folder:
        forks()
    locked_again(folder)


def test_another_log_is_begun_though_a_child_was_forked_while_one_was_made(
    tmp_path: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def and_fork(path: str | Path, flags: int, mode: int = 0o777) -> int:
        found = opened(path, flags, mode)
        if str(path).endswith("7-1.log"):
            forks()
        return found

    monkeypatch.setattr(os, "open", and_fork)
    LogSpool(tmp_path, 7, 1).close()
    locked_again(tmp_path)
    LogSpool(tmp_path, 8, 1).close()


def test_the_anchors_are_appended_to_though_a_child_was_forked_meanwhile(
    tmp_path: Path, forks: Forks, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, synced = AnchorFile(tmp_path / "anchors", "key"), os.fsync

    def and_fork(descriptor: int) -> None:
        forks()
        synced(descriptor)

    monkeypatch.setattr(os, "fsync", and_fork)
    assert file.append((1, "hash"), 0, begin=True) is not None
    locked_again(tmp_path / "anchors")
