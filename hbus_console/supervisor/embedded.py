"""The programs of others that hbus brings along: what each is started by."""

from __future__ import annotations

from hbus_console.state import secret
from hbus_console.supervisor import nsqd, store
from hbus_console.supervisor.installation import Installation


def store_command(at: Installation) -> list[str]:
    """The embedded store's server on a configuration written now."""
    config = store.write_config(at.state / "store", port=at.store_port, password=secret("store"), fsync=at.store_fsync)
    return [str(store.find_binary()), str(config)]


def nsqd_command(at: Installation) -> list[str]:
    """The embedded nsqd. Raises ``ConfigurationError`` when it is not there and cannot be built."""
    tcp_port, http_port = at.nsqd_ports
    return nsqd.command(nsqd.build(), at.state / "nsqd", tcp_port=tcp_port, http_port=http_port)
