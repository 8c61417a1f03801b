"""Disks that are full: for this process, for a store of a test's own, and one to be filled."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
import redis


@contextmanager
def no_room() -> Iterator[None]:
    """While it lasts, no file takes a byte from this process or from what it starts: the kernel refuses the write."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


class SmallDisk:
    """A file system of a few megabytes that a test fills and makes room on."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self) -> None:
        """Take every byte that is left."""
        with self._ballast.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(b"x" * 4096)

    def make_room(self) -> None:
        self._ballast.unlink()


@contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """A disk at ``folder``, empty. Skips the test where this process may mount none."""
    folder.mkdir()
    # Root may mount, and so may whom sudo asks nothing, as on the machines that run tests for others.
    as_root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    options = f"size=16m,uid={os.geteuid()}"
    mount = [*as_root, "mount", "-t", "tmpfs", "-o", options, "hbus-test", str(folder)]
    try:
        made = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        pytest.skip(f"this process may mount no disk: {error}")
    if made.returncode:
        pytest.skip(f"this process may mount no disk: {made.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run([*as_root, "umount", "-l", str(folder)], check=True)


@contextmanager
def full_disk(store: redis.Redis) -> Iterator[None]:
    """While it lasts, no file takes a byte from the server that ``store`` leads to, a :class:`StandaloneStore`.

    Its log of writes fails, and it refuses every write, and even PING (MISCONF), until it can write again.
    """
    if sys.platform != "linux":
        pytest.skip("only Linux can bound the files of another process")
    pid = store.info("server")["process_id"]
    before, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, most))
    try:
        # The first write is taken; the server learns only then that its log does not take it.
        _until(lambda: _refusal(store).startswith("MISCONF Errors writing to the AOF file: File too large"))
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (before, most))
        _until(lambda: not _refusal(store))


def _refusal(store: redis.Redis) -> str:
    try:
        store.delete("full-disk")
        store.set("full-disk", "1")
    except redis.ResponseError as error:
        return str(error)
    return ""


@contextmanager
def no_snapshot(store: redis.Redis, folder: Path) -> Iterator[None]:
    """While it lasts, a folder lies where the snapshot of the store in ``folder`` should be written.

    For a store that somebody else started, and that would end if its log of writes failed (``appendfsync always``).
    """
    snapshot = folder / str(store.config_get("dbfilename")["dbfilename"])
    snapshot.unlink(missing_ok=True)
    (snapshot / "in-the-way").mkdir(parents=True)
    store.config_set("save", "3600 1")
    try:
        _save(store, "err")
        yield
    finally:
        (snapshot / "in-the-way").rmdir()
        snapshot.rmdir()
        _save(store, "ok")
        store.config_set("save", "")


def _save(store: redis.Redis, outcome: str) -> None:
    store.bgsave()
    _until(lambda: store.info("persistence")["rdb_last_bgsave_status"] == outcome)


def _until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not true():
        assert time.monotonic() < deadline, "the store never came to it"
        time.sleep(0.02)
