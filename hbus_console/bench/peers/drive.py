"""Measures a task queue on the same store: how fast it takes tasks in, and how fast one worker gets through them."""

from __future__ import annotations

import importlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import redis

from hbus_console.bench.processes import Child, report, wait_for_go
from hbus_console.state import ROOT


def _celery_left(client: redis.Redis) -> int:
    return int(client.llen("celery")) + int(client.hlen("unacked"))


def _dramatiq_left(client: redis.Redis) -> int:
    return int(client.hlen("dramatiq:default.msgs"))


def _taskiq_left(client: redis.Redis) -> int:
    groups: Any = client.xinfo_groups("taskiq")
    return int(groups[0]["lag"]) + int(groups[0]["pending"])


#: Peer -> (module with app, WORKER and publish; what it needs; how many tasks are left in the store).
PEERS: dict[str, tuple[str, str, Callable[[redis.Redis], int]]] = {
    "celery": ("hbus_console.bench.peers.celery_app", "celery", _celery_left),
    "dramatiq": ("hbus_console.bench.peers.dramatiq_app", "dramatiq", _dramatiq_left),
    "taskiq": ("hbus_console.bench.peers.taskiq_app", "taskiq_redis", _taskiq_left),
}


def installed(peer: str) -> bool:
    """Whether the peer's package is there (requirements-dev.txt)."""
    return find_spec(PEERS[peer][1]) is not None


def publish_rate(peer: str, url: str, count: int, size: int) -> float:
    """Tasks taken in per second, one by one, as these queues do it."""
    os.environ["PEER_URL"] = url
    child = Child("hbus_console.bench.peers.drive", {"peer": peer, "count": count, "size": size})
    child.go()
    done = child.result()
    return float(done["count"] / (done["ended"] - done["started"]))


def _environment(url: str) -> dict[str, str]:
    # A peer is measured as it comes: without the Django of this command around it.
    rest = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    return {**rest, "PEER_URL": url}


def consume_rate(peer: str, url: str, limit_s: float = 120.0) -> float:
    """Tasks per second that one worker gets through, from the first one gone to the last one settled."""
    module = importlib.import_module(PEERS[peer][0])
    left = PEERS[peer][2]
    client = redis.Redis.from_url(url)
    total = left(client)
    command = shlex.split(module.WORKER)
    worker = subprocess.Popen(
        [str(Path(sys.executable).parent / command[0]), *command[1:]],
        cwd=ROOT,
        env=_environment(url),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return _watch(lambda: left(client), total, limit_s)
    finally:
        os.killpg(worker.pid, signal.SIGTERM)
        try:
            worker.wait(15)
        except subprocess.TimeoutExpired:
            os.killpg(worker.pid, signal.SIGKILL)


def _watch(left: Callable[[], int], total: int, limit_s: float) -> float:
    deadline = time.monotonic() + limit_s
    begun: tuple[float, int] | None = None
    while time.monotonic() < deadline:
        now, remaining = time.monotonic(), left()
        if begun is None and remaining < total:
            begun = now, remaining
        if remaining == 0 and begun is not None:
            return (begun[1] or total) / max(now - begun[0], 1e-6)
        time.sleep(0.01)
    raise RuntimeError(f"{left()} of {total} tasks were left after {limit_s:g} s")


def main() -> None:
    task = json.loads(sys.argv[1])
    module = importlib.import_module(PEERS[task["peer"]][0])
    body = "x" * task["size"]
    wait_for_go()
    started = time.time()
    module.publish(task["count"], body)
    report(count=task["count"], started=started, ended=time.time())


if __name__ == "__main__":
    main()
