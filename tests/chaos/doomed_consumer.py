"""A consumer process that takes messages and holds them until it is killed. Run by ``test_consumer_kill``.

Arguments: prefix, topic, group, consumer, lease in ms, how many to take, heartbeat yes or no; the store's address comes
in the environment. Prints the bodies it took, one a line.
"""

from __future__ import annotations

import os
import sys
import time

from engine.bus.config import BusConfig
from engine.bus.transports.redis_stream import open_transport


def main() -> None:
    prefix, topic, group, consumer, lease_ms, number, heartbeat = sys.argv[1:]
    transport = open_transport(BusConfig(url=os.environ["REDIS_URL"], prefix=prefix))
    receiver = transport.receiver(topic, group, consumer=consumer, lease_ms=int(lease_ms))
    held: list[str] = []
    while len(held) < int(number):
        for delivery in receiver.receive(int(number) - len(held), 5):
            held.append(delivery.receipt)
            print(delivery.body.decode(), flush=True)
    while True:
        time.sleep(int(lease_ms) / 4000)
        if heartbeat == "yes":
            receiver.extend(held)


if __name__ == "__main__":
    main()
