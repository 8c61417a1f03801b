"""redbeat, as ``celery beat -S redbeat.RedBeatScheduler`` runs it: so many entries due at once, until all are sent."""

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import redis
from celery import Celery
from celery.schedules import schedule
from redbeat import RedBeatScheduler
from redbeat.schedulers import acquire_distributed_beat_lock

from hbus_console.bench.processes import report, wait_for_go

_EVERY = timedelta(hours=1)
#: Its keys, and the tasks' queue.
_NAME = "redbeat"


def main(task: dict[str, Any]) -> None:
    """``task``: url, count."""
    client = redis.Redis.from_url(task["url"])
    # Of the run before: what it leaves is due an hour later, and its lock is held for minutes.
    if left := [*client.scan_iter(f"{_NAME}:*"), *client.scan_iter(_NAME)]:
        client.delete(*left)
    app = Celery(_NAME, broker=task["url"])
    app.conf.task_default_queue = _NAME
    app.conf.redbeat_redis_url = task["url"]
    app.conf.beat_schedule = {
        f"job{number}": {"task": "close", "schedule": schedule(_EVERY)} for number in range(task["count"])
    }
    # Not of the broker's options, nor of its own.
    app.conf.redbeat_redis_options = {}
    scheduler: Any = RedBeatScheduler(app=app)
    acquire_distributed_beat_lock(SimpleNamespace(scheduler=scheduler))
    long_ago = datetime.now(UTC) - 2 * _EVERY
    for name in app.conf.beat_schedule:
        key = scheduler.Entry.generate_key(app, name)
        scheduler.Entry.from_key(key, app=app).reschedule(long_ago)
    # Its connection is made before the clock runs, as ours is.
    scheduler.producer.connection.ensure_connection()
    wait_for_go()
    began = time.perf_counter()
    while client.llen(_NAME) < task["count"]:
        scheduler.tick()
    took_s = time.perf_counter() - began
    scheduler.close()
    report(took_s=took_s)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
