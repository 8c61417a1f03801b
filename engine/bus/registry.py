"""Finds a transport by the name in the configuration: the built-in ones and any installed entry point."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import cast

from engine.bus.config import BusConfig
from engine.bus.transport import Transport
from engine.core.clock import Clock
from engine.core.errors import ConfigurationError

ENTRY_POINT_GROUP = "hbus.transports"

#: ``module:function`` of the transports that ship with hbus; each takes (config, clock).
BUILT_IN = {
    "redis_stream": "engine.bus.transports.redis_stream:open_transport",
    "nsq": "engine.bus.transports.nsq:open_transport",
    "memory": "engine.bus.transports.memory:open_transport",
}

Factory = Callable[[BusConfig, Clock | None], Transport]


def known_transports() -> list[str]:
    """The names ``BusConfig.type`` may take."""
    return sorted({*BUILT_IN, *(point.name for point in entry_points(group=ENTRY_POINT_GROUP))})


def open_transport(config: BusConfig, clock: Clock | None = None) -> Transport:
    """Open the transport ``config.type``; raises :class:`ConfigurationError` for an unknown one."""
    if target := BUILT_IN.get(config.type):
        module, _, function = target.partition(":")
        return cast(Factory, getattr(import_module(module), function))(config, clock)
    for point in entry_points(group=ENTRY_POINT_GROUP, name=config.type):
        return cast(Factory, point.load())(config, clock)
    raise ConfigurationError(
        f"There is no transport called {config.type!r}.",
        remedy=f"Choose one of {', '.join(known_transports())}.",
        field="HBUS_TRANSPORT",
    )
