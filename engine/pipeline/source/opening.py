"""The store that a source reads, opened in whatever process reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from engine.bus import BusConfig, Rereads, open_transport
from engine.core.errors import ConfigurationError

#: Where a program finds its bus unless it says otherwise: by option, the variable of the environment.
FROM_ENVIRONMENT = {"transport": "HBUS_BUS_TRANSPORT", "url": "HBUS_BUS_URL", "prefix": "HBUS_BUS_PREFIX"}


def config_of(options: Mapping[str, str]) -> BusConfig:
    """By ``transport``, ``url`` and ``prefix``. Raises :class:`ConfigurationError` where no store is named."""
    said = {name: options.get(name) or os.environ.get(variable, "") for name, variable in FROM_ENVIRONMENT.items()}
    if not said["url"]:
        raise ConfigurationError(
            "The store of the topic is not named.",
            remedy="Set the option url, or HBUS_BUS_URL in the environment of the driver.",
            field="url",
        )
    usual = BusConfig()
    return BusConfig(said["transport"] or usual.type, said["url"], said["prefix"] or usual.prefix)


@contextmanager
def opened(config: BusConfig) -> Iterator[Rereads]:
    """Its topics, for one piece of work. Raises :class:`ConfigurationError` for a transport that cannot read again."""
    transport = open_transport(config)
    try:
        admin = transport.admin
        if not isinstance(admin, Rereads):
            raise ConfigurationError(
                f"What the transport {config.type} has carried cannot be read again.",
                remedy="Read topics of a transport that keeps what was settled, such as redis_stream.",
                field="transport",
            )
        yield admin
    finally:
        transport.close()
