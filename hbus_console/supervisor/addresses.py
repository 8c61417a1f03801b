"""Where the roles of this app listen, as ``manage.py status`` shows it."""

from __future__ import annotations

from hbus_console.supervisor.installation import Installation


def store(at: Installation) -> str:
    return f"127.0.0.1:{at.store_port}"


def nsqd(at: Installation) -> str:
    return f"127.0.0.1:{at.nsqd_ports[1]}"


def web(at: Installation) -> str:
    return at.console_url
