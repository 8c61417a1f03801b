"""A node of the quotas that is asked for more than there is, until it is killed. Run by ``test_quota_processes``.

Arguments: where its store is, the prefix, its name, tokens a second, the book, and a file in which it counts what it
admitted: eight bytes for each tenth of a second since the test began, which outlive it.
"""

from __future__ import annotations

import mmap
import struct
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from engine.core.prepared import prepared
from engine.core.store import open_client
from engine.quota import Book, QuotaNode
from engine.quota.planes.redis import RedisControlPlane

SLOT_S = 0.1
#: Of ten requests one is of a tenant that was never seen before.
NEW_OF = 10
#: As in the console: a control plane that has not answered for so long is away.
ANSWER_S = 1.0
TURN_S = 0.005


def main(arguments: Sequence[str]) -> None:
    url, prefix, name, demand, book, counts = arguments
    client = open_client(url, answer_timeout_s=ANSWER_S, connect_timeout_s=ANSWER_S)
    node = QuotaNode(name, RedisControlPlane(client, prefix), book=msgspec.json.decode(book, type=prepared(Book)))
    node.start()
    with Path(counts).open("r+b") as file:
        counted = mmap.mmap(file.fileno(), 0)
    began = struct.unpack_from("d", counted, 0)[0]
    # Tenants of another life of this node are others.
    asked, life, due = 0, time.monotonic(), time.monotonic()
    while True:
        now = time.monotonic()
        while due <= now:
            due += 1 / float(demand)
            asked += 1
            tenant = f"{name}-{life}-{asked}" if asked % NEW_OF == 0 else f"t{asked % 5}"
            # Who does not wait: so one thread asks as often as it is to.
            if node.limiter("api", "search", tenant).reserve(1, 0).ok:
                slot = 8 * (1 + int((time.monotonic() - began) / SLOT_S))
                struct.pack_into("q", counted, slot, struct.unpack_from("q", counted, slot)[0] + 1)
        time.sleep(TURN_S)


if __name__ == "__main__":
    main(sys.argv[1:])
