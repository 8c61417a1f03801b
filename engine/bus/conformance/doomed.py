"""A process that takes messages and holds them until it is killed: ``python -m engine.bus.conformance.doomed``.

Reads one line of JSON: factory, config, topic, group, lease_ms, number. Says ``holding`` once it has them all.
"""

from __future__ import annotations

import json
import sys
import time
from pkgutil import resolve_name

from engine.bus.config import BusConfig


def main() -> None:
    told = json.loads(sys.stdin.readline())
    transport = resolve_name(told["factory"])(BusConfig(**told["config"]), None)
    receiver = transport.receiver(told["topic"], told["group"], consumer="doomed", lease_ms=told["lease_ms"])
    held: list[str] = []
    while len(held) < told["number"]:
        held += [delivery.receipt for delivery in receiver.receive(told["number"] - len(held), 0.2)]
        receiver.extend(held)
    print("holding", flush=True)
    while True:
        time.sleep(told["lease_ms"] / 4000)
        receiver.extend(held)


if __name__ == "__main__":
    main()
