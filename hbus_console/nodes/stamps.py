"""Who is alive: every role process stamps one field of a hash in the store, and pages and probes read it.

The supervisor reads it too, so nothing heavy is imported here; see :mod:`~.beat` for who stamps.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

import msgspec
import redis

from engine.core.clock import Clock
from engine.core.error_text import text_of
from engine.core.facts import Moment
from engine.core.prepared import prepared
from hbus_console.nodes.clocks import ClockDifference
from hbus_console.nodes.reports import why_unreadable

#: A loop that last turned so long ago has stopped, although its process may live.
SILENT_AFTER_MS = 10_000
#: A process that has not stamped for so long has stopped whole, or its way to the store has.
STILL_AFTER_MS = 5_000
#: A silent node is shown this long before its entry is dropped.
FORGET_AFTER_MS = 24 * 3600 * 1000

_log = logging.getLogger(__name__)


class Stamp(msgspec.Struct):
    """What a process writes about itself."""

    role: str
    pid: int
    host: str
    slot: str
    started_ms: Moment
    #: When its loop last turned.
    stamp_ms: Moment
    detail: dict[str, Any] = {}
    clock: ClockDifference | None = None
    #: When this was written; 0 from a node that does not tell.
    beat_ms: Moment = 0

    def silent(self, now_ms: int) -> bool:
        """Whether its loop or the process itself has stopped, as far as anybody can tell at ``now_ms``."""
        still = bool(self.beat_ms) and now_ms - self.beat_ms > STILL_AFTER_MS
        return still or now_ms - self.stamp_ms > SILENT_AFTER_MS


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
    #: See :meth:`Stamp.silent`.
    silent: bool
    #: What its role tells, as far as it is a :class:`~.reports.Report`; empty when it is none.
    detail: Mapping[str, Any] = field(default_factory=dict)
    #: How far its clock was from the store's with its last stamp; ``None`` from a node that does not tell.
    clock: ClockDifference | None = None


def of_role(nodes: Iterable[Node], role: str) -> list[Node]:
    """Those among ``nodes`` that live and have this role."""
    return [node for node in nodes if node.role == role and not node.silent]


def key(prefix: str) -> str:
    """The hash of stamps: field = node name, value = JSON."""
    return f"{prefix}:{{cluster}}:nodes"


def read_stamps(store: redis.Redis, prefix: str) -> Iterator[tuple[bytes, Stamp | None]]:
    """Every entry of the hash, with ``None`` for a stamp that cannot be read. Raises ``redis.RedisError``."""
    for name, raw in cast("dict[bytes, bytes]", store.hgetall(key(prefix))).items():
        try:
            yield name, msgspec.json.decode(raw, type=prepared(Stamp))
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            _say_once("the stamp of node %s cannot be read: %s", _text(name), text_of(error))
            yield name, None


def read_nodes(store: redis.Redis, prefix: str, clock: Clock) -> list[Node]:
    """Every node that stamped within the last day, by role and name; one whose stamp cannot be read is left out and
    logged. Raises ``redis.RedisError``.
    """
    now_ms = clock.now_ms()
    found = []
    for field_name, stamp in read_stamps(store, prefix):
        age_ms = now_ms - stamp.stamp_ms if stamp is not None else 0
        if stamp is None or age_ms > FORGET_AFTER_MS:
            continue
        name = _text(field_name)
        why = why_unreadable(stamp.detail)
        if why:
            _say_once("what node %s tells in its stamp cannot be read: %s", name, why)
        found.append(
            Node(
                name=name,
                role=stamp.role,
                slot=stamp.slot,
                host=stamp.host,
                pid=stamp.pid,
                started_ms=stamp.started_ms,
                stamp_ms=stamp.stamp_ms,
                silent=stamp.silent(now_ms),
                detail={} if why else stamp.detail,
                clock=stamp.clock,
            )
        )
    return sorted(found, key=lambda node: (node.role, node.name))


def _text(name: bytes) -> str:
    return name.decode("utf-8", "replace")


# Pages ask every few seconds, and what is wrong stays so.
@lru_cache(maxsize=256)
def _say_once(message: str, name: str, why: str) -> None:
    _log.warning(message, name, why)
