"""A handler that takes its time and leaves a line in ``STATE/slow.log`` when it begins and when it ends."""

from __future__ import annotations

import os
import time
from pathlib import Path

from engine.bus.handlers import Context, subscription

#: Seconds a message takes.
TAKES_S = 0.5


@subscription(topic="slow.work", group="tortoise", concurrency=2, lease_s=5)
def work(event: dict[str, int], context: Context) -> None:
    note("begin", event, context)
    time.sleep(TAKES_S)
    note("end", event, context)


def note(what: str, event: dict[str, int], context: Context) -> None:
    # One small append is atomic between processes.
    with (Path(os.environ["STATE"]) / "slow.log").open("a", encoding="utf-8") as log:
        log.write(f"{what} {event['n']} attempt {context.attempt}\n")
