"""One node as a process: asks far more than it gets until it is killed, and tells every 50 ms what it was given."""

from __future__ import annotations

import sys
import time

from engine.core.store import open_client
from engine.quota import QuotaNode
from engine.quota.planes.redis import RedisControlPlane

#: How often it tells, and how long whoever was refused waits, in seconds.
TELL_S, PAUSE_S = 0.05, 0.002
#: A control plane that has not answered for so long is away, as in an installation.
ANSWER_S = 1.0


def main(url: str, prefix: str, name: str) -> None:
    """Prints ``SECONDS ADMITTED SOURCE`` by the wall clock of the machine, which all nodes share."""
    client = open_client(url, answer_timeout_s=ANSWER_S, connect_timeout_s=ANSWER_S)
    node = QuotaNode(name, RedisControlPlane(client, prefix))
    node.start()
    while not node.version:
        time.sleep(0.01)
    limiter = node.limiter("api", "search", "tenant")
    admitted, told_at = 0, time.time()
    print("ready", flush=True)
    while True:
        if limiter.allow():
            admitted += 1
        else:
            time.sleep(PAUSE_S)
        now = time.time()
        if now - told_at >= TELL_S:
            print(f"{told_at:.3f} {admitted} {limiter.status().source.value}", flush=True)
            admitted, told_at = 0, now


if __name__ == "__main__":
    main(*sys.argv[1:])
