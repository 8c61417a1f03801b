"""The parts of a slot: where its work is divided, each part is a run of its own, and its name says which.

A shard is called ``3/8``, counted from 0; the part of a node ``@web-1``. What is not divided
is one part without a name.
"""

from __future__ import annotations

from typing import NamedTuple

WHOLE = ""
#: Shards of a slot: each is a row.
MOST_SHARDS = 100
_NODE = "@"


class Shard(NamedTuple):
    """One of ``of`` parts, from 0 on."""

    number: int
    of: int


def shards(number: int) -> tuple[str, ...]:
    """The parts of a slot that is done in so many shards; one is the whole."""
    return tuple(f"{each}/{number}" for each in range(number)) if number > 1 else (WHOLE,)


def on_nodes(names: tuple[str, ...]) -> tuple[str, ...]:
    """The parts of a slot that is done on each of these nodes."""
    return tuple(f"{_NODE}{name}" for name in names)


def node_of(part: str) -> str:
    """The only node that may do it; empty: any may."""
    return part.removeprefix(_NODE) if part.startswith(_NODE) else ""


def shard_of(part: str) -> Shard | None:
    """Which shard it is, if it is one."""
    number, slash, of = part.partition("/")
    return Shard(int(number), int(of)) if slash and not node_of(part) else None


def host_of(process: str) -> str:
    """The host of a process, which parts of slots call a node: ``HOST:ROLE:SLOT`` is what a process is called."""
    return process.rsplit(":", 2)[0]


def host_of_owner(owner: str) -> str:
    """The host of an owner: ``HOST:ROLE:SLOT:PROCESS#…`` is what a worker calls itself."""
    return host_of(owner.rsplit(":", 1)[0])


def may_do(owner: str, part: str) -> bool:
    """Whether this owner is on a node that may do the part."""
    return node_of(part) in ("", host_of_owner(owner))
