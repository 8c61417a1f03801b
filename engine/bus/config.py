"""Which transport, and where: the one setting that switches backends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class BusConfig:
    """``type`` names a transport registered under the entry point group ``hbus.transports``, or a built-in one."""

    type: str = "redis_stream"
    #: Where the store is; not shown, because it may hold a password.
    url: str = field(default="", repr=False)
    #: First part of every key or topic name in the store; keeps installations apart.
    prefix: str = "hbus"
    #: What only this transport knows.
    options: Mapping[str, str] = field(default_factory=dict)
