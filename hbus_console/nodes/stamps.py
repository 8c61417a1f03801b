"""Who is alive: every role process stamps one field of a hash in the store, and pages and probes read it.

The supervisor reads it too, so nothing heavy is imported here; see :mod:`~.beat` for who stamps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec
import redis

from engine.core.clock import Clock
from hbus_console.nodes.clocks import ClockDifference

#: A stamp older than this means the process, its loop or its way to the store has stopped.
SILENT_AFTER_MS = 10_000
#: A silent node is shown this long before its entry is dropped.
FORGET_AFTER_MS = 24 * 3600 * 1000


class Stamp(msgspec.Struct):
    """What a process writes about itself."""

    role: str
    pid: int
    host: str
    slot: str
    started_ms: int
    stamp_ms: int
    detail: dict[str, Any] = {}
    clock: ClockDifference | None = None


@dataclass(frozen=True)
class Node:
    """One role process as it last reported."""

    name: str
    role: str
    slot: str
    host: str
    pid: int
    started_ms: int
    stamp_ms: int
    #: True once the last stamp is older than :data:`SILENT_AFTER_MS`.
    silent: bool
    detail: Mapping[str, Any] = field(default_factory=dict)
    #: How far its clock was from the store's with its last stamp; ``None`` from a node that does not tell.
    clock: ClockDifference | None = None


def key(prefix: str) -> str:
    """The hash of stamps: field = node name, value = JSON."""
    return f"{prefix}:{{cluster}}:nodes"


def read_nodes(store: redis.Redis, prefix: str, clock: Clock) -> list[Node]:
    """Every node that stamped within the last day, by role and name. Raises ``redis.RedisError``."""
    now_ms = clock.now_ms()
    found = []
    for name, raw in cast("dict[bytes, bytes]", store.hgetall(key(prefix))).items():
        stamp = msgspec.json.decode(raw, type=Stamp)
        age_ms = now_ms - stamp.stamp_ms
        if age_ms > FORGET_AFTER_MS:
            continue
        found.append(
            Node(
                name=name.decode(),
                role=stamp.role,
                slot=stamp.slot,
                host=stamp.host,
                pid=stamp.pid,
                started_ms=stamp.started_ms,
                stamp_ms=stamp.stamp_ms,
                silent=age_ms > SILENT_AFTER_MS,
                detail=stamp.detail,
                clock=stamp.clock,
            )
        )
    return sorted(found, key=lambda node: (node.role, node.name))
