"""Where the embedded store and nsqd of an installation were last started: what runs beside them finds them by it."""

from __future__ import annotations

import os
from pathlib import Path

from hbus_console.state import secret


def store_port(state: Path) -> int | None:
    """The port that the embedded store was last started on."""
    try:
        return int((state / "run" / "store-port").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def store_url(state: Path) -> str:
    """The REDIS_URL of the embedded store; empty when there never was one."""
    port = store_port(state)
    return "" if port is None else loopback_url(port, secret("store"))


def loopback_url(port: int, password: str) -> str:
    """The REDIS_URL of a store on this machine."""
    return f"redis://:{password}@127.0.0.1:{port}/0"


def remember_store(state: Path, port: int) -> None:
    _write(state, "store-port", str(port))


def nsqd_ports(state: Path) -> tuple[int, int] | None:
    """The TCP and the HTTP port that the embedded nsqd was last started on."""
    try:
        tcp, http = (state / "run" / "nsqd-ports").read_text(encoding="utf-8").split()
        return int(tcp), int(http)
    except (OSError, ValueError):
        return None


def nsqd_urls(state: Path) -> tuple[str, ...]:
    """The HTTP address of the embedded nsqd; none when there never was one."""
    ports = nsqd_ports(state)
    return () if ports is None else (f"http://127.0.0.1:{ports[1]}",)


def remember_nsqd(state: Path, ports: tuple[int, int]) -> None:
    _write(state, "nsqd-ports", f"{ports[0]} {ports[1]}")


def _write(state: Path, name: str, text: str) -> None:
    """In one step: a reader sees the old or the new one."""
    folder = state / "run"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = folder / f".{name}.{os.getpid()}"
    draft.write_text(text, encoding="utf-8")
    draft.replace(folder / name)
