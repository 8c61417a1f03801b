"""Disks that are full: for this process, and for a store of a test's own."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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


@contextmanager
def full_disk(client: redis.Redis, folder: Path) -> Iterator[None]:
    """While it lasts, a folder lies where the snapshot of the store in ``folder`` should be written."""
    snapshot = folder / str(client.config_get("dbfilename")["dbfilename"])
    snapshot.unlink(missing_ok=True)
    (snapshot / "in-the-way").mkdir(parents=True)
    client.config_set("save", "3600 1")
    try:
        _save(client, "err")
        yield
    finally:
        (snapshot / "in-the-way").rmdir()
        snapshot.rmdir()
        _save(client, "ok")
        client.config_set("save", "")


def _save(client: redis.Redis, outcome: str) -> None:
    client.bgsave()
    deadline = time.monotonic() + 10
    while client.info("persistence")["rdb_last_bgsave_status"] != outcome:
        assert time.monotonic() < deadline, f"the snapshot did not end with {outcome}"
        time.sleep(0.02)
