"""The keeper role, in the foreground."""

from __future__ import annotations

import signal
import threading

import structlog
from django.conf import settings

from hbus_console.keeper.duties import all_duties
from hbus_console.keeper.keeper import Keeper

_log = structlog.get_logger(__name__)


def run(_: int = 0) -> None:
    """Run the duties until SIGTERM; several keepers share them by leases."""
    told = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: told.set())
    keeper = Keeper(all_duties())
    keeper.start()
    _log.info("keeper started")
    told.wait()
    keeper.stop(settings.HBUS_GRACE_S)
    _log.info("keeper stopped")
