"""Celery's beat, as it comes: so many entries that are due at once, until the last of them is sent."""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta
from typing import Any

from celery import Celery
from celery.beat import Scheduler
from celery.schedules import schedule

from hbus_console.bench.processes import report, wait_for_go

_EVERY = timedelta(hours=1)


def main(task: dict[str, Any]) -> None:
    """``task``: url, count."""
    app = Celery("beat", broker=task["url"])
    app.conf.beat_schedule = {
        f"job{number}": {"task": "close", "schedule": schedule(_EVERY)} for number in range(task["count"])
    }
    scheduler: Any = Scheduler(app=app)
    for entry in scheduler.schedule.values():
        entry.last_run_at -= 2 * _EVERY
    # Its connection is made before the clock runs, as ours is.
    scheduler.producer.connection.ensure_connection()
    wait_for_go()
    began = time.perf_counter()
    while sum(entry.total_run_count for entry in scheduler.schedule.values()) < task["count"]:
        scheduler.tick()
    report(took_s=time.perf_counter() - began)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
