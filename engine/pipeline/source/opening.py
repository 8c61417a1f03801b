"""The store that a source reads, opened in whatever process reads it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from engine.bus import BusConfig, Rereads, open_transport
from engine.core.errors import ConfigurationError
from engine.pipeline.spool.files import spools_beside
from engine.pipeline.spool.reading import SpoolReader

#: Where a program finds its bus unless it says otherwise: by option, the variable of the environment.
FROM_ENVIRONMENT = {"transport": "HBUS_BUS_TRANSPORT", "url": "HBUS_BUS_URL", "prefix": "HBUS_BUS_PREFIX"}
#: Named in the place of a transport: the spools of topics whose own one cannot be read again; ``url`` is their folder.
SPOOL = "spool"


def config_of(options: Mapping[str, str]) -> BusConfig:
    """By ``transport``, ``url`` and ``prefix``. Raises :class:`ConfigurationError` where no store is named."""
    said = {name: options.get(name) or os.environ.get(variable, "") for name, variable in FROM_ENVIRONMENT.items()}
    if options.get("transport") == SPOOL:
        # The store in the environment is another one.
        said["url"] = options.get("url") or _spools_of_the_lake()
    if not said["url"]:
        raise ConfigurationError(
            "The store of the topic is not named.",
            remedy="Set the option url, or HBUS_BUS_URL in the environment of the driver.",
            field="url",
        )
    usual = BusConfig()
    return BusConfig(said["transport"] or usual.type, said["url"], said["prefix"] or usual.prefix)


def _spools_of_the_lake() -> str:
    lake = os.environ.get("HBUS_LAKE", "")
    if not lake:
        raise ConfigurationError(
            "The folder of the spools is not named.",
            remedy="Set the option url to the folder spool in that of the archive, or HBUS_LAKE in the environment of"
            " the driver to that of the archive.",
            field="url",
        )
    return str(spools_beside(Path(lake)))


@contextmanager
def opened(config: BusConfig) -> Iterator[Rereads]:
    """Its topics, for one piece of work. Raises :class:`ConfigurationError` for a transport that cannot read again, and
    where there is no folder of spools."""
    if config.type == SPOOL:
        with closing(_spools(Path(config.url))) as spools:
            yield spools
        return
    transport = open_transport(config)
    try:
        admin = transport.admin
        if not isinstance(admin, Rereads):
            raise ConfigurationError(
                f"What the transport {config.type} has carried cannot be read again.",
                remedy="Read topics of a transport that keeps what was settled, such as redis_stream. Have others"
                f" archived, and read their spools: transport={SPOOL}.",
                field="transport",
            )
        yield admin
    finally:
        transport.close()


def _spools(root: Path) -> SpoolReader:
    if not root.is_dir():
        raise ConfigurationError(
            f"There are no spools at {root}.",
            remedy="Name the folder spool in that of the archive, as this process reaches it. There is one once a topic"
            " on a transport such as nsq is archived.",
            field="url",
        )
    return SpoolReader(root)
