"""The process that :mod:`hbus_console.bench.hosted` watches: a consumer role's host and stamp, without a database."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from functools import partial
from typing import Any

import django
import redis

from engine.bus.breaker_board import RedisBreakers
from engine.bus.consumer import Consumer
from engine.bus.policy import SubscriptionPolicy
from engine.core.store import open_client
from hbus_console.bench import ours
from hbus_console.bench.hosted import topics
from hbus_console.bench.processes import wait_for_go
from hbus_console.bench.rig import GROUP

#: After so many seconds they should all have read.
PATIENCE_S = 300.0


def _host(task: dict[str, Any], client: redis.Redis) -> Any:
    # As in a worker: not before its apps are ready.
    from hbus_console.consumers.host import SubscriptionHost, Wanted

    transport, breakers, facts = ours.transport_for(task), RedisBreakers(client, task["prefix"]), ours.facts_for(task)

    def made(topic: str) -> Consumer:
        policy = SubscriptionPolicy(topic=topic, group=GROUP)
        return Consumer(transport, policy, lambda _, __: None, name="bench", facts=facts, breakers=breakers)

    wanted = {(topic, GROUP): Wanted((), paused=False, make=partial(made, topic)) for topic in topics(task["number"])}
    return SubscriptionHost(lambda: wanted)


def main() -> None:
    django.setup()
    # Likewise.
    from hbus_console.nodes.beat import NodeBeat

    task = json.loads(sys.argv[1])
    client = open_client(task["url"], health_check_interval=30)
    host = _host(task, client)
    beat = NodeBeat(
        client,
        task["prefix"],
        name="bench",
        role="consumer",
        detail=lambda: {"consumers": [asdict(each) for each in host.statuses().values()]},
    )
    wait_for_go()
    begun = time.monotonic()
    host.start()
    beat.start()
    while sum(each.state == "running" for each in host.statuses().values()) < task["number"]:
        if time.monotonic() - begun > PATIENCE_S:
            states = [each for each in host.statuses().values() if each.state != "running"]
            raise SystemExit(f"{len(states)} do not read: {[each.last_error for each in states[:3]]}")
        time.sleep(0.05)
    print(f"reading {time.monotonic() - begun}", flush=True)
    # Watched until it is killed.
    sys.stdin.read()


if __name__ == "__main__":
    main()
