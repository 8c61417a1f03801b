"""Kills of the keeper while it works through one operation, and what lies in a topic afterwards."""

from __future__ import annotations

import random
import sqlite3
from typing import Any

from engine.bus.config import BusConfig
from engine.bus.message import Message, decode
from engine.bus.registry import open_transport
from tests.chaos.rig import Rig


def handled(rig: Rig) -> int:
    """How many results the operation has."""
    return int(_read(rig, "SELECT COUNT(*) FROM operations_operationitem"))


def _read(rig: Rig, query: str) -> Any:
    """One value, read beside the keeper, which holds no lock for long."""
    with sqlite3.connect(f"file:{rig.state / 'hbus.sqlite3'}?mode=ro", uri=True, timeout=10) as database:
        return database.execute(query).fetchone()[0]


def lying_in(rig: Rig, topic: str) -> list[Message]:
    """All messages of a topic, in the order of storing."""
    transport = open_transport(BusConfig(url=rig.store.url, prefix=rig.prefix))
    found: list[Message] = []
    after = ""
    while True:
        page = transport.admin.browse(topic, after=after, limit=1_000)
        found += [decode(entry.body) for entry in page.entries]
        after = page.next_position
        if not after:
            break
    transport.close()
    return found


def killed_on_the_way(rig: Rig, topic: str, *, results: int, kills: int, seed: int) -> list[Message]:
    """Kill the keeper so often, with work done and work left, and let another take over; once all ``results`` and
    their copies in ``topic`` are there, these are returned."""
    rng = random.Random(seed)
    for number in range(kills):
        rig.start("keeper")
        # A little more than is due, so that it falls somewhere else between two steps each time.
        least = results * (number + 1) // (kills + 2) + rng.randrange(1, 60)
        rig.await_(lambda least=least: handled(rig) >= least, what=f"result {least}")
        rig.kill("keeper")
    assert handled(rig) < results
    rig.start("keeper")
    rig.await_(lambda: handled(rig) == results, what="every result")
    rig.await_(lambda: len(lying_in(rig, topic)) >= results, what="every copy")
    rig.await_(lambda: _read(rig, "SELECT state FROM operations_operation") != "running", what="the end")
    rig.stop("keeper")
    return lying_in(rig, topic)
