"""A consumer that says each message it has handled, and then settles it: ``python -m tests.chaos.handling_consumer``.

Reads one line of JSON: url, prefix, options, topic, group, name.
"""

from __future__ import annotations

import json
import sys
import time

from engine.bus.config import BusConfig
from engine.bus.errors import GroupLost
from engine.bus.registry import open_transport
from engine.bus.transport import Settlement
from engine.core.errors import Unavailable

LEASE_MS = 2_000
#: How long a handler takes, in seconds: meanwhile nsqd notes that it has read what it sent, and keeps it nowhere else.
HANDLED_S = 0.2


def main() -> None:
    told = json.loads(sys.stdin.readline())
    config = BusConfig(type="nsq", url=told["url"], prefix=told["prefix"], options=told["options"])
    receiver = open_transport(config).receiver(told["topic"], told["group"], consumer=told["name"], lease_ms=LEASE_MS)
    while True:
        try:
            batch = receiver.receive(50, 0.2)
            time.sleep(HANDLED_S)
            for each in batch:
                print(each.body.decode(), flush=True)
            receiver.settle([Settlement(each.receipt) for each in batch])
        except (Unavailable, GroupLost):
            time.sleep(0.05)


if __name__ == "__main__":
    main()
