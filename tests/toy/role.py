from __future__ import annotations

import os
import signal
import threading

from django.conf import settings

from hbus_console.nodes.beat import NodeBeat
from hbus_console.wiring import store


def run(slot: int) -> None:
    """Walk the streets until SIGTERM."""
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    beat = NodeBeat(
        store.client(),
        settings.HBUS_PREFIX,
        name=store.node_name(),
        role="lamplighter",
        slot=os.environ.get("HBUS_SLOT", str(slot)),
    )
    beat.start()
    told.wait()
    beat.stop()
    store.close(1.0)
