"""The web role: uvicorn on the console's ASGI application."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import uvicorn
from django.conf import settings

from hbus_console.lean import without
from hbus_console.nodes.beat import NodeBeat
from hbus_console.supervisor.punctual import PunctualProtocol
from hbus_console.wiring import store


def run(_: int) -> None:
    """Serve until SIGTERM; open streams get the grace to end."""
    _load_framework()
    turned_ms = _now_ms()

    async def turned() -> None:
        nonlocal turned_ms
        turned_ms = _now_ms()

    server = uvicorn.Server(config("hbus_console.asgi:application", settings.TRUSTED_PROXIES, turned))
    beat = NodeBeat(
        store.client(),
        settings.HBUS_PREFIX,
        name=store.node_name(),
        role="web",
        turned_ms=lambda: turned_ms,
        detail=lambda: {"requests": server.server_state.total_requests, "open": len(server.server_state.connections)},
    ).start()
    try:
        server.run()
    finally:
        beat.stop()
        store.close(1.0)


def config(
    application: Callable[..., Any] | str, proxies: Sequence[str], turned: Callable[[], Awaitable[None]]
) -> uvicorn.Config:
    """How ``application`` is served. ``turned`` is called about every second while the loop turns.

    A client is who is connected. Only of ``proxies`` is it believed for whom they ask, and over which scheme: left to
    itself, uvicorn believes whatever comes from this machine, and a guesser would have an address for every guess.
    """
    return uvicorn.Config(
        application,
        http=PunctualProtocol,
        host=settings.BIND,
        port=settings.PORT,
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=bool(proxies),
        forwarded_allow_ips=list(proxies),
        timeout_graceful_shutdown=settings.HBUS_GRACE_S,
        callback_notify=turned,
        timeout_notify=1,
    )


def _load_framework() -> None:
    """What the REST framework supports and this installation has no use for would be 15 MB."""
    postgresql = any(database["ENGINE"].endswith("postgresql") for database in settings.DATABASES.values())
    with without("requests", *(() if postgresql else ("django.contrib.postgres.fields",))):
        # Loaded only while what it is to do without is hidden.
        import rest_framework.compat  # noqa: F401 - for its effect


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
